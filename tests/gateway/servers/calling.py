"""A listener with a part of the catalogue on the core of the daemon, and the programs that call it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from goclaw.channels.base import Routes
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens, add_token, revoke_token
from goclaw.common.auth.users import User
from goclaw.common.config.load import CONFIG_FILE
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.health.readiness import Readiness
from goclaw.gateway.servers.http import ListenerLimits, open_http
from goclaw.gateway.servers.routes import RoutePart
from goclaw.tools.toolkit.base import Tool
from tests.gateway.servers.route_ports import route_ports
from tests.harness import Answer, Core, World

ANN = User("memory:here", "Ann")
BOB = User("memory:there", "Bob")
DOCUMENTED = "http://127.0.0.1:8137"
"""Where examples of the documentation find the listener."""


def world_with(
    part: str,
    folder: Path,
    *answers: Answer,
    users: tuple[User, ...] = (ANN, BOB),
    given: Sequence[Tool] = (),
    http: Mapping[str, Any] | None = None,
    **config: Any,
) -> World:
    """A world whose listener has the part `http.<part>`."""
    return World(folder, answers, users=users, tools=given, http={"port": 0, part: True, **(http or {})}, **config)


@dataclass(frozen=True)
class Answered:
    """What a program hears."""

    status: int
    said: Any
    headers: Mapping[str, str]


AnsweredT = TypeVar("AnsweredT", bound=Answered)


@dataclass
class Service:
    """The listener, as programs reach it."""

    world: World
    core: Core
    port: int
    tokens: Tokens
    audited: list[AuditEntry] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def config_file(self) -> Path:
        """The configuration file that operations change."""
        return self.world.config.state_dir / CONFIG_FILE

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def _path(self) -> Path:
        return self.world.config.tokens_path

    def _name(self, user: str) -> str:
        return f"{user.replace(':', '-')}-{self.port}"

    def secret(self, user: str = ANN.key) -> str:
        """A user's token, made when first wanted."""
        if user not in self.secrets:
            self.secrets[user] = add_token(self._path, self._name(user), user, self.world.clock.now())
        return self.secrets[user]

    async def revoke(self, user: str = ANN.key) -> None:
        revoke_token(self._path, self._name(user))
        await self.tokens.refresh()

    def here(self, example: str, user: str) -> str:
        """An example of the documentation with the listener's port and a token."""
        assert DOCUMENTED in example
        return example.replace(DOCUMENTED, self.url).replace("$TOKEN", self.secret(user))

    def headers(self, user: str, given: Mapping[str, str]) -> dict[str, str]:
        """The headers of a program; `given` with `_` for `-`, over those that it has."""
        own = {"Authorization": f"Bearer {self.secret(user)}", "Content-Type": "application/json"}
        return own | {name.replace("_", "-"): value for name, value in given.items()}

    async def request(
        self, kind: type[AnsweredT], method: str, path: str, body: object, headers: Mapping[str, str]
    ) -> AnsweredT:
        """Send one request; `path` is sent as it is."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = URL(f"{self.url}{path}", encoded=True)
        async with (
            aiohttp.ClientSession() as http,
            http.request(method, url, data=raw if method in ("POST", "PATCH") else None, headers=headers) as response,
        ):
            text = await response.text()
            is_json = response.content_type.endswith("json")
            return kind(response.status, json.loads(text) if is_json else text, response.headers)

    async def raw(self, head: str, body: bytes = b"") -> tuple[int, str]:
        return await send_raw(self.port, head, body)


async def send_raw(port: int, head: str, body: bytes = b"") -> tuple[int, str]:
    """Send bytes as they are, read until the other end closes, and return the status and the body."""
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.replace("\n", "\r\n").encode() + body)
        answer = (await reader.read()).decode()
        writer.close()
    return int(answer.split()[1]) if answer else 0, answer.partition("\r\n\r\n")[2]


ServiceT = TypeVar("ServiceT", bound=Service)


@asynccontextmanager
async def listening(
    kind: type[ServiceT],
    world: World,
    core: Core,
    name: str,
    caps: ListenerLimits | None = None,
) -> AsyncIterator[ServiceT]:
    """Serve a part of the catalogue as the daemon does."""
    part = load(catalog.ROUTES[name], RoutePart)
    tokens = Tokens(world.config.tokens_path, world.clock)
    await tokens.refresh()
    audited: list[AuditEntry] = []
    routes = Routes()
    routes.added.extend(part.routes(route_ports(world, core, tokens, audited)))
    routes.rules.extend(part.rules)

    async def ready() -> Readiness:
        return Readiness()

    async with open_http(world.config, routes, ready, caps) as server:
        yield kind(world, core, server.port, tokens, audited)
