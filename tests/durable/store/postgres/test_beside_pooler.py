"""A pooler between GoClaw and Postgres, as `goclaw doctor` finds it: the process that answers is not the one it named.

PgBouncer gives its clients keys of its own to cancel queries with, in place of Postgres's.
"""

import asyncio
import secrets
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.postgres.beside import examine
from goclaw.durable.store.postgres.database import open_schema
from tests.acceptance.waiting import clock
from tests.postgres import Server

BACKEND_KEY = b"K"
"""The message with the process and the key (postgresql.org/docs/current/protocol-message-formats.html)."""


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _with_another_key(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what Postgres says, the number of its process in the first key but one."""
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        kind = b""
        while kind != BACKEND_KEY:
            kind, length = struct.unpack("!cI", await reader.readexactly(5))
            body = await reader.readexactly(length - 4)
            if kind == BACKEND_KEY:
                body = struct.pack("!I", secrets.randbelow(1 << 31) | 1 << 30) + body[4:]
            writer.write(struct.pack("!cI", kind, length) + body)
        await _copy(reader, writer)


@asynccontextmanager
async def pooler(target: int) -> AsyncIterator[int]:
    """What stands on a port for a Postgres on another one, for as long as the block lasts."""
    clients = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", target)
        try:
            await asyncio.gather(_copy(reader, back), _with_another_key(there, writer))
        finally:
            back.close()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        await server.wait_closed()


async def weaknesses(place: PostgresPlace) -> dict[str, str]:
    """What doctor says of the way to Postgres, with the remedies."""
    return dict((await asyncio.to_thread(examine, place)).weaknesses)


async def test_doctor_names_a_pooler_and_the_mode_that_it_needs(server: Server, place: PostgresPlace) -> None:
    async with pooler(server.port) as port:
        address = f"postgresql://goclaw@127.0.0.1:{port}/postgres?sslmode=disable&schema={place.schema}"
        behind = PostgresPlace.of(address)
        found = await weaknesses(behind)
        assert (
            found[("there is a connection pooler in front of Postgres")]
            == "PgBouncer works in session mode only (`pool_mode=session`)"
        )
        # Where each client has a connection of its own, as in that mode, all works.
        async with open_schema(behind, clock) as database:
            assert (await database.use()).connections >= 1
        assert "there is a connection pooler in front of Postgres" in await weaknesses(behind)
    assert not any("pooler" in words for words in await weaknesses(place))
