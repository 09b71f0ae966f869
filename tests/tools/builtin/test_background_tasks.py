"""Commands in the background, through the tools: `exec`, `bg_exec`, `task_output`, `task_input`, `task_stop`, …"""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.specs import Risk
from goclaw.errors import InvalidInput, SandboxUnavailable, ToolError
from goclaw.tools.builtin.background_tasks import task_input, task_list, task_output, task_stop
from goclaw.tools.builtin.exec import bg_exec, exec_
from goclaw.tools.builtin.read import read
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.execution.tasks.room import TaskRoom
from goclaw.tools.toolkit.base import Tool
from tests.tables import table
from tests.tools.builtin.file_support import around
from tests.tools.builtin.memory_support import Surroundings
from tests.tools.builtin.shell_support import with_tasks
from tests.tools.execution.sandbox.conftest import sandbox

__all__ = ["around", "sandbox"]

pytestmark = pytest.mark.sandbox

BOB = Actor(key="telegram:6", entry="telegram")


@pytest.fixture
async def room(around: Surroundings, sandbox: Sandbox) -> AsyncIterator[TaskRoom]:
    around.sandbox = sandbox
    async with asyncio.timeout(30), with_tasks(around) as opened:
        yield opened


def settings(around: Surroundings, **tools: Any) -> None:
    around.config = Config.model_validate({"state_dir": around.config.state_dir, "tools": tools})


async def started(around: Surroundings, tool: Tool, given: dict[str, Any]) -> str:
    """The id of a task that was just started."""
    said = await around.call(tool, given)
    found = re.match(r"started (task-[0-9a-f]{8}) in the background; ", said)
    assert found, said
    return found[1]


async def test_a_command_in_the_background_is_followed_to_its_end(around: Surroundings, room: TaskRoom) -> None:
    task = await started(
        around, exec_, {"command": 'echo "$WHO"; exit 3', "env": {"WHO": "world"}, "run_in_background": True}
    )

    said = await around.call(task_output, {"task_id": task})
    assert said == f"world\n{task} failed (exit code 3) after 0 s"
    assert await around.call(task_output, {"task_id": task, "block": False}) == said
    assert await around.call(task_list, {}) == (f'{task} failed (exit code 3), 0 s: echo "$WHO"; exit 3')


async def test_a_program_is_given_words_and_no_shell(around: Surroundings, room: TaskRoom) -> None:
    task = await started(around, bg_exec, {"command": "printf", "args": ["%s|", "a b", "$HOME", "; id", ""]})
    assert (await around.call(task_output, {"task_id": task})).startswith("a b|$HOME|; id||\n")


async def test_its_input_is_a_text_and_then_ends(around: Surroundings, room: TaskRoom) -> None:
    task = await started(around, bg_exec, {"command": "sort", "stdin": "b\na\n"})
    assert (await around.call(task_output, {"task_id": task})).startswith("a\nb\n")
    with pytest.raises(ToolError, match="is completed: it no longer reads input"):
        await around.call(task_input, {"task_id": task, "text": "c\n"})


async def test_its_input_stays_open_where_that_is_wanted(around: Surroundings, room: TaskRoom) -> None:
    task = await started(around, bg_exec, {"command": "sort", "stdin": "b\n", "keep_stdin": True})
    assert await around.call(task_input, {"task_id": task, "text": "a\n"}) == f"{task} took 2 bytes"
    assert await around.call(task_output, {"task_id": task, "block": False}) == f"{task} running after 0 s"
    closed = await around.call(task_input, {"task_id": task, "close": True})
    assert closed == f"{task} took 0 bytes; its standard input is closed"
    assert (await around.call(task_output, {"task_id": task})).startswith("a\nb\n")


async def test_it_runs_a_program_of_the_folder_that_it_runs_in(around: Surroundings, room: TaskRoom) -> None:
    around.write("sub/run", "#!/bin/sh\npwd\n").chmod(0o755)
    for folder in ({"working_dir": "sub"}, {"workdir": "sub"}):
        task = await started(around, bg_exec, {"command": "./run", **folder})
        assert (await around.call(task_output, {"task_id": task})).startswith(f"{around.the_workspace.root}/sub\n")


async def test_a_stopped_task_has_no_process_and_its_output_is_kept(around: Surroundings, room: TaskRoom) -> None:
    task = await started(around, exec_, {"command": "echo early; sleep 1000", "run_in_background": True})
    context = around.context()
    while "early" not in await around.call(task_output, {"task_id": task, "block": False}):  # noqa: ASYNC110 -- output has no event
        await asyncio.sleep(0)

    said = await around.call(task_stop, {"task_id": task})
    assert re.fullmatch(rf"{task} stopped after 0 s; all that it said is kept as output:[0-9a-f]{{16}}", said)
    assert (await around.call(task_stop, {"task_id": task})) == said
    assert await around.call(read, {"path": said.rpartition(" ")[2]}) == "     1\tearly"
    assert room.count(context.session) == 0


async def test_a_long_output_shows_its_tail_and_is_kept_whole(around: Surroundings, room: TaskRoom) -> None:
    settings(around, exec={"output_limit": 1000})
    task = await started(around, exec_, {"command": "seq 100000", "run_in_background": True})
    said = await around.call(task_output, {"task_id": task})
    notice, *tail, end = said.splitlines()

    assert notice.startswith("[the last 997 characters; more is kept as output:")
    assert tail == [str(number) for number in range(99_835, 100_001)]
    assert end == f"{task} completed (exit code 0) after 0 s"
    assert len(said) < 1200
    name = notice.rpartition(" ")[2].rstrip("]")
    assert (await around.call(read, {"path": name, "offset": 99_999})).endswith("100000")


@pytest.mark.promise("P-spill-owner")
async def test_nobody_else_finds_a_task_and_nobody_reads_its_output(around: Surroundings, room: TaskRoom) -> None:
    task = await started(around, exec_, {"command": "echo mine; sleep 1000", "run_in_background": True})
    for tool, given in (
        (task_output, {"task_id": task, "block": False}),
        (task_stop, {"task_id": task}),
        (task_input, {"task_id": task, "text": "x"}),
    ):
        with pytest.raises(ToolError, match=f"^unknown task: {task}; task_list shows"):
            await around.call(tool, given, actor=BOB)
    assert await around.call(task_list, {}, actor=BOB) == "no background tasks in this conversation"
    (mine,) = await room.of(next(iter(room._tasks.values())).info.owner)
    with pytest.raises(ToolError, match=r"^no such output"):
        await around.call(read, {"path": mine.output}, actor=BOB)


@pytest.mark.promise("P-exec-rules")
async def test_the_rules_for_commands_judge_what_runs_in_the_background(around: Surroundings, room: TaskRoom) -> None:
    settings(around, exec={"blocked": ["rm"], "allowed": None})
    for tool, given in (
        (exec_, {"command": "rm x", "run_in_background": True}),
        (bg_exec, {"command": "rm", "args": ["x"]}),
        (bg_exec, {"command": "/bin/rm", "args": ["x"]}),
        (bg_exec, {"command": "env", "args": ["rm", "x"]}),
    ):
        with pytest.raises(ToolError, match=r"is blocked by the rule"):
            await around.call(tool, given)
    for shell in ({"command": "bash", "stdin": "rm x"}, {"command": "sh", "keep_stdin": True}):
        with pytest.raises(ToolError, match=r"permission denied: .*the rules for commands cannot judge it"):
            await around.call(bg_exec, shell)
    settings(around, exec={"allowed": ["sort"]})
    with pytest.raises(ToolError, match=r"not among the allowed commands"):
        await around.call(bg_exec, {"command": "./sort"})
    assert room.count() == 0


@pytest.mark.promise("P-exec-never-open")
async def test_a_machine_without_containment_starts_nothing(around: Surroundings) -> None:
    async with with_tasks(around) as room:
        for tool, given in ((exec_, {"command": "true", "run_in_background": True}), (bg_exec, {"command": "true"})):
            with pytest.raises(SandboxUnavailable):
                await around.call(tool, given)
        assert room.count() == 0


@pytest.mark.parametrize(("tier", "network", "risk"), [
    ("off", "none", Risk.CRITICAL), ("broker", "host", Risk.HIGH), ("broker", "none", Risk.CONTAINED)
])  # fmt: skip
def test_the_risk_is_that_of_exec(tier: str, network: str, risk: Risk, around: Surroundings) -> None:
    settings(around, exec={"network": network})
    around.sandbox.tier = tier  # type: ignore[misc]  # a test's own sandbox
    assert around.risk(bg_exec, {"command": "true"}) is risk
    assert around.risk(task_input, {"task_id": "task-1", "text": "rm -rf ."}) is risk
    assert (task_output.spec.risk, task_stop.spec.risk, task_list.spec.risk) == (Risk.LOW, Risk.LOW, Risk.LOW)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (exec_, {"command": "ls a", "env": {"LS_COLORS": "x"}}),
        (bg_exec, {"command": "ls", "args": ["a"], "env": {"LS_COLORS": "x"}}),
        (bg_exec, {"command": "ls", "args": ["a"], "stdin": "x"}),
        (bg_exec, {"command": "ls", "args": ["a"], "keep_stdin": True}),
    ],
)
async def test_only_the_plain_command_can_be_allowed_for_good(
    tool: Tool, given: dict[str, Any], around: Surroundings
) -> None:
    around.write("a", "x")
    plain = {name: value for name, value in given.items() if name in ("command", "args")}
    assert tool.grounds
    first = await tool.grounds(tool.arguments.model_validate(plain), around.context())
    second = await tool.grounds(tool.arguments.model_validate(given), around.context())

    assert (len(first.pattern), len(first.labels)) == (1, 1)
    assert (second.pattern, second.labels) == ((), ())
    assert first.facts == second.facts


HUGE = "x" * 2_000_000
TASK = "task-0a1b2c3d"


@table(
    "tool, given, words",
    [
        (bg_exec, {}, 'field "command": expected string, got nothing'),
        (bg_exec, {"command": ["ls"]}, 'field "command": expected string, got array'),
        (bg_exec, {"command": ""}, 'field "command"'),
        (bg_exec, {"command": HUGE}, 'field "command"'),
        (bg_exec, {"command": "-c"}, 'field "command": expected the name or the path of a program'),
        (bg_exec, {"command": " ls"}, 'field "command": expected the name or the path of a program'),
        (bg_exec, {"command": "l\0s"}, 'field "command": expected text without NUL characters, got one'),
        (bg_exec, {"command": "\ud800"}, 'field "command": expected'),
        (bg_exec, {"command": "ls", "args": "a b"}, 'field "args": expected array, got string'),
        (bg_exec, {"command": "ls", "args": [1]}, 'field "args.0": expected string, got number'),
        (bg_exec, {"command": "ls", "args": ["\0"]}, 'field "args.0": expected text without NUL'),
        (bg_exec, {"command": "ls", "args": ["x"] * 1001}, 'field "args"'),
        (bg_exec, {"command": "ls", "args": ["x" * 100_001]}, 'field "args": expected at most 100000 bytes'),
        (bg_exec, {"command": "ls", "stdin": HUGE}, 'field "stdin"'),
        (bg_exec, {"command": "ls", "stdin": "\udfff"}, 'field "stdin": expected'),
        (bg_exec, {"command": "ls", "timeout": 0}, 'field "timeout"'),
        (bg_exec, {"command": "ls", "timeout": 3601}, "expected at most 3600, got 3601"),
        (bg_exec, {"command": "ls", "workdir": "a", "working_dir": "b"}, "workdir"),
        (bg_exec, {"command": "ls", "env": {"PATH": "."}}, 'field "env": PATH may not be set'),
        (exec_, {"command": "ls", "workdir": "a", "working_dir": "b"}, "workdir"),
        (exec_, {"command": "ls", "workdir": 1}, "expected string, got number"),
        (exec_, {"command": "ls", "env": {"LD_PRELOAD": "x"}}, 'field "env": LD_PRELOAD may not be set'),
        (exec_, {"command": "ls", "env": {"A": 1}}, 'field "env.A": expected string, got number'),
        (exec_, {"command": "ls", "env": ["A=1"]}, 'field "env": expected object, got array'),
        (exec_, {"command": "ls", "run_in_background": "yes"}, 'field "run_in_background": expected boolean'),
        (task_output, {}, 'field "task_id": expected string, got nothing'),
        (task_output, {"task_id": 7}, 'field "task_id": expected string, got number'),
        (task_output, {"task_id": ""}, 'field "task_id"'),
        (task_output, {"task_id": HUGE}, 'field "task_id"'),
        (task_output, {"task_id": TASK, "timeout": 301}, 'field "timeout"'),
        (task_output, {"task_id": TASK, "timeout": 0}, 'field "timeout"'),
        (task_output, {"task_id": TASK, "block": "no"}, 'field "block": expected boolean'),
        (task_input, {"text": "x"}, 'field "task_id": expected string, got nothing'),
        (task_input, {"task_id": TASK}, 'field "text": expected text, or `close`'),
        (task_input, {"task_id": TASK, "text": HUGE}, 'field "text"'),
        (task_input, {"task_id": TASK, "text": "\ud800"}, 'field "text": expected'),
        (task_stop, {}, 'field "task_id": expected string, got nothing'),
        (task_stop, {"task_id": None}, 'field "task_id": expected string, got null'),
        (task_stop, {"task_id": TASK, "force": True}, 'field "force": unknown field'),
        (task_list, {"all": True}, 'field "all": unknown field'),
    ],
)
async def test_bad_input_is_told_by_its_field(
    tool: Tool, given: dict[str, Any], words: str, around: Surroundings
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await around.call(tool, given)
    assert words in str(caught.value)


@pytest.mark.parametrize("task_id", ["task-", "../../etc", "task-0a1b2c3d\n", "' OR 1=1 --", "x" * 100, "\u202e"])
async def test_a_hostile_id_is_an_unknown_task(task_id: str, around: Surroundings) -> None:
    async with with_tasks(around):
        for tool, more in ((task_output, {}), (task_stop, {}), (task_input, {"close": True})):
            with pytest.raises(ToolError, match=r"^unknown task: "):
                await around.call(tool, {"task_id": task_id, **more})


async def test_what_is_not_there_is_not_started(around: Surroundings, room: TaskRoom, tmp_path: Path) -> None:
    for given, words in (
        ({"command": "no-such-program"}, "command not found: no-such-program"),
        ({"command": "./missing"}, "command not found"),
        ({"command": "sort -r"}, "its arguments belong into args, a shell line into exec"),
        ({"command": "cat /etc/hosts"}, "its arguments belong into args, a shell line into exec"),
        ({"command": "ls", "working_dir": ".."}, "path traversal detected"),
        ({"command": "ls", "working_dir": "missing"}, "file not found"),
    ):
        with pytest.raises(ToolError, match=words):
            await around.call(bg_exec, given)
    assert room.count() == 0


async def test_a_list_of_many_is_cut_and_says_so(around: Surroundings, room: TaskRoom) -> None:
    settings(around, exec={"output_limit": 1000})
    for _ in range(3):
        await around.call(task_output, {"task_id": await started(around, bg_exec, {"command": "true"})})
    whole = await task_list.call(around.context(), task_list.arguments())
    assert (whole.returned, whole.total, whole.truncated) == (3, 3, False)
