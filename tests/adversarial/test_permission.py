"""Class `permission`: keys that look like somebody's, and rights that nobody gave."""

import json

import pytest

from goclaw.common.auth.audit import read_audit
from goclaw.common.auth.users import login_name
from tests.adversarial.target import Target, read, run

NOBODY = [
    "", " ", "telegram:1 ", " telegram:1", "Telegram:1", "telegram:01", "telegram:\uff11", "telegram:1\0",
    "telegram:1\n", "t\u0435legram:1", "telegram:", "telegram", "1", "*", "tui:root", "tui:*", "tui:bob ",
    "A" * 1_000_000,
]  # fmt: skip
TOOLS = ["read", "write", "edit", "exec", "message", "memory_search", "memory_list", "no_such_tool"]


@pytest.mark.promise("P-tools-per-user")
def test_who_is_not_listed_with_exactly_this_key_has_no_tool(target: Target) -> None:
    assert target.errors(*(read("a.txt") | {"user": key} for key in NOBODY)) == ["unknown tool: read"] * len(NOBODY)
    done = target.run("tool", "run", "read", "--user", "", "--input", '{"path": "a.txt"}')
    assert (done.returncode, done.stdout) == (1, b'{"error": "unknown tool: read"}\n')


@pytest.mark.promise("P-tools-per-user")
def test_forbidden_and_missing_tools_answer_alike_whatever_the_input(target: Target) -> None:
    for user in ("telegram:2", "telegram:999"):
        given: list[dict[str, str]] = [{}, {"path": "/etc"}]
        calls: list[dict[str, object]] = [
            {"tool": tool, "input": each, "user": user} for tool in TOOLS for each in given
        ]
        assert target.errors(*calls) == [f"unknown tool: {tool}" for tool in TOOLS for _ in range(2)]


def test_a_list_means_exactly_what_is_in_it(target: Target) -> None:
    calls: list[dict[str, object]] = [
        {"tool": tool, "input": {}, "user": "telegram:3"} for tool in ("exec", "Exec", "no_such_tool", "write")
    ]
    assert target.errors(*calls) == [
        "unknown tool: exec",
        "unknown tool: Exec",
        "unknown tool: no_such_tool",
        "unknown tool: write",
    ]
    assert target.errors(read("a.txt") | {"user": "telegram:3"}) == [""]


def test_a_user_that_is_no_text_is_refused(target: Target) -> None:
    users = [5, True, [], {}, ["telegram:1"]]
    kinds = ["number", "boolean", "array", "object", "array"]
    errors = target.errors(*(read("a.txt") | {"user": user} for user in users))
    assert errors == [f'field "user": expected string, got {kind}' for kind in kinds]


@pytest.mark.promise("P-tools-per-user")
def test_a_line_without_a_user_is_never_more_than_the_one_on_the_command_line(target: Target) -> None:
    calls = [read("a.txt"), read("a.txt") | {"user": None}]
    assert target.errors(*calls, arguments=("--user", "telegram:2")) == ["unknown tool: read"] * 2


@pytest.mark.promise("P-what-runs-what-asks")
def test_the_owners_yes_is_not_a_yes_for_others(target: Target) -> None:
    target.config.write_text("workspace: work\nstate_dir: state\ntools: {exec: {sandbox: 'off'}}\n")
    asked = [run("echo ran"), run("echo ran") | {"user": "telegram:1"}, run("echo ran") | {"user": "tui:bob"}]
    errors = target.errors(*asked, arguments=("--approve",))
    assert errors[0] == "" and all(error.startswith("approval required: ") for error in errors[1:])
    assert all(error.startswith("approval required: ") for error in target.errors(*asked))


def test_the_owners_yes_for_the_user_of_the_command_line_holds_for_no_other_and_is_in_the_audit_log(
    target: Target,
) -> None:
    target.config.write_text("workspace: work\nstate_dir: state\ntools: {exec: {sandbox: 'off'}}\n")
    asked = [run("echo ran"), run("echo ran") | {"user": "telegram:1"}, run("echo ran") | {"user": "tui:bob"}]
    errors = target.errors(*asked, arguments=("--approve", "--user", "telegram:1"))
    assert errors[:2] == ["", ""] and errors[2].startswith("approval required: ")
    entries = [each for each in read_audit(target.state / "logs" / "audit.jsonl") if each["action"] == "tool.approval"]
    owner = f"tui:{login_name()}"
    assert [(each["actor"], each["object"], each["where"]) for each in entries] == [(owner, "exec", "telegram:1")] * 2
    assert all(each["rule"] == "goclaw tool run --approve" and each["allowed"] for each in entries)


def test_the_owner_who_may_not_decide_for_others_cannot_approve_for_them(target: Target) -> None:
    target.config.write_text("workspace: work\nstate_dir: state\ntools: {exec: {sandbox: 'off'}}\n")
    users: dict[str, object] = {"users": {f"tui:{login_name()}": {}, "telegram:1": {}}}
    (target.state / "users.json").write_text(json.dumps(users))
    (error,) = target.errors(run("echo ran"), arguments=("--approve", "--user", "telegram:1"))
    assert error.startswith("approval required: ") and "--approve" not in error


def test_the_owner_who_is_listed_has_the_rights_of_the_entry(target: Target) -> None:
    users = {"users": {f"tui:{login_name()}": {"allowedTools": ["read"]}}}
    (target.state / "users.json").write_text(json.dumps(users))
    assert target.errors(read("a.txt"), run("true"), arguments=("--approve",)) == ["", "unknown tool: exec"]


@pytest.mark.parametrize(
    "text", ['{"users": {"telegram:1": {"allowedTools": null}}}', '{"users": {"telegram:1": {"tools": []}}}']
)
def test_rights_that_cannot_be_read_are_no_rights(target: Target, text: str) -> None:
    (target.state / "users.json").write_text(text)
    assert target.run("tool", "run", "read", "--user", "telegram:1", "--input", '{"path": "a.txt"}').returncode == 78
