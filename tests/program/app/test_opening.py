"""The daemon opens with what works, and says what does not."""

import asyncio
import logging
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core import catalog
from goclaw.common.core.clock import SteppedClock
from goclaw.program.app import open_app
from tests.plugin import install, packages
from tests.program.ops.test_store_copy import copied

__all__ = ["packages"]


@pytest.mark.promise("P-plugins-stop-nothing")
async def test_broken_plugins_are_named_and_the_daemon_runs(
    tmp_path: Path, packages: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = {"tools.bad": "bad:bad", "tool_sources.bad": "bad:SOURCE", "tools.read": "good:read"}
    points |= {"channels.bad": "bad:CHANNEL", "commands.bad": "bad:COMMAND"}
    good = (
        "from goclaw.specs import SideEffect\nfrom goclaw.tools.toolkit.base import ToolContext, tool\n"
        "@tool(side_effect=SideEffect.NONE)\nasync def read(ctx: ToolContext) -> str:\n    'Not ours.'\n    return ''\n"
    )
    install(packages, "bad-tools", {"bad": "raise RuntimeError('at import')", "good": good}, points)
    config = Config.model_validate({"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}})
    async with asyncio.timeout(30):
        with caplog.at_level(logging.WARNING):
            async with open_app(config, SteppedClock()) as app:
                assert [spec.name for spec in app.foundation.tools.registry.specs()] == list(catalog.TOOLS)
                faults = app.foundation.tools.sources.faults
    assert sorted(faults) == [
        "plugin channels.bad (bad-tools 1.0)",
        "plugin commands.bad (bad-tools 1.0)",
        "plugin tool_sources.bad (bad-tools 1.0)",
        "plugin tools.bad (bad-tools 1.0)",
        "tool read of plugin tools.read (bad-tools 1.0)",
    ]
    for what, why in faults.items():
        assert f"{what}: {why}" in caplog.messages


async def test_a_start_without_the_store_that_the_folder_was_used_with_says_so(
    tmp_path: Path, place: PostgresPlace, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"state_dir": tmp_path / "state", "models": {"agent": ["demo"]}}
    store = {"store": f"{place.url}?schema={place.schema}"}
    (tmp_path / "state").mkdir(mode=0o700)
    caplog.set_level(logging.WARNING)
    for more in (store, store, {}):
        assert "was last used with" not in caplog.text
        async with asyncio.timeout(60), open_app(Config.model_validate(values | more), with_channels=False):
            pass
    assert f"was last used with {place.shown}, but `store` is no longer set" in caplog.text
    await copied(Config.model_validate(values), place, tmp_path / "state" / "goclaw.db", replace=True)
    caplog.clear()
    async with asyncio.timeout(60), open_app(Config.model_validate(values), with_channels=False):
        assert "was last used with" not in caplog.text
