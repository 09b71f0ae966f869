"""A listener with one webhook on the core of the daemon, and what calls it."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from goclaw.channels.base import Routes
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens
from goclaw.common.auth.users import User
from goclaw.common.config.webhooks import IncomingWebhook
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.health.readiness import Readiness
from goclaw.gateway.servers.http import ListenerLimits, open_http
from goclaw.gateway.servers.routes import RoutePart
from goclaw.gateway.servers.webhooks.credentials import sign
from goclaw.tools.toolkit.base import Tool
from tests.gateway.servers.calling import send_raw
from tests.gateway.servers.route_ports import route_ports
from tests.harness import Answer, Core, World

SECRET = "a secret of thirty-two characters".replace(" ", "-")
PATH = "/hooks/ci"
ANN = User("memory:here", "Ann")
TASK = {"task": "Sum up: {{ body.title }}"}


def world_with(
    folder: Path,
    *answers: Answer,
    users: tuple[User, ...] = (ANN,),
    given: Sequence[Tool] = (),
    also: Mapping[str, Any] | None = None,
    **hook: Any,
) -> World:
    """A world whose configuration has the webhook `ci` of Ann (a task, unless `hook` has a message) and `also`."""
    kind = {} if "message" in hook else TASK
    settings = {"secret": SECRET, "user": ANN.key, **kind, **hook}
    rest = also or {}
    return World(folder, answers, users=users, tools=given, http={"port": 0}, webhooks={"ci": settings}, **rest)


@dataclass(frozen=True)
class Answered:
    """What the caller hears."""

    status: int
    said: Mapping[str, Any]
    headers: Mapping[str, str]


@dataclass
class Caller:
    """A service that knows the secret."""

    world: World
    port: int

    @property
    def hook(self) -> IncomingWebhook:
        return self.world.config.webhooks["ci"]

    async def call(self, body: object, **headers: str) -> Answered:
        """Call with a right signature; `headers` go before its own, with `_` for `-`."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.send(raw, {**sign(self.hook, raw, self.world.clock.now()), **given})

    async def send(self, raw: bytes, headers: Mapping[str, str], path: str = PATH) -> Answered:
        """Call with exactly these headers."""
        url = f"http://127.0.0.1:{self.port}{path}"
        async with aiohttp.ClientSession() as http, http.post(url, data=raw, headers=headers) as response:
            text = await response.text()
            return Answered(response.status, json.loads(text) if text else {}, response.headers)

    async def raw(self, head: str, body: bytes = b"") -> tuple[int, str]:
        return await send_raw(self.port, head, body)


@asynccontextmanager
async def caller(world: World, core: Core, caps: ListenerLimits | None = None) -> AsyncIterator[Caller]:
    """Serve the webhooks of the world's configuration."""
    part = load(catalog.ROUTES["webhooks"], RoutePart)
    routes = Routes()
    audited: list[AuditEntry] = []
    tokens = Tokens(world.config.tokens_path, world.clock)
    ports = route_ports(world, core, tokens, audited)
    routes.added.extend(part.routes(ports))

    async def ready() -> Readiness:
        return Readiness()

    async with open_http(world.config, routes, ready, caps) as server:
        yield Caller(world, server.port)
