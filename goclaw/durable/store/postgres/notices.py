"""Notices between the processes that share a schema: LISTEN and NOTIFY, over one connection a process.

A notice is a hint that something has changed, never the change itself: one that was sent while there was no connection
is lost, so each listener hears when that may have been, and reads again.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import psycopg

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.durable.store.database import BoundStatement, Statement
from goclaw.durable.store.postgres.connecting import connect, single
from goclaw.durable.store.postgres.faults import store_error

MAX_BYTES = 7_999
"""Bytes of a payload that Postgres takes (postgresql.org, "NOTIFY")."""
TELL = Statement("SELECT pg_notify(:topic || '_' || md5(current_schema()), :payload)")
_LISTEN = "SELECT 'LISTEN \"' || %s::text || '_' || md5(current_schema()) || '\"'"


@record
class _Listener:
    heard: Callable[[str], None]
    missed: Callable[[], None]


class Notices:
    """The notices that a process sends and hears."""

    def __init__(self, place: PostgresPlace, name: str) -> None:
        """Take the schema, and the name under which Postgres shows the connection."""
        self._place = place
        self._name = name
        self._listeners: dict[str, list[_Listener]] = {}
        self._is_new = asyncio.Event()
        """Set when there is a topic that the connection does not listen to yet."""

    def subscribe(self, topic: str, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        """Call `heard` with the notices of a topic, this process's own included, while `run` runs.

        Args:
            topic: a word of at most 30 letters; the channel in Postgres is this and the MD5 of the schema's name,
                which may be longer than a channel's.
            heard: called with the payload of each notice, in the order of their commits. It must not wait.
            missed: called after each connection is made: notices before that moment may have been missed.
        """
        self._listeners.setdefault(topic, []).append(_Listener(heard, missed))
        self._is_new.set()

    def notice_for(self, topic: str, payload: str) -> BoundStatement:
        """Return the statement that sends a notice when its transaction is committed; equal ones become one.

        The payload has at most `MAX_BYTES` bytes, or the transaction is refused.
        """
        return TELL(topic=topic, payload=payload)

    async def run(self) -> None:
        """Listen until cancelled.

        Raises:
            StateError: the connection was lost. Begin again: listeners hear that they may have missed something.
        """
        while True:
            self._is_new.clear()
            async with (
                background(self._listen(list(self._listeners)), "notices") as listening,
                background(self._is_new.wait(), "new topics of notices") as is_new,
            ):
                await asyncio.wait({listening, is_new}, return_when=asyncio.FIRST_COMPLETED)

    async def _listen(self, topics: list[str]) -> None:
        try:
            async with await connect(self._place, self._name) as connection:
                channels = dict[str, str]()
                for topic in topics:
                    statement = str(await single(connection, _LISTEN, topic))
                    await connection.execute(statement.encode())
                    channels[statement.removeprefix("LISTEN ").strip('"')] = topic
                for topic in topics:
                    for listener in self._listeners[topic]:
                        listener.missed()
                async with aclosing(connection.notifies()) as notices:
                    async for notice in notices:
                        for listener in self._listeners[channels[notice.channel]]:
                            listener.heard(notice.payload)
        except (psycopg.Error, OSError) as error:
            raise store_error(error, self._place.shown, "read") from error
