"""A listener with `/metrics` on the core of the daemon, and what scrapes it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from goclaw.channels.base import Routes
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens, add_token
from goclaw.common.auth.users import User
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.health.readiness import Readiness
from goclaw.common.specs import SideEffect
from goclaw.gateway.servers.http import open_http
from goclaw.gateway.servers.routes import RoutePart
from goclaw.llm.base import ModelWatch
from goclaw.llm.chain import ModelChain
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.gateway.servers.route_ports import route_ports
from tests.harness import Answer, Core, World
from tests.parts import GivenModels

ANN = User("memory:here", "Ann")
ROOT = User("tui:root", "Root", roles=frozenset({"admin"}))
VITALS = {"event_loop_late_ms": 12.5, "unhandled_errors": 1}


@tool(side_effect=SideEffect.NONE, name="read")
async def reading(ctx: ToolContext) -> str:
    """Read."""
    return "done"


class Scraped(dict[tuple[str, str], float]):
    """The values of a scrape, by name and labels (`outcome=ok,tool=read`)."""

    def __init__(self, text: str) -> None:
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        super().__init__(
            {
                (each.name, ",".join(f"{key}={value}" for key, value in sorted(each.labels.items()))): each.value
                for each in samples
            }
        )


@dataclass
class Site:
    """The listener."""

    world: World
    tokens: Tokens
    port: int
    audited: list[AuditEntry]

    async def ask(self, path: str = "/metrics", **headers: str) -> tuple[int, str, Mapping[str, str]]:
        """Return status, body and headers; `_` in the name of a header stands for `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with aiohttp.ClientSession() as http, http.get(url, headers=given) as response:
            return response.status, await response.text(), dict(response.headers)

    async def send(self, method: str) -> int:
        """Return the status of a request with another method."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        async with aiohttp.ClientSession() as http, http.request(method, url) as response:
            return response.status

    async def scrape(self) -> Scraped:
        """Return the metrics, as a program of this machine reads them."""
        status, text, _ = await self.ask()
        assert status == 200
        return Scraped(text)

    async def token(self, name: str, user: User) -> str:
        """Make an access token of a user."""
        secret = add_token(self.world.config.tokens_path, name, user.key, self.world.clock.now())
        await self.tokens.refresh()
        return secret


class MetricsWorld(World):
    """A world whose model is a chain that tells `watches`, as the daemon's are."""

    def __init__(self, folder: Path, *answers: Answer, tools: Sequence[Tool] = (), **http: Any) -> None:
        http = {"metrics": True, "port": 0, **http}
        super().__init__(folder, answers, users=(ANN, ROOT), tools=tools, http=http)
        self.watches: list[ModelWatch] = []
        self.models = GivenModels(ModelChain([self.script], self.clock, watches=self.watches))


@asynccontextmanager
async def site(world: MetricsWorld, core: Core) -> AsyncIterator[Site]:
    """Serve the metrics of a running core."""
    part = load(catalog.ROUTES["metrics"], RoutePart)
    audited: list[AuditEntry] = []
    tokens = Tokens(world.config.tokens_path, world.clock)
    ports = route_ports(world, core, tokens, audited, counts=lambda: VITALS, model_watches=world.watches)
    routes = Routes()
    routes.added.extend(part.routes(ports))

    async def ready() -> Readiness:
        return Readiness()

    async with open_http(world.config, routes, ready) as server:
        yield Site(world, tokens, server.port, audited)
