"""A Postgres that is frozen: connections stay open, and nothing is answered."""

import asyncio
import logging
import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.postgres.connecting import Connection, connect

log = logging.getLogger(__name__)

STALL_SECONDS = 12.0
"""Seconds without an answer to a statement after which Postgres counts as away: people are told within twenty."""
SILENT_SECONDS = 3.0
"""The same from then on, until it answers something; and the time between two tries."""


@contextmanager
def cut_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Cut a connection that does not answer in time: every call that waits on it fails as if the network had.

    Cancelling such a call instead would take up to ten seconds, while psycopg waits for Postgres.
    """
    timer = asyncio.get_running_loop().call_later(seconds, _cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: Connection) -> None:
    log.error("Postgres does not answer: the connection is cut")
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as copy:
        copy.shutdown(socket.SHUT_RDWR)


class Unanswered(psycopg.OperationalError):
    """Postgres did not answer in time. An immediate retry would be pointless."""


class Silence:
    """Whether Postgres answers nothing on any connection. While that lasts, there is one try every few seconds."""

    def __init__(self) -> None:
        self.lasts = False
        self._answered_at = self._next_try = -math.inf
        self._waiting = set[Connection]()
        self._connecting = set[asyncio.Timeout]()

    def refuse(self) -> None:
        """Fail immediately between two tries: tasks queued for a connection need not wait for their turn.

        Raises:
            Unanswered: it is too early.
        """
        if self.lasts and _now() < self._next_try:
            raise Unanswered("it does not answer")

    @contextmanager
    def watch(self, connection: Connection) -> Iterator[None]:
        """Cut the connection if the statements of the block are not answered in time.

        Raises:
            Unanswered: they were not.
        """
        began = _now()
        timer = asyncio.get_running_loop().call_later(self._seconds, self._abandon, connection, began)
        self._waiting.add(connection)
        try:
            yield
        except psycopg.OperationalError as error:
            if connection not in self._waiting:
                raise Unanswered("it does not answer") from error
            raise
        finally:
            timer.cancel()
            self._waiting.discard(connection)
        self._end()

    async def connect(self, place: PostgresPlace, name: str) -> Connection:
        """Connect as `connecting.connect` does, but wait no longer than for the answer to a statement.

        Raises:
            psycopg.Error: Postgres cannot be reached or refuses.
        """
        self.refuse()
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                self._connecting.add(limit)
                connection = await connect(place, name)
        except (TimeoutError, psycopg.errors.ConnectionTimeout) as error:
            self._start()
            raise Unanswered("it does not answer") from error
        finally:
            self._connecting.discard(limit)
        self._end()
        return connection

    def _abandon(self, connection: Connection, began: float) -> None:
        given_up = {connection}
        if self._answered_at <= began:  # else these statements alone are slow
            self._start()
            given_up |= self._waiting
            for limit in self._connecting:
                limit.reschedule(_now())
        self._waiting -= given_up
        for each in given_up:
            _cut(each)

    @property
    def _seconds(self) -> float:
        return SILENT_SECONDS if self.lasts else STALL_SECONDS

    def _start(self) -> None:
        self.lasts, self._next_try = True, _now() + SILENT_SECONDS

    def _end(self) -> None:
        self.lasts, self._answered_at = False, _now()


def _now() -> float:
    return asyncio.get_running_loop().time()
