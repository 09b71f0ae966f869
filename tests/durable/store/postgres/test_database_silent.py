"""A Postgres that stands still: people are told within twenty seconds, and it goes on where it was."""

import asyncio

import psycopg
import pytest

from goclaw.durable.store.postgres import database, silence
from goclaw.durable.store.postgres.connecting import Connection
from goclaw.durable.store.postgres.duties import Duties
from goclaw.errors import DiskError
from tests.acceptance.waiting import clock
from tests.durable.store.postgres.test_database import keys, opened, session
from tests.parts import sql
from tests.postgres import Server, fresh_place, frozen

KEYS = sql("SELECT key FROM sessions ORDER BY key")


@pytest.mark.long
async def test_of_a_postgres_that_stands_still_only_the_first_look_waits_long(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "STALL_SECONDS", 2.0)
    monkeypatch.setattr(silence, "SILENT_SECONDS", 3.0)
    async with opened(fresh_place(own_server)) as found:
        for _ in range(3):
            await asyncio.gather(*(found.read(KEYS) for _ in range(3)))  # several connections are there already
        await found.write(session("a"))
        with frozen(own_server):
            since = clock.monotonic()
            looks = [asyncio.create_task(found.read(KEYS)) for _ in range(2)]
            await clock.sleep(1.0)
            looks += [asyncio.create_task(found.read(KEYS)) for _ in range(2 * database.READERS)]
            await asyncio.wait(looks)
            assert all(isinstance(each.exception(), DiskError) for each in looks)
            assert clock.monotonic() - since < 2.9, "neither once for each connection nor each for its own time"
            with pytest.raises(DiskError):
                await found.write(session("b"))
        async with asyncio.timeout(20):
            while True:
                try:
                    await found.write(session("c"))
                    break
                except DiskError:
                    await clock.sleep(0.05)
        assert "c" in await keys(found)
        assert not found._silence.lasts


async def test_duties_end_although_a_heartbeat_waits_for_a_frozen_postgres(own_server: Server) -> None:
    async with opened(fresh_place(own_server)) as found:
        duties, begun = Duties(found.place, "duties", clock, 0.5), asyncio.Event()

        async def work() -> None:
            begun.set()
            await asyncio.Event().wait()

        async def beat(connection: Connection) -> None:
            with duties.watch_connection(connection):
                async with connection.transaction():
                    raise AssertionError("it answered")

        leading = asyncio.create_task(duties.lead("a duty", work))
        await begun.wait()
        async with duties.one() as connection:
            with frozen(own_server):
                beating = asyncio.create_task(beat(connection))
                ended, _ = await asyncio.wait({leading, beating}, timeout=8)
                assert ended == {leading, beating}
        assert isinstance(leading.exception(), DiskError)
        assert isinstance(beating.exception(), psycopg.Error)


async def test_a_slow_statement_is_cut_and_other_ones_go_on(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "STALL_SECONDS", 1.0)
    async with opened(fresh_place(own_server)) as found:
        slow = asyncio.create_task(found.read(sql("SELECT pg_sleep(30)")))
        while not slow.done():
            assert await keys(found) == []
            await clock.sleep(0.05)
        assert isinstance(slow.exception(), DiskError)
        await found.write(session("a"))
        assert await keys(found) == ["a"]
