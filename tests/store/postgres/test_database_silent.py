"""A Postgres that stands still: people are told within twenty seconds, and it goes on where it was."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goclaw.errors import DiskError
from goclaw.store.postgres import database
from tests.acceptance.waiting import clock
from tests.parts import sql
from tests.postgres import Server, fresh_place
from tests.store.postgres.test_database import keys, opened, session

KEYS = sql("SELECT key FROM sessions ORDER BY key")


@contextmanager
def standing_still(server: Server) -> Iterator[None]:
    """Stop all processes of Postgres in the block, as on a machine that is frozen."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    for process in (server.pid, *map(int, children)):
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in (server.pid, *map(int, children)):
            os.kill(process, signal.SIGCONT)


async def test_of_a_postgres_that_stands_still_only_the_first_look_waits_long(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STALL_SECONDS", 2.0)
    monkeypatch.setattr(database, "SILENT_SECONDS", 0.2)
    async with opened(fresh_place(own_server)) as found:
        for _ in range(3):
            await asyncio.gather(*(found.read(KEYS) for _ in range(3)))  # several connections are there already
        await found.write(session("a"))
        with standing_still(own_server):
            since = clock.monotonic()
            looks = await asyncio.gather(*(found.read(KEYS) for _ in range(3)), return_exceptions=True)
            assert all(isinstance(each, DiskError) for each in looks)
            assert clock.monotonic() - since < 4.0, "not once for each connection"
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
