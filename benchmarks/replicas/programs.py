"""Gateways that programs reach from outside: by the HTTP API of each, with a model whose clock is theirs.

Who owns a session is read from the table of owners. Everything else goes the way of any other program.
"""

import asyncio
import json
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import aiohttp
import psycopg

from benchmarks.figures import Json
from benchmarks.replicas.model import PATIENCE, Model, open_model
from benchmarks.stage import state_folder
from goclaw.common.auth.tokens import add_token
from goclaw.common.config.load import load_config
from tests.acceptance.daemon import Installation, installation
from tests.acceptance.waiting import LOOK_SECONDS, clock
from tests.ports import free_port
from tests.postgres import Server

_PID = re.compile(r" pid (\d+) ")
_LINE = 2**20
"""Bytes of one line of a stream."""
_OWNER = b"""
SELECT r.address, extract(epoch FROM o.taken_at)::float8, o.epoch FROM session_owners o
JOIN replicas r ON r.id = o.replica
WHERE o.session = %s AND EXISTS (SELECT FROM procrastinate_jobs j WHERE j.lock = o.session AND j.status = 'doing')
"""
_OPEN = b"SELECT id FROM inbox WHERE state <> 'done'"
_NOW = b"SELECT extract(epoch FROM clock_timestamp())::float8"


class Owner(NamedTuple):
    """Who has a session."""

    gateway: "Gateway"
    taken_at: float
    """In epoch seconds of the database's clock."""
    epoch: int


class Seen(NamedTuple):
    """An event of a session, as a program got it."""

    at: float
    """On the machine's monotonic clock."""
    name: str
    event: Json


@dataclass
class Gateway:
    """One gateway and its API."""

    home: Installation
    port: int
    http: aiohttp.ClientSession
    tokens: dict[str, str]
    """A token of each person, by the name of their session."""

    async def post(self, session: str, path: str, body: Json) -> Json:
        """A request that has to be taken: `messages`, `stop`; `path` that begins with `/` is no session's."""
        async with self.http.post(self._url(session, path), json=body, headers=self._head(session)) as response:
            said = await response.text()
            if response.status >= 300:
                raise RuntimeError(f"{path} of {session} at {self.port}: {response.status} {said}")
            found: Json = json.loads(said)
            return found

    async def say(self, session: str, text: str) -> Json:
        """Send a message or a command."""
        return await self.post(session, "messages", {"id": uuid.uuid4().hex, "text": text})

    async def questions(self, session: str) -> list[Json]:
        """The questions that wait for the session's person."""
        async with self.http.get(self._url(session, "/questions"), headers=self._head(session)) as response:
            response.raise_for_status()
            found: list[Json] = (await response.json())["questions"]
            return found

    @asynccontextmanager
    async def following(self, session: str) -> AsyncIterator["Follower"]:
        """Follow a session for as long as the block lasts."""
        async with self.http.get(self._url(session, "events"), headers=self._head(session)) as response:
            response.raise_for_status()
            follower = Follower()
            reading = asyncio.create_task(follower.read(response))
            try:
                yield follower
            finally:
                reading.cancel()
                await asyncio.wait({reading})

    def _url(self, session: str, path: str) -> str:
        place = path if path.startswith("/") else f"/sessions/{quote(session, safe='')}/{path}"
        return f"http://127.0.0.1:{self.port}/api/v1{place}"

    def _head(self, session: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[session]}"}


@dataclass
class Follower:
    """A program that follows a session."""

    seen: list[Seen] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, response: aiohttp.ClientResponse) -> None:
        """Note what comes, until it is cancelled."""
        async for line in response.content:
            if line.startswith(b"data: "):
                data = json.loads(line[6:])
                self.seen.append(Seen(time.monotonic(), data.get("name", ""), data.get("event", {})))
                self._news.set()

    async def first(self, *names: str, after: int = 0) -> Seen:
        """Wait for an event of one of these names, behind the first `after` events."""
        async with asyncio.timeout(PATIENCE):
            while not (found := [each for each in self.seen[after:] if each.name in names]):
                self._news.clear()
                await self._news.wait()
        return found[0]


@dataclass
class Stage:
    """Some gateways on one store, their people and the model."""

    model: Model
    gateways: list[Gateway]
    server: Server | None
    """None: SQLite."""
    schema: str
    _connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None

    async def now(self) -> float:
        """The database's clock, in epoch seconds."""
        [(now,)] = await self._rows(_NOW)
        return float(str(now))

    async def owner_now(self, session: str) -> Owner | None:
        """Return the gateway that works on a session or is keeping it; None: none that runs."""
        for address, taken_at, epoch in await self._rows(_OWNER, session):
            found = _PID.search(str(address))
            gateway = self._gateway(int(found[1])) if found else None
            if gateway is not None:
                return Owner(gateway, float(str(taken_at)), int(str(epoch)))
        return None

    async def owner(self, session: str, newer_than: int = 0) -> Owner:
        """Wait until a gateway owns a session; `newer_than`: the epoch of the owner before."""
        async with asyncio.timeout(PATIENCE):
            while not (owner := await self.owner_now(session)) or owner.epoch <= newer_than:
                await clock.sleep(LOOK_SECONDS)
        return owner

    async def all_done(self) -> None:
        """Wait until every turn has ended."""
        async with asyncio.timeout(PATIENCE):
            while await self._rows(_OPEN):
                await clock.sleep(LOOK_SECONDS)

    def other(self, gateway: Gateway) -> Gateway:
        """Another gateway."""
        return next(each for each in self.gateways if each is not gateway)

    def _gateway(self, pid: int) -> Gateway | None:
        running = (each for each in self.gateways if each.home.process and each.home.process.pid == pid)
        return next(running, None)

    async def _rows(self, query: bytes, *values: object) -> list[tuple[object, ...]]:
        assert self.server is not None
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(
                self.server.url, autocommit=True, options=f"-csearch_path={self.schema}"
            )
        return await (await self._connection.execute(query, values)).fetchall()

    async def close(self) -> None:
        """Let the database go."""
        if self._connection is not None:
            await self._connection.close()


@asynccontextmanager
async def open_programs(gateways: int, server: Server | None, sessions: list[str]) -> AsyncIterator[Stage]:
    """Start the model and so many gateways, with a person and a token for each session (`tui:NAME`)."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(state_folder())
        model = await stack.enter_async_context(open_model())
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        http = await stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, timeout=timeout, read_bufsize=_LINE)
        )
        schema = f"programs_{time.monotonic_ns()}"
        made: list[Gateway] = []
        for number in range(gateways):
            home = await stack.enter_async_context(
                installation(
                    folder / f"gateway{number}",
                    None,
                    model.url,
                    workspace=str(folder / "work"),
                    http={"api": True, "port": free_port()},
                    policy={"always_ask": ["exec"]},
                )
            )
            if server:
                home.config["store"] = f"{server.url}?schema={schema}"
                home.write_config()
            home.write_users({session: {"name": session.removeprefix("tui:").title()} for session in sessions})
            made.append(Gateway(home, home.config["http"]["port"], http, {}))
        tokens = await asyncio.to_thread(_tokens, made[0].home, sessions)
        for gateway in made:
            gateway.tokens = tokens
            _tokens_path(gateway.home).write_bytes(_tokens_path(made[0].home).read_bytes())
            _tokens_path(gateway.home).chmod(0o600)
        await made[0].home.start()  # it makes the schema
        async with asyncio.TaskGroup() as starting:
            for gateway in made[1:]:
                starting.create_task(gateway.home.start())
        stage = Stage(model, made, server, schema)
        stack.push_async_callback(stage.close)
        yield stage
        for gateway in made:
            if gateway.home.process is not None:
                await gateway.home.stop()


def _tokens(home: Installation, sessions: list[str]) -> dict[str, str]:
    path = _tokens_path(home)
    return {session: add_token(path, session.removeprefix("tui:"), session, time.time()) for session in sessions}


def _tokens_path(home: Installation) -> Path:
    # The folder of the state is an environment variable of the installation's processes, not of this one.
    return home.state / load_config(home.config_path).config.tokens_path.name
