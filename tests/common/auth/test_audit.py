"""The audit log: complete, in order, private, without secrets, and kept through crashes and full disks."""

import asyncio
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from goclaw.common.auth.audit import MAX_DETAIL, Audit, AuditEntry, audit_path, open_audit, read_audit
from goclaw.common.auth.users import User
from goclaw.common.config.policies import AuditSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.redact import remember
from goclaw.common.core.supervise import background
from goclaw.errors import StateError, ToolError
from goclaw.program.cli.program import run
from goclaw.testing import SteppedClock
from tests.harness import Answer, World
from tests.parts import acting

pytestmark = [pytest.mark.promise("P-audit")]
ANN = Actor("telegram:5", "telegram")


def entry(number: int = 1, detail: str = "") -> AuditEntry:
    return AuditEntry("tool.use", f"tool{number}", ANN, rule="users.json telegram:5", detail=detail)


def objects(path: Path) -> list[str]:
    return [line["object"] for line in read_audit(path)]


async def test_who_did_what_by_which_rule_and_how_it_ended_is_on_disk_when_the_daemon_has_ended(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path / "state")
    parent = Actor("telegram:6", "telegram", behalf=(ANN,))
    async with open_audit(config, SteppedClock(1_000.0)) as audit:
        audit.record(
            AuditEntry("tool.use", "exec", parent, "telegram:5", allowed=False, rule="r", result="denied", turn="t")
        )
    (line,) = read_audit(audit_path(config))
    assert line == {
        "n": 1,
        "prev": "",
        "at": "1970-01-01T00:16:40.000+00:00",
        "actor": "telegram:6",
        "entry": "telegram",
        "behalf": ["telegram:5"],
        "action": "tool.use",
        "object": "exec",
        "where": "telegram:5",
        "allowed": False,
        "rule": "r",
        "result": "denied",
        "turn": "t",
    }
    assert stat.S_IMODE(audit_path(config).stat().st_mode) == 0o600


async def test_what_was_recorded_right_before_the_end_is_on_disk(tmp_path: Path) -> None:
    """Its write waits for a thread when the daemon ends, as on a busy machine."""
    config, loop, held = Config(state_dir=tmp_path / "state"), asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))
    async with open_audit(config, SteppedClock()) as audit:
        busy = loop.run_in_executor(None, held.wait)
        audit.record(entry())
        for _ in range(3):
            await asyncio.sleep(0)
        loop.call_soon(held.set)
    await busy
    assert objects(audit_path(config)) == ["tool1"]


async def test_secrets_are_masked_before_they_are_cut_and_nothing_steers_a_terminal(tmp_path: Path) -> None:
    remember("the-secret-of-this-test")
    config = Config(state_dir=tmp_path / "state")
    async with open_audit(config, SteppedClock()) as audit:
        audit.record(entry(detail="x" * (MAX_DETAIL - 5) + "the-secret-of-this-test"))
        audit.record(entry(detail="a\x1b[2Jb\nc\u202ed"))
    masked, revealed = (line["detail"] for line in read_audit(audit_path(config)))
    assert "the-secret" not in masked and len(masked) == MAX_DETAIL + 1
    assert revealed == "a\\u001b[2Jb\\nc\\u202ed"


async def test_files_are_rotated_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, AuditSettings(file_mb=1, files=2), SteppedClock())
    for number in range(4):
        audit.record(entry(number, detail="x" * 300))
        await audit.flush()
        with path.open("ab") as file:
            file.write(orjson.dumps({"filling": "y" * (1 << 20)}) + b"\n")
    kept = [line["object"] for line in read_audit(path) if "object" in line]
    assert kept == ["tool1", "tool2", "tool3"]
    assert len(list(tmp_path.glob("audit.jsonl*"))) == 3  # noqa: ASYNC240  # three names


async def test_a_line_that_a_crash_cut_swallows_no_other(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(orjson.dumps({"object": "whole"}) + b'\n{"object": "cu')
    audit = Audit(path, AuditSettings(), SteppedClock())
    audit.record(entry(1))
    await audit.flush()
    assert objects(path) == ["whole", "tool1"]


async def test_what_the_disk_does_not_take_is_written_when_it_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    audit = Audit(folder / "audit.jsonl", AuditSettings(), clock := SteppedClock())
    audit.record(entry(1))
    audit.record(entry(2))
    async with asyncio.timeout(10), background(audit.flush(), "flushing") as flushing:
        while not clock.sleepers:
            await asyncio.to_thread(folder.exists)
        folder.mkdir()
        audit.record(entry(3))
        clock.advance(10.0)
        await flushing
    assert objects(folder / "audit.jsonl") == ["tool1", "tool2", "tool3"]
    assert "cannot be written" in caplog.text


async def test_a_file_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path / "state")
    audit_path(config).mkdir(parents=True)
    with pytest.raises(StateError, match="audit"):
        async with open_audit(config, SteppedClock()):
            pass


async def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path / "state")
    audit_path(config).parent.mkdir(parents=True)
    audit_path(config).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError):
        async with open_audit(config, SteppedClock()):
            pass
    assert not (tmp_path / "elsewhere").exists()


async def test_switched_off_nothing_is_written(tmp_path: Path) -> None:
    config = Config(state_dir=tmp_path / "state", audit=AuditSettings(enabled=False))
    async with open_audit(config, SteppedClock()) as audit:
        audit.record(entry())
    assert not audit_path(config).exists()


async def greet() -> str:
    return "hello"


async def fail() -> str:
    raise ToolError("the file the-secret-of-this-test is gone")


async def test_calls_commands_and_strangers_are_recorded_with_the_rule_that_decided(tmp_path: Path) -> None:
    calls = [
        ToolCall("1", "greet", {}),
        ToolCall("2", "fail", {}),
        ToolCall("3", "exec", {"command": "true"}),
        ToolCall("4", "made_up", {}),
    ]
    world = World(
        tmp_path,
        [Answer(calls=tuple(calls)), Answer("done")],
        tools=[acting("greet", greet), acting("fail", fail), acting("exec", greet)],
        users=[User("telegram:5", allowed_tools=frozenset({"greet", "fail"}))],
    )
    async with world.running() as core:
        await core.say("go", actor=ANN, session="telegram:5")
        await core.settled()
        await core.say("/status", actor=ANN, session="telegram:5")
        await core.say("/statsu", actor=ANN, session="telegram:5")
        await core.say("let me in", actor=Actor("telegram:6", "telegram"), session="telegram:6")
    order = [call.name for call in calls]
    world.audited[:4] = sorted(world.audited[:4], key=lambda line: order.index(line.object))  # they ran side by side
    told = [(line.action, line.object, line.allowed, line.result.partition(":")[0]) for line in world.audited]
    assert told == [
        ("tool.use", "greet", True, "ok"),
        ("tool.use", "fail", True, "failed"),
        ("tool.use", "exec", False, "not run"),
        ("tool.use", "made_up", False, "not run"),
        ("command.run", "status", True, ""),
        ("command.run", "statsu", False, ""),
        ("session.write", "telegram:6", False, ""),
    ]
    assert world.audited[2].detail == "command=true"
    assert world.audited[2].rule == "users.json telegram:5 allowedTools"
    assert all("the-secret" not in line.result for line in world.audited)


async def test_the_command_shows_the_entries_about_tools_with_a_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = Config(state_dir=tmp_path / "state")
    async with open_audit(config, SteppedClock()) as audit:
        audit.record(replace(entry(1), tags=frozenset({"shell", "network"})))
        audit.record(replace(entry(2), tags=frozenset({"filesystem"})))
        audit.record(entry(3))
    first, _, last = read_audit(audit_path(config))
    assert first["tags"] == ["network", "shell"] and "tags" not in last
    monkeypatch.setenv("GOCLAW_STATE_DIR", str(config.state_dir))
    monkeypatch.chdir(tmp_path)
    assert await asyncio.to_thread(run, ["audit", "--tag", "shell"]) == 0
    shown = [orjson.loads(line)["object"] for line in capsys.readouterr().out.splitlines()]
    assert shown == ["tool1"]
