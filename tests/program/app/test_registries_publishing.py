"""The daemon tells registries what it publishes, under the address at which its MCP server listens."""

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.extensions.registries.publishing import LOOK_SECONDS
from goclaw.program.app import open_app
from goclaw.program.app.status import details
from tests.acceptance.waiting import eventually
from tests.extensions.registries.fake_registry import TOKEN, FakeRegistry, fake_registry

SECONDS = 30.0
ALERT = "publishing agents.main.exports.reading in the registry corp"


def published_by(folder: Path, registry: FakeRegistry, **server: Any) -> Config:
    reading = {"include": ["read"], "tags": ["files"], "publish_to": ["corp"]}
    return Config.model_validate(
        {
            "state_dir": folder / "state",
            "models": {"agent": ["demo"]},
            "agents": {"main": {"exports": {"reading": reading}}},
            "registries": {"corp": {"url": registry.url, "auth": TOKEN}},
            "mcp": {"server": {"port": 0, **server}},
        }
    )


class Reluctant(FakeRegistry):
    """Takes nothing at first."""

    refuses = True

    async def answer(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=403) if self.refuses and request.method == "PUT" else await super().answer(request)


async def test_what_is_published_is_told_with_the_address_where_it_can_be_used(tmp_path: Path) -> None:
    clock, registry = SteppedClock(), Reluctant()
    async with asyncio.timeout(SECONDS), registry.listening():
        async with open_app(published_by(tmp_path, registry, enabled=True), clock) as app:
            while ALERT not in (alerts := app.foundation.alerts.open()):
                clock.advance(LOOK_SECONDS / 4)
                await asyncio.sleep(0)
            assert "(HTTP 403)" in alerts[ALERT]
            registry.refuses = False
            while len(registry.put) < 2 or app.foundation.tools.sources.faults:
                clock.advance(LOOK_SECONDS / 4)
                await asyncio.sleep(0)
            port = app.mcp_server.port
            assert ALERT not in app.foundation.alerts.open()
    toolset, agent = registry.put
    assert toolset["remotes"] == [{"url": f"http://127.0.0.1:{port}/mcp", "headers": ["Authorization"]}]
    assert [tool["name"] for tool in toolset["tools"]] == ["read"] and toolset["tags"] == ["files"]
    assert (agent["name"], agent["toolsets"]) == ("main", ["reading"])
    assert {request.headers["Authorization"] for request in registry.asked if request.method == "PUT"} == {
        f"Bearer {TOKEN}"
    }


async def test_without_the_mcp_server_nothing_is_told_which_the_status_says(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with asyncio.timeout(SECONDS), fake_registry() as registry:
        async with open_app(published_by(tmp_path, registry), clock) as app:
            await eventually(lambda: bool(app.foundation.tools.sources.faults))
            why = app.foundation.tools.sources.faults["mcp.server.enabled"]
            assert "no gateway could use what `publish_to` publishes" in why
            assert "1 fault in tools" in (await details(app, "tui:ann")).lines["Tools"]
    assert registry.put == []
