"""Telegram channels of several processes on one schema of Postgres, or of one on SQLite; all are parts of this one."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

from goclaw.channels.base import Channel, ChannelPorts, NobodyListed, People, Routes, Unrecorded
from goclaw.channels.processes import Processes, SoleProcess
from goclaw.channels.telegram.webhook import HEADER
from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.files import lock_folder
from goclaw.common.core.supervise import background
from goclaw.common.health.readiness import Readiness
from goclaw.common.net import open_client
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.database import Database
from goclaw.durable.store.ownership import Lease
from goclaw.durable.store.postgres.channel_processes import PostgresProcesses
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.documents import writer_of
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.durable.store.sqlite.database import open_file
from goclaw.errors import ToolError
from goclaw.gateway.servers.http import open_http
from tests.acceptance.waiting import clock as real
from tests.channels.support import RecordingGateway
from tests.channels.telegram.support import GROUPS, PART, UNHURRIED, delivery
from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Json
from tests.ports import free_port
from tests.postgres import Server

STALL = 3.0
"""Seconds: less than the product's, but more than a busy machine holds this process up."""
SECRET = "a-secret-of-enough-letters"


@dataclass
class Replica:
    """One process's channel."""

    telegram: FakeTelegram
    channel: Channel
    gateway: RecordingGateway
    database: Database
    processes: Processes
    port: int = 0

    @property
    def schema(self) -> PostgresDatabase:
        """Its database, where it is one of several."""
        assert isinstance(self.database, PostgresDatabase)
        return self.database

    async def post(self, update: Json, secret: str = SECRET) -> int:
        """One call of Telegram's, to this process; returns the status."""
        url = f"http://127.0.0.1:{self.port}/hook"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=update, headers={HEADER: secret}) as response,
        ):
            return response.status

    async def send(self, text: str, *, chat: int = 5, number: str = "d1", **fields: Any) -> str:
        """Deliver `text`; returns the message's id."""
        made = delivery(text, chat=chat, number=number, **fields)
        return (await self.channel.deliver(made, Unrecorded())).message_id


async def _nothing_to_do(lease: Lease) -> bool:
    return True


async def _no_blob(key: str) -> bytes:
    raise ToolError(f"{key} is gone")


def _config(telegram: FakeTelegram, folder: Path, port: int, secret: str | None, settings: dict[str, Any]) -> Config:
    """`port`: where Telegram calls; 0: it is polled."""
    values = UNHURRIED | {"groups": GROUPS, "token": telegram.token, "base_url": telegram.base_url, "poll_seconds": 5}
    if port:
        hook = {"url": f"http://127.0.0.1:{port}/hook"} | ({"secret": secret} if secret else {})
        values |= {"mode": "webhook", "webhook": hook}
    http = {"http": {"port": port}} if port else {}
    folder.mkdir(mode=0o700, exist_ok=True)
    return Config.model_validate({"telegram": values | settings, "state_dir": folder, **http})


@asynccontextmanager
async def open_replica(
    place: PostgresPlace | None,
    telegram: FakeTelegram,
    folder: Path,
    gateway: RecordingGateway,
    *,
    clock: Clock = real,
    calls: bool = False,
    secret: str | None = SECRET,
    people: People | None = None,
    **settings: Any,
) -> AsyncIterator[Replica]:
    """A process with a channel that runs; `calls`: Telegram calls it, or the test does (`Replica.post`).

    `gateway` may be that of all, which tells a message that comes twice, as the inbox does. `place`: None: it is alone,
    on SQLite in its folder.
    """
    port = free_port() if calls else 0
    config = _config(telegram, folder, port, secret, settings)
    async with AsyncExitStack() as stack:
        if place is None:
            alone = await stack.enter_async_context(open_file(folder / "goclaw.db"))
            opened: tuple[Database, Processes, ChannelRows] = alone, SoleProcess(), ChannelRows(alone)
        else:
            opened = await _open_shared(stack, place, clock)
        database, processes, state = opened
        session = await stack.enter_async_context(open_client())
        routes = Routes()
        writer = lock_folder if place is None else writer_of(place, folder)
        ports = ChannelPorts(
            *(session, clock, _no_blob, state),
            routes=routes,
            processes=processes,
            writer=writer,
            people=people or NobodyListed(),
        )
        channel = await stack.enter_async_context(PART.open(config, ports))
        if calls:
            await stack.enter_async_context(open_http(config, routes, _ready))
        await stack.enter_async_context(background(channel.run(gateway), "telegram"))
        yield Replica(telegram, channel, gateway, database, processes, port)


async def _open_shared(
    stack: AsyncExitStack, place: PostgresPlace, clock: Clock
) -> tuple[Database, Processes, ChannelRows]:
    database = await stack.enter_async_context(open_schema(place, real))
    ownership = PostgresOwnership(database, clock, STALL)
    await stack.enter_async_context(background(ownership.run(_nothing_to_do), "ownership"))
    return database, PostgresProcesses(database, ownership, clock), ChannelRows(database, ownership.fence_of)


async def _ready() -> Readiness:
    return Readiness()


def end_duty(server: Server, place: PostgresPlace, replica: Replica) -> int:
    """Cut the connections of a process that hold advisory locks of duties, as is done to one that stands still.

    Returns how many these are.
    """
    query = (
        "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid "
        "WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND a.application_name LIKE %s"
    )
    with psycopg.connect(server.url, autocommit=True) as connection:
        [(ended,)] = connection.execute(query, (f"goclaw {replica.schema.replica} %",)).fetchall()
        return int(ended)
