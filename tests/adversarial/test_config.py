"""Classes `config` and `users.json`: whatever is in them, a line with its place and the exit code 78, at once."""

import json
import re
import time

import pytest

from tests.adversarial.target import Target, run
from tests.tables import table

REFUSED = 78
SOON = 15.0
"""Seconds on a busy machine; what this guards against took longer on an idle one, or grew with the square."""
PATHS = {
    "holds a NUL": '"a\\0b"',
    "breaks the line": '"a\\nb"',
    "steers the terminal": '"a\\e[31mb"',
    "is nobody's home": "~no_such_user/x",
    "has too long a name": "a" * 300,
    "is too long": "a/" * 3_000,
}


def refusal(target: Target, *arguments: str) -> str:
    """What a refused start says."""
    done = target.run(*(arguments or ("tool", "run", "read", "--input", '{"path": "a.txt"}')))
    assert done.returncode == REFUSED, (done.stdout, done.stderr)
    return done.stderr.decode()


@pytest.mark.promise("P-config-errors")
@table("path", PATHS.values(), ids=PATHS)
@table("key", ["workspace", "state_dir", "users_file"])
def test_a_path_that_cannot_be_is_refused_with_its_place(target: Target, key: str, path: str) -> None:
    target.config.write_text(f"{key}: {path}\n")
    assert f"config.yaml:1:1: {key}: " in refusal(target)


def test_a_home_of_nobody_is_refused_in_the_users_file_too(target: Target) -> None:
    for path in ("~no_such_user/x", "a\0b", "\ud800", "a" * 300):
        (target.state / "users.json").write_text(json.dumps({"users": {"telegram:1": {"workspace": path}}}))
        assert "users.telegram:1.workspace: " in refusal(target)


@pytest.mark.parametrize("session", ["a\nb", "\x1b[31m", "\ud800", "x" * 300, "a\u202eb"])
def test_a_session_in_the_users_file_is_a_plain_name(target: Target, session: str) -> None:
    (target.state / "users.json").write_text(json.dumps({"users": {"telegram:1": {"session": session}}}))
    assert "users.telegram:1.session: " in refusal(target)


@pytest.mark.promise("P-paths-inside")
def test_who_may_do_what_cannot_lie_where_the_agent_writes(cold_target: Target) -> None:
    target = cold_target
    target.config.write_text("workspace: work\nstate_dir: state\nusers_file: work/users.json\n")
    assert "config.yaml:3:1: users_file: should not be inside the workspace" in refusal(target)
    target.config.write_text("workspace: work\nstate_dir: state\n")
    (target.state / "users.json").unlink()
    (target.state / "users.json").symlink_to(target.workspace / "mine.json")
    assert "users_file: should not be inside the workspace" in refusal(target)


def test_the_configuration_cannot_lie_where_the_agent_writes(target: Target) -> None:
    inside = target.workspace / "config.yaml"
    inside.write_text(f"workspace: .\nstate_dir: {target.state}\n")
    assert "is inside the workspace" in refusal(target, "--config", str(inside), "config", "check")


@pytest.mark.parametrize("workspace", ["/", "/tmp/..", "state/..", ".", "state", "loop"])
def test_a_workspace_that_holds_the_state_folder_is_refused(target: Target, workspace: str) -> None:
    (target.folder / "loop").symlink_to(".")
    target.config.write_text(f"workspace: {workspace}\nstate_dir: state\n")
    assert "must not be inside the workspace" in refusal(target)


def test_a_loop_of_links_as_workspace_is_an_error_in_words(target: Target) -> None:
    (target.folder / "loop").symlink_to("loop")
    target.config.write_text("workspace: loop\nstate_dir: state\n")
    assert target.run("tool", "run", "exec", "--input", '{"command": "true"}').returncode == 1


@pytest.mark.sandbox
@pytest.mark.parametrize("workspace", ["/proc", "/proc/self", "/sys", "/etc", "/usr"])
def test_no_command_runs_in_a_part_of_the_system(target: Target, workspace: str) -> None:
    target.config.write_text(f"workspace: {workspace}\nstate_dir: state\n")
    assert "give the agent a folder of its own" in target.errors(run("true"))[0]


@pytest.mark.parametrize("environment", ['{A: "x\\0--bind\\0/\\0/"}', "{A=B: x}", '{"": x}', "{A B: x}"])
def test_variables_for_commands_are_names_and_texts(target: Target, environment: str) -> None:
    target.config.write_text(f"tools: {{exec: {{env: {environment}}}}}\n")
    assert "tools.exec.env: should " in refusal(target)


BOMBS = {
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nworkspace: *b\n",
    "depth": "a: " + "[" * 100_000,
    "a tag that runs": "workspace: !!python/object/apply:os.system [touch pwned]\n",
    "size": "#" * 2_000_000,
    "keys": "".join(f"k{number}: 1\n" for number in range(20_000)),
    "an endless number": f"limits: {{tool_calls: {'9' * 5_000}}}\n",
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_in_few_words_and_soon(target: Target, text: str) -> None:
    target.config.write_text(text)
    began = time.monotonic()
    assert len(refusal(target)) < 30_000
    assert time.monotonic() - began < SOON
    assert not list(target.folder.glob("pwned"))


@pytest.mark.long
def test_many_users_are_read_soon_and_many_wrong_ones_told_shortly(target: Target) -> None:
    users = target.state / "users.json"
    users.write_text(json.dumps({"users": {f"telegram:{number}": {} for number in range(1, 30_000)}}, indent=1))
    began = time.monotonic()
    assert len(re.findall(rb"^telegram:", target.run("users", "list").stdout, re.MULTILINE)) == 29_999
    assert time.monotonic() - began < SOON
    users.write_text(json.dumps({"users": {f"x{number}": {} for number in range(20_000)}}))
    assert len(refusal(target)) < 30_000


def test_a_home_of_nobody_named_at_the_command_line_is_refused(target: Target) -> None:
    assert "state_dir: begins with `~`" in refusal(target, "--set", "state_dir=~no_such_user/x", "config", "check")
    assert "begins with `~`" in refusal(target, "--config", "~no_such_user/x", "config", "check")
