"""Classes `exec` and `process`: what a command sees, what it leaves behind, and arguments that are no arguments."""

import json

import pytest

from tests.adversarial.target import CANARIES, Target, read, run

pytestmark = pytest.mark.sandbox
ODD: list[tuple[dict[str, object], str]] = [
    ({"timeout": 0}, 'field "timeout": expected at least 1, got 0'),
    ({"timeout": -1}, 'field "timeout": expected at least 1, got -1'),
    ({"timeout": 301}, 'field "timeout": expected at most 300, got 301'),
    ({"timeout": "soon"}, 'field "timeout": expected integer, got string'),
    ({"timeout": 1e9}, 'field "timeout": expected at most 300, got 1000000000'),
    ({"working_dir": ".."}, "path traversal detected: .."),
    ({"working_dir": "/"}, "path traversal detected: /"),
    ({"working_dir": "link"}, "path traversal detected: link"),
    ({"working_dir": "a.txt"}, "not a directory: a.txt"),
    ({"working_dir": "none"}, "file not found: none"),
    ({"envs": {"A": "b"}}, 'field "envs": unknown field, did you mean "env"?'),
]


def test_odd_arguments_are_refused_in_these_words(target: Target) -> None:
    (target.workspace / "link").symlink_to("/")
    assert target.errors(*(run("true", **given) for given, _ in ODD)) == [error for _, error in ODD]


def test_exit_codes_are_results(target: Target) -> None:
    commands = ["exit 7", "kill -9 $$", "no_such_command", "true", "exit 256"]
    contents = [answer["content"] for answer in target.calls(*map(run, commands))]
    assert [content.rpartition("exit code: ")[2] for content in contents] == ["7", "137", "127", "0", "0"]


@pytest.mark.promise("P-exec-timeout")
def test_what_runs_on_behind_a_command_is_gone_with_it(target: Target) -> None:
    hide = "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM HUP; sleep 1.5; echo late >> late' &) ; done"
    answers = target.calls(
        run(f"{hide}; echo left"), run(f"{hide}; sleep 50", timeout=1), run("sleep 2; ls", timeout=9)
    )
    assert answers[0] == {"ok": True, "content": "left\nexit code: 0"}
    assert answers[1] == {"error": "command timed out after 1 s"}
    assert "late" not in answers[2]["content"]


@pytest.mark.promise("P-spill-owner")
def test_a_flood_is_cut_kept_and_for_one_person_only(target: Target) -> None:
    [answer] = target.calls(run("yes | head -c 3000000") | {"user": "telegram:1"})
    name = answer["content"].partition("kept as ")[2].partition(",")[0]
    assert name.startswith("output:") and len(answer["content"]) < 31_000
    mine, owners, bobs = target.calls(*(read(name) | {"user": user} for user in ("telegram:1", None, "tui:bob")))
    assert "ok" in mine and "no such output" in owners["error"] and "no such output" in bobs["error"]


def test_a_workspace_that_vanishes_is_an_error_in_words(target: Target) -> None:
    answers = target.calls(run("rm -rf ./* ; cd .. ; rmdir work"), run("echo on"))
    assert answers[1] == {"ok": True, "content": "on\nexit code: 0"}


@pytest.mark.long
@pytest.mark.promise("P-exec-contained")
def test_a_workspace_that_another_user_turned_into_a_link_runs_nothing(target: Target) -> None:
    """Bob's workspace lies in Ann's: her command may put a link to the daemon's secrets in its place."""
    (target.state / "secrets").mkdir()
    (target.state / "secrets" / "telegram_token").write_text(CANARIES["TELEGRAM_BOT_TOKEN"])
    (target.workspace / "bob").mkdir()
    users = {"telegram:1": {}, "telegram:2": {"workspace": str(target.workspace / "bob")}}
    (target.state / "users.json").write_text(json.dumps({"users": users}))
    look = run("ls -a; cat telegram_token | rev") | {"user": "telegram:2"}
    swap = run("rmdir bob; ln -s ../state/secrets bob") | {"user": "telegram:1"}
    answers = target.calls(look, swap, look)
    assert "ok" in answers[0] and "was moved or replaced" in answers[2]["error"]
    [again] = target.calls(look)
    assert " is inside " in again["error"]


@pytest.mark.parametrize("place", ["blobs", "logs", "secrets/inner"])
def test_private_parts_of_the_state_folder_are_no_workspace(target: Target, place: str) -> None:
    target.config.write_text(f"workspace: state/{place}\nstate_dir: state\n")
    assert "give the agent its own folder" in target.errors(run("ls"))[0]
