"""`exec`: output, exit code, time, capture; refusal instead of an uncontained run."""

import asyncio
import os
import resource
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.redact import mask, remember
from goclaw.common.specs import Risk
from goclaw.errors import InvalidInput, SandboxUnavailable, ToolError
from goclaw.tools.builtin.exec import bg_exec, exec_
from goclaw.tools.builtin.read import read
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.templates import hint
from goclaw.tools.toolkit.base import Tool
from tests.acceptance.waiting import eventually
from tests.lanes import repeats
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings
from tests.tools.builtin.shell_support import cut_off
from tests.tools.execution.sandbox.conftest import sandbox

__all__ = ["around", "sandbox"]

pytestmark = pytest.mark.sandbox


@pytest.fixture
def ready(around: Surroundings, sandbox: Sandbox) -> Surroundings:
    around.sandbox = sandbox
    return around


def settings(around: Surroundings, **given: Any) -> None:
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": {"exec": given}})


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo out; echo err >&2", "out\nerr\nexit code: 0"),
        ("exit 3", "exit code: 3"),
        ("printf 'no end'", "no end\nexit code: 0"),
        ("cat", "exit code: 0"),
        ("grep -q x /dev/null", "exit code: 1"),
        ("printf '\\377'", "\ufffd\nexit code: 0"),
        ("kill -TERM $$", "exit code: 143"),
    ],
)
async def test_output_and_exit_code_are_the_result(command: str, expected: str, ready: Surroundings) -> None:
    assert await ready.call(exec_, {"command": command}) == expected


def test_people_are_told_what_ran_and_how_it_ended() -> None:
    ended = {"output": "", "exit_code": 3, "task": "", "args": {"command": "make test"}}
    started = {"output": "", "exit_code": None, "task": "task-1", "args": {"command": "make test"}}
    assert hint(exec_.spec.result_hint, ended) == "Ran make test: exit code 3"
    assert hint(exec_.spec.result_hint, started) == "Started make test: task-1"


async def test_commands_run_in_the_workspace_or_a_folder_of_it(ready: Surroundings) -> None:
    ready.write("sub/file", "x")
    root = ready.the_workspace.root

    assert await ready.call(exec_, {"command": "pwd"}) == f"{root}\nexit code: 0"
    for folder in ("sub", str(root / "sub")):
        assert await ready.call(exec_, {"command": "pwd", "working_dir": folder}) == f"{root}/sub\nexit code: 0"
    for folder, words in (
        ("..", "path traversal detected"),
        ("/etc", "path traversal detected"),
        ("sub/file", "not a directory"),
        ("missing", "file not found"),
    ):
        with pytest.raises(ToolError, match=words):
            await ready.call(exec_, {"command": "pwd", "working_dir": folder})


async def test_the_environment_comes_from_an_allow_list(ready: Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "12:secret")
    monkeypatch.setenv("TZ", "Europe/Vienna")
    settings(ready, env={"COLOUR": "blue"})

    said = await ready.call(exec_, {"command": "env"})

    assert "secret" not in said
    assert "COLOUR=blue" in said
    assert "TZ=Europe/Vienna" in said


def is_there(program: str) -> bool:
    """Whether a program of a command line is there; a Vim, with scripting."""
    if not program.isalpha() or program == "read":
        return True
    return Path(shutil.which(program) or "vim.tiny").resolve().name != "vim.tiny"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("vi file", "not to a terminal"),
        ("vim -c 's/line/changed/' -c wq file; head -1 file", "changed 1"),
        ("top", "exit code: "),
        ("less file", "line 500"),
        ("more file", "line 500"),
        ("git init -q . && git -c user.name=a -c user.email=b commit --allow-empty", "Terminal is dumb"),
        ("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git -p log", "Author"),
        ("cat", "exit code: 0"),
        ("read -p sure? word || echo nobody", "nobody"),
        ('"$PAGER" file; "$MANPAGER" file', "line 500"),
    ],
)
async def test_a_program_that_wants_a_terminal_ends_at_once_with_words(
    ready: Surroundings, command: str, words: str
) -> None:
    if not is_there(command.split()[0]):
        pytest.skip(f"{command.split()[0]} is not installed, or has no scripting")
    (ready.the_workspace.root / "file").write_text("".join(f"line {number}\n" for number in range(1, 501)))
    async with asyncio.timeout(40):
        assert words.lower() in (await ready.call(exec_, {"command": command, "timeout": 30})).lower()


@pytest.mark.promise("P-exec-timeout")
async def test_a_command_that_takes_too_long_is_ended_with_its_tree(ready: Surroundings) -> None:
    mark = f"{os.getpid() % 10_000 + 50_000}.{time.monotonic_ns() % 10**9}"
    given = {"command": f"trap '' TERM; echo early; (setsid sleep {mark} &); sleep {mark}"}

    async with asyncio.timeout(40):
        seconds, said = await cut_off(lambda seconds: ready.call(exec_, given | {"timeout": seconds}), "early")

    assert said == f"command timed out after {seconds} s\nearly"
    assert not [one for one in psutil.process_iter(["cmdline"]) if mark in (one.info["cmdline"] or [])]


async def test_the_configured_time_holds_when_none_is_asked_for(ready: Surroundings) -> None:
    settings(ready, timeout=0.2)

    with pytest.raises(ToolError, match=r"^command timed out after 0\.2 s$"):
        await ready.call(exec_, {"command": "sleep 60"})


async def test_a_long_output_shows_head_and_tail_and_is_kept_whole(ready: Surroundings) -> None:
    settings(ready, output_limit=1000)

    said = await ready.call(exec_, {"command": "seq 100000; exit 2"})
    *lines, code = said.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("[output cut"))

    assert code == "exit code: 2"
    assert lines[:at] == [str(number) for number in range(1, at + 1)] and at > 80
    assert lines[at + 1 :] == [str(number) for number in range(100_001 - len(lines) + at + 1, 100_001)]
    assert 900 < len(said) - len(lines[at]) <= 1_000 + len("\nexit code: 2\n")
    assert ", of 588,895 bytes; the whole is kept as output:" in lines[at]
    name = lines[at].split("kept as ")[1].split(",")[0]
    assert (await ready.call(read, {"path": name, "limit": 2})).startswith("     1\t1\n     2\t2\n")
    assert await ready.call(read, {"path": name, "offset": 99_999}) == "100000\t100000"


async def test_one_long_line_hides_nothing_around_it(ready: Surroundings) -> None:
    settings(ready, output_limit=1000)

    said = await ready.call(
        exec_, {"command": "echo ERROR: disk full; echo file 1; head -c 40000 /dev/zero | tr '\\0' x; echo; echo END"}
    )

    assert said.startswith("ERROR: disk full\nfile 1\nxxx") and said.endswith("xxx\nEND\nexit code: 0")
    assert "\n[output cut: " in said and len(said) < 1_300


async def test_a_progress_bar_is_shown_at_its_end_and_kept_so(ready: Surroundings) -> None:
    settings(ready, output_limit=1000)
    bar = "for i in $(seq 900); do printf '\\r\\033[2KDownloading %d%%' $((i/9)); done"

    said = await ready.call(exec_, {"command": f"echo 'ERROR: disk full'; {bar}; echo; echo DONE"})
    long = await ready.call(exec_, {"command": f"{bar}; echo; seq 1000"})
    name = long.split("kept as ")[1].split(",")[0]

    assert said == "ERROR: disk full\nDownloading 100%\nDONE\nexit code: 0"
    assert (await ready.call(read, {"path": name, "limit": 2})).startswith("     1\tDownloading 100%\n     2\t1\n")


async def test_a_secret_that_the_cursor_puts_together_is_masked(ready: Surroundings) -> None:
    remember("hunter2-and-more")

    said = await ready.call(exec_, {"command": "printf 'hunter2-xxx-more\\033[8Dand\\n'"})

    assert mask(said) == "[secret]\nexit code: 0"


async def test_a_long_output_that_is_no_text_is_not_offered_to_read(ready: Surroundings) -> None:
    settings(ready, output_limit=1000)

    said = await ready.call(exec_, {"command": "head -c 9000 /dev/zero"})

    assert ", of 9,000 bytes; the whole is binary, which read does not show; redirect it into a file" in said


async def test_the_output_of_a_timed_out_command_is_kept_as_well(ready: Surroundings) -> None:
    settings(ready, output_limit=1000)

    given = {"command": "seq 100000; sleep 60"}
    _, said = await cut_off(lambda seconds: ready.call(exec_, given | {"timeout": seconds}), "100000")

    name = said.split("kept as ")[1].split(",")[0]
    assert await ready.call(read, {"path": name, "offset": 99_999}) == "100000\t100000"


@pytest.mark.deep
async def test_a_flood_costs_little_memory_and_disk(ready: Surroundings) -> None:
    size = repeats("128M", "1G")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    said = await ready.call(exec_, {"command": f"head -c {size} /dev/zero | tr '\\0' x", "timeout": 300})

    assert "the first 67,108,864 bytes are kept" in said
    assert len(said) < 31_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


async def test_the_state_folder_is_invisible(ready: Surroundings) -> None:
    (ready.config.state_dir / "users.json").write_text("secret")

    said = await ready.call(exec_, {"command": f"cat {shlex.quote(str(ready.config.state_dir))}/users.json"})

    assert "secret" not in said
    assert said.endswith("exit code: 1")


async def test_a_machine_without_containment_runs_nothing(around: Surroundings) -> None:
    with pytest.raises(SandboxUnavailable):
        await around.call(exec_, {"command": "touch ran"})

    assert not await around.the_workspace.exists("ran")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, 'field "command": expected string, got nothing'),
        ({"command": ["ls"]}, 'field "command": expected string, got array'),
        ({"command": ""}, "field \"command\": expected at least 1 character(s), got ''"),
        ({"command": "a\0b"}, 'field "command": expected text without NUL characters, got one'),
        ({"command": "ls", "timeout": 301}, 'field "timeout": expected at most 300, got 301'),
        ({"command": "ls", "timeout": "five"}, 'field "timeout": expected integer, got string'),
        ({"command": "ä" * 60_000}, 'field "command": expected at most 100000 bytes; write a script and run that'),
    ],
)
async def test_wrong_arguments_are_named_in_one_line(given: dict[str, Any], words: str, around: Surroundings) -> None:
    with pytest.raises(InvalidInput) as caught:
        await around.call(exec_, given)
    assert str(caught.value) == words


async def test_the_risk_follows_the_containment(around: Surroundings) -> None:
    class Off:
        tier = "off"
        run = around.sandbox.run

    given = {"command": "ls"}
    assert around.risk(exec_, given) == Risk.CONTAINED
    settings(around, network="host")
    assert around.risk(exec_, given) == Risk.HIGH
    around.sandbox = Off()
    assert around.risk(exec_, given) == Risk.CRITICAL
    assert not exec_.spec.idempotent
    assert exec_.own_timeout


async def test_cancelling_the_call_ends_the_command(ready: Surroundings) -> None:
    mark = f"{os.getpid() % 10_000 + 40_000}.{time.monotonic_ns() % 10**9}"

    calling = asyncio.create_task(ready.call(exec_, {"command": f"touch began; sleep {mark}"}))
    async with asyncio.timeout(20):
        await eventually((ready.the_workspace.root / "began").exists)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert not [one for one in psutil.process_iter(["cmdline"]) if mark in (one.info["cmdline"] or [])]


@pytest.mark.promise("P-exec-rules")
@pytest.mark.parametrize(
    ("tool", "given"), [(exec_, {"command": "git push"}), (bg_exec, {"command": "git", "args": ["push"]})]
)
async def test_nobody_is_asked_about_a_blocked_command(ready: Surroundings, tool: Tool, given: dict[str, Any]) -> None:
    settings(ready, blocked=["git push"])
    assert tool.grounds
    with pytest.raises(ToolError, match=r"is blocked by the rule `git push`"):
        await tool.grounds(tool.arguments(**given), ready.context())


@pytest.mark.promise("P-exec-rules")
async def test_options_before_its_words_get_no_blocked_command_past_the_rules(ready: Surroundings) -> None:
    settings(ready, blocked=["git push"])
    for line in ("git -C . push", "git --no-pager push", "git -c a=b push", "env - git push"):
        with pytest.raises(ToolError, match=r"is blocked by the rule `git push`"):
            await ready.call(exec_, {"command": line})
    settings(ready, allowed=["git log"])
    with pytest.raises(ToolError, match="`--ext-diff` may have `git log` run another program"):
        await ready.call(exec_, {"command": "git log -p --ext-diff"})
    assert "exit code: " in await ready.call(exec_, {"command": "git --no-pager -C . log"})
