"""Hooks that are programs, run for real in every tier: what they are told, what they may answer, how they fail."""

import asyncio
import json
import os
import re
import shlex
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from goclaw.common.core.redact import remember
from goclaw.tools.execution.sandbox.base import Sandbox
from goclaw.tools.hooks.base import HookAnswer
from tests import house
from tests.tools.hooks.support import ANNA, event, opened, script

pytestmark = pytest.mark.sandbox

SECRET = "a-secret-of-the-daemon-42"


def hook(folder: Path, body: str, **more: Any) -> dict[str, Any]:
    return {"name": "guard", "on": "pre_tool", "command": [script(folder, body)], **more}


async def answer_of(folder: Path, tier: Sandbox, body: str, point: Any = "pre_tool", **more: Any) -> HookAnswer:
    async with opened(folder, tier, hook(folder, body, on=point, **more)) as stage:
        return await stage.hooks.fire(event(point))


async def test_the_event_comes_on_standard_input_and_the_workspace_is_the_folder(
    tmp_path: Path, sandbox: Sandbox
) -> None:
    assert await answer_of(tmp_path, sandbox, "cat > told.json; pwd > where") == HookAnswer()
    told = json.loads((tmp_path / "workspace/told.json").read_text())
    assert told == {
        "point": "pre_tool",
        "session": "s",
        "actor": {"key": ANNA.key, "name": "Anna", "entry": "telegram", "owner": False},
        "tool": "exec",
        "tags": ["shell"],
        "call_id": "c1",
        "input": {"command": "ls"},
        "text": "",
        "tool_id": "",
    }
    assert (tmp_path / "workspace/where").read_text().strip() == str(tmp_path / "workspace")


async def test_the_page_shows_the_event_as_it_comes(tmp_path: Path, sandbox: Sandbox) -> None:
    page = await asyncio.to_thread((house.ROOT / "docs/hooks.md").read_text)
    (shown,) = re.findall(r'```\n(\{"point".*?)```', page, re.DOTALL)
    await answer_of(tmp_path, sandbox, "cat > told.json")
    told = json.loads((tmp_path / "workspace/told.json").read_text())
    assert list(told) == list(json.loads(shown)) and list(told["actor"]) == list(json.loads(shown)["actor"])


@pytest.mark.parametrize(
    ("printed", "wanted"),
    [
        ('{"deny": "not on Sundays"}', HookAnswer(deny="not on Sundays")),
        ('{"input": {"command": "ls -l"}}', HookAnswer(input={"command": "ls -l"})),
        ('{"inject": {"tenant": "anna"}}', HookAnswer(inject={"tenant": "anna"})),
        ('{"context": "be quick"}', HookAnswer(context="be quick")),
        ("{}", HookAnswer()),
        ("", HookAnswer()),
        ('{"deny": null}', HookAnswer()),
    ],
)
async def test_what_it_prints_is_its_answer(tmp_path: Path, sandbox: Sandbox, printed: str, wanted: HookAnswer) -> None:
    assert await answer_of(tmp_path, sandbox, f"echo warning >&2; echo '{printed}'") == wanted


async def test_exit_code_2_says_no_with_standard_error_as_the_reason(tmp_path: Path, sandbox: Sandbox) -> None:
    body = "echo 'no deletions' >&2; echo '{\"context\": \"unheard\"}'; exit 2"
    assert await answer_of(tmp_path, sandbox, body) == HookAnswer(deny="no deletions")
    assert await answer_of(tmp_path, sandbox, "exit 2") == HookAnswer(deny="it gave no reason")
    assert await answer_of(tmp_path, sandbox, body, "post_tool") == HookAnswer(context="no deletions")


@pytest.mark.promise("P-hook-closed")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo 'oh dear' >&2; exit 1", "exit code 1: oh dear"),
        ("exit 3", "exit code 3: it said nothing on standard error"),
        ("echo hello", "its answer cannot be used: Invalid JSON"),
        ("echo '[]'", "its answer cannot be used"),
        ('echo \'{"dney": "x"}\'', "`dney` of its answer cannot be used"),
        ('echo \'{"deny": ""}\'', "`deny` of its answer cannot be used"),
        ("echo '{\"deny\": 1}'", "`deny` of its answer cannot be used"),
        ("echo '{\"suppress\": true}'", "it answered suppress, which means nothing there"),
        ("head -c 100000 /dev/zero; sleep 60", "its answer is longer than 64 KB"),
    ],
)
async def test_before_a_tool_whatever_goes_wrong_forbids_and_is_reported(
    tmp_path: Path, sandbox: Sandbox, body: str, why: str
) -> None:
    async with opened(tmp_path, sandbox, hook(tmp_path, body)) as stage:
        answer = await stage.hooks.fire(event())
        assert answer.deny == "the hook guard failed, and what it guards does not run without it"
        assert why in stage.alerts.open["hook:guard"]


async def test_after_a_tool_a_failure_is_reported_until_it_works_again(tmp_path: Path, sandbox: Sandbox) -> None:
    body = "[ -e good ] || exit 1"
    async with opened(tmp_path, sandbox, hook(tmp_path, body, on=["post_tool"])) as stage:
        assert await stage.hooks.fire(event("post_tool")) == HookAnswer()
        assert "failed at post_tool: exit code 1" in stage.alerts.open["hook:guard"]
        (stage.workspace / "good").touch()
        await stage.hooks.fire(event("post_tool"))
        assert stage.alerts.open == {}


@pytest.mark.promise("P-hook-closed")
async def test_its_whole_tree_ends_with_its_time(tmp_path: Path, sandbox: Sandbox) -> None:
    mark = f"86413.{os.getpid()}"  # another worker runs the same beside it
    body = f"(setsid sleep {mark} & ) ; sleep {mark}"
    began = time.monotonic()
    async with opened(tmp_path, sandbox, hook(tmp_path, body, timeout=0.5)) as stage:
        assert (await stage.hooks.fire(event())).deny
        assert "it took longer than 0.5 s" in stage.alerts.open["hook:guard"]
    assert time.monotonic() - began < 10
    assert not [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]


async def test_what_it_leaves_behind_does_not_hold_the_answer_up(tmp_path: Path, sandbox: Sandbox) -> None:
    body = 'sleep 86414 >/dev/null & echo \'{"deny": "no"}\''
    async with asyncio.timeout(8):
        assert (await answer_of(tmp_path, sandbox, body)).deny == "no"


async def test_a_stopped_turn_ends_its_program(tmp_path: Path, sandbox: Sandbox) -> None:
    mark = f"86415.{os.getpid()}"
    async with opened(tmp_path, sandbox, hook(tmp_path, f"touch begun; sleep {mark}")) as stage:
        firing = asyncio.create_task(stage.hooks.fire(event()))
        async with asyncio.timeout(10):
            while not (stage.workspace / "begun").exists():  # noqa: ASYNC110  # a file has no event
                await asyncio.sleep(0)
        firing.cancel()
        await asyncio.wait({firing})
        assert firing.cancelled() and stage.alerts.open == {}
    assert not [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]


async def test_no_secret_reaches_it_and_none_comes_back(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    remember(SECRET)
    for contained in (True, False):
        body = f'env > environment; echo \'{{"context": "it is {SECRET}", "input": {{"a": ["{SECRET}"]}}}}\''
        async with opened(tmp_path, sandbox, hook(tmp_path, body, sandbox=contained)) as stage:
            answer = await stage.hooks.fire(event())
        assert answer == HookAnswer(context="it is [secret]", input={"a": ["[secret]"]})
        names = {line.partition("=")[0] for line in (stage.workspace / "environment").read_text().splitlines()}
        usual = {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "HOME", "TMPDIR", "PWD", "SHLVL", "_"}
        quiet = {"PAGER", "MANPAGER", "GIT_PAGER", "SYSTEMD_PAGER", "GIT_TERMINAL_PROMPT", "VIMINIT"}
        assert names <= usual | quiet | {"TAR_OPTIONS"}


async def test_it_is_contained_unless_the_configuration_says_otherwise(tmp_path: Path, sandbox: Sandbox) -> None:
    (tmp_path / "state").mkdir()
    outside = tmp_path / "state/private"
    outside.write_text("of the operator")
    body = f"cat {shlex.quote(str(outside))} >&2 && exit 2; exit 0"
    assert (await answer_of(tmp_path, sandbox, body)).deny == ""
    assert (await answer_of(tmp_path, sandbox, body, sandbox=False)).deny == "of the operator"


async def test_files_that_its_command_names_are_seen_and_cannot_be_changed(tmp_path: Path, sandbox: Sandbox) -> None:
    rules = tmp_path / "rules"
    rules.write_text("rm")
    body = 'echo x >> "$1"; echo "rules: $(cat "$1")" >&2; exit 2'
    given = {"name": "guard", "on": "pre_tool", "command": ["/bin/bash", script(tmp_path, body), str(rules)]}
    async with opened(tmp_path, sandbox, given) as stage:
        assert "rules: rm" in (await stage.hooks.fire(event())).deny
    assert rules.read_text() == "rm"


async def test_a_program_that_is_not_there_is_named(tmp_path: Path, sandbox: Sandbox) -> None:
    async with opened(tmp_path, sandbox, {"on": "pre_tool", "command": "no-such-guard --now"}) as stage:
        assert (await stage.hooks.fire(event())).deny
        assert "there is no executable program no-such-guard" in stage.alerts.open["hook:no-such-guard --now"]


async def test_a_secret_in_its_command_stays_one(tmp_path: Path, sandbox: Sandbox) -> None:
    remember(SECRET)
    async with opened(tmp_path, sandbox, {"on": "pre_tool", "command": f"no-such-guard --key {SECRET}"}) as stage:
        answer = await stage.hooks.fire(event())
        assert SECRET not in f"{answer} {stage.alerts.open}" and "--key [secret]" in answer.deny


async def test_each_sees_what_the_one_before_made_and_the_first_no_ends_it(tmp_path: Path, sandbox: Sandbox) -> None:
    first = script(tmp_path, 'cat >/dev/null; echo \'{"input": {"command": "ls -l"}, "context": "one"}\'', "1.sh")
    second = script(tmp_path, "grep -q 'ls -l' && echo '{\"deny\": \"saw it\"}'", "2.sh")
    third = script(tmp_path, "touch third", "3.sh")
    hooks = [{"on": "pre_tool", "command": [each]} for each in (first, second, third)]
    async with opened(tmp_path, sandbox, *hooks) as stage:
        answer = await stage.hooks.fire(event())
        assert (answer.deny, answer.context, answer.input) == ("saw it", "one", {"command": "ls -l"})
        assert not (stage.workspace / "third").exists()


@pytest.mark.promise("P-prompt-approved")
@pytest.mark.parametrize("command", ["./guard.sh", "sh guard.sh", "sh --rcfile=guard.sh", "sh {folder}/link"])
async def test_a_program_that_others_can_write_does_not_judge(tmp_path: Path, sandbox: Sandbox, command: str) -> None:
    guard = {"name": "guard", "on": "pre_tool", "command": command.format(folder=tmp_path)}
    async with opened(tmp_path, sandbox, guard, shared=True) as stage:
        program = Path(script(stage.workspace, "cat > /dev/null", "guard.sh"))
        (tmp_path / "link").symlink_to(program)
        answer = await stage.hooks.fire(event("pre_tool"))
        assert answer == HookAnswer(deny="the hook guard failed, and what it guards does not run without it")
        assert "where not only admins can write: move it elsewhere" in stage.alerts.open["hook:guard"]


@pytest.mark.promise("P-prompt-approved")
@pytest.mark.parametrize("command", ["shared/guard.sh", "sh shared/guard.sh", "{folder}/all/guard.sh"])
async def test_a_program_in_the_folder_that_all_share_does_not_judge_in_ones_own_workspace(
    tmp_path: Path, sandbox: Sandbox, command: str
) -> None:
    (tmp_path / "all").mkdir()
    guard = {"name": "guard", "on": "pre_tool", "command": command.format(folder=tmp_path)}
    async with opened(tmp_path, sandbox, guard, beside=tmp_path / "all") as stage:
        script(tmp_path / "all", "cat > /dev/null", "guard.sh")
        (stage.workspace / "shared").symlink_to(tmp_path / "all")
        assert (await stage.hooks.fire(event("pre_tool"))).deny
        assert "where not only admins can write: move it elsewhere" in stage.alerts.open["hook:guard"]


async def test_a_program_in_a_workspace_of_ones_own_judges(tmp_path: Path, sandbox: Sandbox) -> None:
    guard = {"name": "guard", "on": "pre_tool", "command": "./guard.sh"}
    async with opened(tmp_path, sandbox, guard) as stage:
        script(stage.workspace, "cat > /dev/null; echo no >&2; exit 2", "guard.sh")
        assert await stage.hooks.fire(event("pre_tool")) == HookAnswer(deny="no")
