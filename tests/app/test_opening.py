"""The daemon opens with what works, and says what does not."""

import asyncio
import logging
from pathlib import Path

import pytest

from goclaw.app import open_app
from goclaw.config.schema import Config
from goclaw.core import catalog
from goclaw.core.clock import SteppedClock
from tests.plugin import install, packages

__all__ = ["packages"]


@pytest.mark.promise("P-plugins-stop-nothing")
async def test_broken_plugins_are_named_and_the_daemon_runs(
    tmp_path: Path, packages: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = {"tools.bad": "bad:bad", "tool_sources.bad": "bad:SOURCE", "tools.read": "good:read"}
    points |= {"channels.bad": "bad:CHANNEL", "commands.bad": "bad:COMMAND"}
    good = (
        "from goclaw.specs import SideEffect\nfrom goclaw.toolkit.base import ToolContext, tool\n"
        "@tool(side_effect=SideEffect.NONE)\nasync def read(ctx: ToolContext) -> str:\n    'Not ours.'\n    return ''\n"
    )
    install(packages, "bad-tools", {"bad": "raise RuntimeError('at import')", "good": good}, points)
    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    async with asyncio.timeout(30):
        with caplog.at_level(logging.WARNING):
            async with open_app(config, SteppedClock()) as app:
                assert [spec.name for spec in app.registry.specs()] == list(catalog.TOOLS)
                faults = app.sources.faults
    assert sorted(faults) == [
        "plugin channels.bad (bad-tools 1.0)",
        "plugin commands.bad (bad-tools 1.0)",
        "plugin tool_sources.bad (bad-tools 1.0)",
        "plugin tools.bad (bad-tools 1.0)",
        "tool read of plugin tools.read (bad-tools 1.0)",
    ]
    for what, why in faults.items():
        assert f"{what}: {why}" in caplog.messages
