"""The daemon fetches what registries list, waits for none of them, and says which cannot be had."""

import asyncio
from pathlib import Path
from typing import Any

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore
from goclaw.program.app import open_app
from goclaw.program.app.registries import SYNC_AFTER_SECONDS
from goclaw.program.app.status import details
from tests.extensions.registries.fake_registry import FakeRegistry, fake_registry, item, toolset

SECONDS = 30.0
STEP = 20 * SYNC_AFTER_SECONDS


def fetching_from(folder: Path, registry: FakeRegistry, **more: Any) -> Config:
    settings = {"url": registry.url, "retry": {"max": 0}, "sync_interval": "5m"}
    return Config.model_validate(
        {"state_dir": folder, "models": {"agent": ["demo"]}, "registries": {"corp": settings}, **more}
    )


async def until(clock: SteppedClock, fact: Any) -> None:
    """Let time pass until it is so."""
    while not fact():
        clock.advance(STEP)
        await asyncio.to_thread(str)  # a fetch is read and kept in threads


async def test_a_catalogue_is_fetched_while_the_daemon_runs_and_a_changed_version_is_told_to_an_admin(
    tmp_path: Path,
) -> None:
    clock, shelf = SteppedClock(), CatalogStore(tmp_path / FILE)
    async with asyncio.timeout(SECONDS), fake_registry(toolset()) as registry:
        async with open_app(fetching_from(tmp_path, registry), clock) as app:
            await until(clock, lambda: registry.asked and shelf.entries("corp"))
            assert app.foundation.tools.sources.faults == {} and app.foundation.alerts.open() == {}
            registry.items = [item(toolset(description="Other words."))]
            await until(clock, lambda: "registries.corp" in app.foundation.tools.sources.faults)
            assert (
                "toolset data-tools 1.0.0 is not what it was" in app.foundation.tools.sources.faults["registries.corp"]
            )
            assert "has changed a published entry" in app.foundation.alerts.open()["registry corp"]
            registry.items = [item(toolset())]
            await until(clock, lambda: "registries.corp" not in app.foundation.tools.sources.faults)
            assert app.foundation.alerts.open() == {}


async def test_a_registry_that_is_down_delays_nothing_and_the_status_says_so(tmp_path: Path) -> None:
    silent, clock = asyncio.Event(), SteppedClock()
    line = {"registry": "corp", "toolset": "data-tools"}
    async with asyncio.timeout(SECONDS), fake_registry(instead=[silent]) as registry:
        config = fetching_from(tmp_path, registry, tools={"from_registry": {"data": line}})
        async with open_app(config, clock) as app:
            await until(clock, lambda: registry.asked)  # it is open, and the registry still has not answered
            await app.foundation.tools.registry.ready()
            assert any(tool.spec.name == "read" for tool in app.foundation.tools.sources.tools())
            registry.down = True
            silent.set()
            await until(clock, lambda: "registries.corp" in app.foundation.tools.sources.faults)
            assert "does not answer now (HTTP 50" in app.foundation.tools.sources.faults["registries.corp"]
            assert "in tools or their servers; /tools lists them" in (await details(app, "tui:ann")).lines["Tools"]
            await until(clock, lambda: "tools.from_registry.data" in app.foundation.tools.sources.faults)
            assert "has not been fetched yet" in app.foundation.tools.sources.faults["tools.from_registry.data"]
