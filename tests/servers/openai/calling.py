"""A listener with `/v1` on the core of the daemon, and the programs that call it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from openai import AsyncOpenAI

from goclaw.auth.audit import AuditEntry
from goclaw.auth.tokens import Tokens, add_token, revoke_token
from goclaw.auth.users import User
from goclaw.channels.base import Routes
from goclaw.core import catalog
from goclaw.core.plugins import load
from goclaw.health.readiness import Readiness
from goclaw.servers.http import ListenerLimits, open_http
from goclaw.servers.routes import RoutePart
from goclaw.toolkit.base import Tool
from tests.harness import Answer, Core, World
from tests.servers.route_ports import route_ports

ANN = User("memory:here", "Ann")
BOB = User("memory:there", "Bob")
HELLO = [{"role": "user", "content": "Hello"}]


def world_with(
    folder: Path,
    *answers: Answer,
    users: tuple[User, ...] = (ANN, BOB),
    given: Sequence[Tool] = (),
    http: Mapping[str, Any] | None = None,
    **config: Any,
) -> World:
    """A world with `http.openai`."""
    http = {"port": 0, "openai": True, **(http or {})}
    return World(folder, answers, users=users, tools=given, http=http, **config)


@dataclass(frozen=True)
class Answered:
    """What a program hears."""

    status: int
    said: Any
    headers: Mapping[str, str]

    @property
    def error(self) -> Mapping[str, Any]:
        """The error in OpenAI's shape, with its four fields and no other."""
        assert set(self.said) == {"error"}, self.said
        assert set(self.said["error"]) == {"message", "type", "param", "code"}
        found: Mapping[str, Any] = self.said["error"]
        return found


@dataclass
class Service:
    """The listener, as programs reach it."""

    world: World
    core: Core
    port: int
    tokens: Tokens
    secrets: dict[str, str] = field(default_factory=dict)

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

    @asynccontextmanager
    async def client(self, user: str = ANN.key) -> AsyncIterator[AsyncOpenAI]:
        """OpenAI's own client, as a user's program has it."""
        async with AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.secret(user), max_retries=0) as client:
            yield client

    async def send(
        self,
        body: object,
        path: str = "/v1/chat/completions",
        *,
        method: str = "POST",
        user: str = ANN.key,
        **headers: str,
    ) -> Answered:
        """Send one request; `headers` with `_` for `-`, over those that a client has."""
        given = {"Authorization": f"Bearer {self.secret(user)}", "Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with (
            aiohttp.ClientSession() as http,
            http.request(
                method, f"{self.url}{path}", data=raw if method == "POST" else None, headers=given
            ) as response,
        ):
            text = await response.text()
            is_json = response.content_type == "application/json"
            return Answered(response.status, json.loads(text) if is_json else text, response.headers)

    async def ask(self, text: str = "Hello", *, user: str = ANN.key, stream: bool = False, **headers: str) -> Answered:
        """Ask by a chat completion."""
        body = {"model": "goclaw", "messages": [{"role": "user", "content": text}], "stream": stream}
        return await self.send(body, user=user, **headers)

    async def raw(self, head: str, body: bytes = b"") -> tuple[int, str]:
        """Send bytes as they are, and read until the other end closes."""
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(head.replace("\n", "\r\n").encode() + body)
            answer = (await reader.read()).decode()
            writer.close()
        return int(answer.split()[1]) if answer else 0, answer.partition("\r\n\r\n")[2]


def content(answered: Answered) -> str:
    """The text of a chat completion."""
    assert answered.status == 200, answered.said
    found: str = answered.said["choices"][0]["message"]["content"]
    return found


def chunks(text: str) -> list[dict[str, Any]]:
    """The JSON data of a stream's events, without the end."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def streamed(text: str, field: str = "content") -> str:
    """What a stream of chunks says."""
    deltas = [choice["delta"] for chunk in chunks(text) for choice in chunk.get("choices", ())]
    return "".join(delta.get(field) or "" for delta in deltas)


@asynccontextmanager
async def service(world: World, core: Core, caps: ListenerLimits | None = None) -> AsyncIterator[Service]:
    """Serve `/v1` as the daemon does."""
    part = load(catalog.ROUTES["openai"], RoutePart)
    audited: list[AuditEntry] = []
    tokens = Tokens(world.config.tokens_path, world.clock)
    await tokens.refresh()
    ports = route_ports(world, core, tokens, audited)
    routes = Routes()
    routes.added.extend(part.routes(ports))
    routes.rules.extend(part.rules)

    async def ready() -> Readiness:
        return Readiness()

    async with open_http(world.config, routes, ready, caps) as server:
        yield Service(world, core, server.port, tokens)
