"""What `/status` says of the daemon."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw import __version__
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import LOCAL, Address
from goclaw.common.health.readiness import Probe
from goclaw.errors import SandboxUnavailable, StateError
from goclaw.program.app import open_app
from goclaw.program.app.status import details
from goclaw.tools.execution.sandbox.base import Policy, SandboxCommand
from goclaw.tools.execution.tasks.base import Owner, TaskWork


@pytest.mark.sandbox
async def test_running_tasks_are_counted_here_and_in_all_and_no_line_says_there_are_none(tmp_path: Path) -> None:
    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    command = SandboxCommand(("/bin/sleep", "1000"), tmp_path, {})
    async with asyncio.timeout(30), open_app(config) as app:
        environment = app.foundation.environment
        for session in ("tui:me", "telegram:5", "telegram:5"):
            work = TaskWork(Owner(session, session), Address(LOCAL, session), "sleep", command, Policy(tmp_path), 60)
            try:
                await environment.tasks.start(work, environment.sandbox)
            except SandboxUnavailable as error:
                pytest.skip(f"no sandbox works here: {error}")

        shown = await details(app, "tui:me")
        assert shown.lines["Tasks"] == "1 running here in the background, 3 in all"
        assert shown.numbers["health"]["tasks"] == 3

        await environment.tasks.forget("telegram:5")
        await environment.tasks.forget("tui:me")
        assert "Tasks" not in (await details(app, "tui:me")).lines


async def test_tools_that_do_not_work_are_counted_for_admins(tmp_path: Path) -> None:
    servers = {"gone": {"command": str(tmp_path / "no-such-program")}}
    config = Config.model_validate({"state_dir": tmp_path / "state", "mcp": {"servers": servers}})
    async with asyncio.timeout(30), open_app(config) as app:
        await app.foundation.tools.sources.settled(20)
        shown = await details(app, "tui:me")
        assert shown.lines["Tools"].startswith("1 fault in tools or their servers")
        assert "Tools" not in shown.without_others().lines


async def test_what_only_says_that_all_is_well_is_known_as_such(tmp_path: Path) -> None:
    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    async with asyncio.timeout(30), open_app(config) as app:
        shown = await details(app, "tui:me")
        assert "Queue" in shown.calm
        assert ("Disk" in shown.calm) == (not (await app.foundation.process.disk.use()).warning)
        assert [name for name, _ in shown.memory] == ["Searched", "Mode"]
        assert shown.numbers["memory"]["conversations"] == 0


async def test_how_long_it_runs_and_that_no_bot_is_connected_is_said_first(tmp_path: Path) -> None:
    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    clock = SteppedClock()
    async with asyncio.timeout(30), open_app(config, clock) as app:
        began = await details(app, "tui:me")
        clock.jump(7_300)
        assert (await details(app, "tui:me")).lines["Daemon"] == began.lines["Daemon"], "the wall clock was set"
        clock.advance(7_300)
        shown = await details(app, "tui:me")
    assert began.lines["Daemon"] == f"running for 0 s, version {__version__}"
    assert shown.lines["Daemon"] == f"running for 2 h, version {__version__}"
    assert shown.lines["Telegram"] == "not connected; `goclaw setup` connects a bot"


async def test_a_daemon_that_takes_no_messages_says_so_in_the_first_line(tmp_path: Path) -> None:
    async def refused() -> None:
        raise StateError("the disk is full")

    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    async with asyncio.timeout(30), open_app(config) as app:
        broken = replace(app, probe=Probe(refused, dict, app.foundation.clock))
        shown = await details(broken, "tui:me")
    assert "but it accepts no messages: the database cannot be written" in shown.lines["Daemon"]
