"""Duties that one process of several at a time has: advisory locks of Postgres, all of a process on one connection.

On the same connection it says that it is alive: one that cannot any more has no duty either.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background, ends_within, finish_despite_cancel
from goclaw.durable.store.postgres.connecting import Connection, connect, single
from goclaw.durable.store.postgres.faults import store_error
from goclaw.durable.store.postgres.silence import cut_after

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two tries to take a duty, and between two looks whether the connection that holds it is there."""
LATE_SECONDS = 1.5
"""Seconds without an answer on that connection after which it is asked whether it is there: this process's heartbeats
go over it, too, and they come about once a second."""
_KEY = "hashtextextended('goclaw:' || current_schema() || ':' || %s::text, 2)"
_TAKE = f"SELECT duty, pg_try_advisory_lock({_KEY.replace('%s', 'duty')}) FROM unnest(%s::text[]) AS duty"  # noqa: S608  # our own words
_LEAVE = f"SELECT pg_advisory_unlock({_KEY})"
_IS_THERE = "SELECT 1"


class Duties:
    """The duties of one process."""

    def __init__(self, place: PostgresPlace, name: str, clock: Clock, stall_seconds: float) -> None:
        """Take the schema, the name under which Postgres shows the connection, and when a silent process is dead."""
        self._place = place
        self._name = name
        self._clock = clock
        self._stall = stall_seconds
        self._connection: Connection | None = None
        self._users = 0
        self._opening = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._wanted: set[str] = set()
        self._taken: set[str] = set()
        """Duties that a look has taken, and whose task does not know of that yet."""
        self._tried_at = self._seen_at = -math.inf
        """When the duties that are wanted were last tried, and the connection last answered."""

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do a duty as soon as no other process does it, until cancelled, or `run` returns.

        Raises:
            DiskError: the connection is lost, and with it all duties of this process.
        """
        try:
            async with self.one() as connection, self._acquire(connection, duty):
                log.info("this process does what one at a time does: %s", duty)
                async with background(run(), duty) as work:
                    while not await ends_within(work, self._clock, LOOK_SECONDS):
                        if connection.closed or self._clock.monotonic() - self._seen_at > LATE_SECONDS:
                            with self.watch_connection(connection):
                                await single(connection, _IS_THERE)
        except (psycopg.Error, OSError) as error:
            raise store_error(error, self._place.shown, "written") from error

    @asynccontextmanager
    async def _acquire(self, connection: Connection, duty: str) -> AsyncIterator[None]:
        try:
            self._wanted.add(duty)
            self._tried_at = -math.inf  # a new one is tried at once
            while not await self._try(connection, duty):
                await self._clock.sleep(LOOK_SECONDS)
            yield
        finally:
            self._wanted.discard(duty)
            self._taken.discard(duty)
            # Also where this was cut while the lock was asked for. One that is not held is left with a warning alone.
            await finish_despite_cancel(self._leave(connection, duty), f"leaving the duty {duty}")

    async def _try(self, connection: Connection, duty: str) -> bool:
        """Try to take a duty: one statement is for all that are wanted, whichever of them asks first."""
        async with self._asking:
            if connection.closed:
                raise psycopg.OperationalError("the connection is lost")
            if duty in self._wanted and self._clock.monotonic() - self._tried_at >= LOOK_SECONDS / 2:
                wanted, self._tried_at = sorted(self._wanted), self._clock.monotonic()
                with self.watch_connection(connection):
                    cursor = await connection.execute(_TAKE.encode(), (wanted,))
                    found = {str(row[0]) for row in await cursor.fetchall() if row[1]}
                self._wanted -= found
                self._taken |= found
        return duty in self._taken

    @contextmanager
    def watch_connection(self, connection: Connection) -> Iterator[None]:
        """Note that the connection of the duties answers the statements of the block; cut it if it does not.

        By then the other processes have ended it.
        """
        with cut_after(connection, self._stall):
            yield
        if connection is self._connection:
            self._seen_at = self._clock.monotonic()

    async def _leave(self, connection: Connection, duty: str) -> None:
        try:
            with cut_after(connection, self._stall):
                await single(connection, _LEAVE, duty)
        except psycopg.Error:
            await connection.close()  # its locks end with it

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Connection]:
        """Lend the connection of all duties, which is made for the first and closed after the last."""
        async with self._opening:
            if self._connection is None or self._connection.closed:
                self._connection = await connect(self._place, self._name)
                self._wanted, self._taken = set(), set()  # those of the former connection end with it
            connection = self._connection
            self._users += 1
        try:
            yield connection
        finally:
            self._users -= 1
            if not self._users or connection is not self._connection:
                await connection.close()
