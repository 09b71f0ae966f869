"""Connections to Postgres: how they are made, the lock that one process holds on a schema, and those that read."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Cursor
from psycopg.conninfo import conninfo_to_dict

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.redact import remember
from goclaw.errors import StateError, StoreInUse

DEFAULTS: Mapping[str, str] = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""A peer that is gone without a word is noticed within half a minute, and not after the two hours of Linux."""
PREPARED_AFTER = 5
"""Uses of a query after which Postgres keeps it prepared; psycopg's own default. Prepared, the statements of a turn
take a third less of Postgres's processor."""
LOCK_SECONDS = 10.0
"""Seconds for the connection of a process that has just died to be noticed by Postgres."""
LOOK_SECONDS = 0.1
# What it says of a pipeline that has failed is nothing but the error that it raises.
logging.getLogger("psycopg").setLevel(logging.ERROR)
_MAX_NAME = 63
"""Bytes of `application_name` that Postgres keeps."""
SEARCH_PATH = b"SELECT set_config('search_path', %s, false)"
_SETTINGS = """
SELECT set_config('search_path', %s, false), set_config('lock_timeout', '8s', false),
  set_config('client_min_messages', 'error', false),
  CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END
"""
"""A lock is waited for for longer than a paused process keeps one: until it counts as dead (four seconds, unless
`replica.stall_seconds` says otherwise), and the next look for the dead ends its connections."""
_KEY = "hashtextextended('goclaw:' || %s::text, 0)"
_LOCK_ALONE = f"SELECT pg_try_advisory_lock({_KEY})"
_LOCK_SHARED = f"SELECT pg_try_advisory_lock_shared({_KEY})"
HOLDERS_OF = f"""
SELECT a.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database()
  AND (l.classid::bigint << 32) | l.objid::bigint = {_KEY} ORDER BY a.backend_start
"""  # noqa: S608  # our own words
"""The processes that use a schema: their connections hold its lock, so killed processes are not included."""
_END = "SELECT pg_terminate_backend(%s)"
_ALONE = (
    "another GoClaw ({others}) uses {place}, but this works only while none does: stop each with "
    + daemon_command("stop")
)
_NOT_NOW = "another GoClaw ({others}) has exclusive use of {place}, as during a restore: try again when it has ended"


class PostgresRow:
    """A row of a result. Implements `store.database.Row`."""

    __slots__ = ("_places", "_values")

    def __init__(self, values: Sequence[Any], places: Mapping[str, int]) -> None:
        self._values = values
        self._places = places

    def __getitem__(self, key: int | str, /) -> Any:
        return self._values[self._places[key] if isinstance(key, str) else key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._places)


Connection = AsyncConnection[PostgresRow]


def make_rows(cursor: AsyncCursor[Any] | Cursor[Any]) -> Callable[[Sequence[Any]], PostgresRow]:
    """Return what makes rows of a result, as psycopg's `row_factory`."""
    places = {column.name: place for place, column in enumerate(cursor.description or ())}
    return lambda values: PostgresRow(values, places)


def machine() -> str:
    """Return the name of this machine, or of the container."""
    return socket.gethostname()


def application_name(token: str) -> str:
    """Return the name under which Postgres shows a process: unique, and telling where it runs."""
    name = f"goclaw {token} pid {os.getpid()} on {machine()}"
    return name.encode()[:_MAX_NAME].decode(errors="ignore")


async def connect(place: PostgresPlace, name: str) -> Connection:
    """Connect in autocommit, with the schema as the search path.

    Off this machine the server's certificate is verified unless the address says otherwise (`sslmode`).

    Raises:
        psycopg.Error: Postgres cannot be reached or refuses.
    """
    options = parameters(place) | {"application_name": name}
    connection = await AsyncConnection.connect(
        **options, autocommit=True, row_factory=make_rows, prepare_threshold=PREPARED_AFTER
    )
    try:
        await connection.execute(_SETTINGS, (f'"{place.schema}", pg_temp',))
    except BaseException:
        await connection.close()
        raise
    return connection


def parameters(place: PostgresPlace) -> dict[str, Any]:
    """Return the parameters for libpq.

    Raises:
        StateError: libpq does not know a parameter of the address.
    """
    try:
        given = conninfo_to_dict(place.url)
    except psycopg.ProgrammingError as error:
        raise StateError(f"store: {place.shown} is not a Postgres address: {error}") from None
    options: dict[str, Any] = {**DEFAULTS, **given}
    if "sslmode" not in given and _off_this_machine(given):
        options |= {"sslmode": "verify-full", "sslrootcert": options.get("sslrootcert", "system")}
    if password := place.current_password():
        remember(password)  # it may be newer than the configuration
        options["password"] = password
    return options


def off_this_machine(place: PostgresPlace) -> bool:
    """Whether Postgres is reached over a network."""
    return _off_this_machine(conninfo_to_dict(place.url))


def _off_this_machine(given: Mapping[str, Any]) -> bool:
    hosts = str(given.get("host") or os.environ.get("PGHOST", "")).split(",")
    return not all(host in ("", "localhost", "::1") or host.startswith(("/", "@", "127.")) for host in hosts)


async def lock(connection: Connection, place: PostgresPlace, clock: Clock, *, alone: bool) -> None:
    """Take the lock of the schema; it is held until the connection ends.

    `alone`: no other process may use the schema meanwhile; older connections of this one are ended. Otherwise all but
    such a process may.

    Raises:
        StoreInUse: others hold it, and `alone`; the message has their names.
        StateError: one holds it alone.
    """
    deadline = clock.monotonic() + LOCK_SECONDS
    while not await single(connection, _LOCK_ALONE if alone else _LOCK_SHARED, place.schema):
        found = await (await connection.execute(HOLDERS_OF, (place.schema,))).fetchall()
        name = await single(connection, "SELECT current_setting('application_name')")
        others = [row["application_name"] for row in found if row["application_name"] != name]
        if alone:
            for row in found:
                if row["application_name"] == name:
                    await connection.execute(_END, (row["pid"],))
        if others and clock.monotonic() >= deadline:
            names = ", ".join(others)
            if alone:
                raise StoreInUse(_ALONE.format(place=place.shown, others=names), names)
            raise StateError(_NOT_NOW.format(place=place.shown, others=names))
        await clock.sleep(LOOK_SECONDS)


async def single(connection: Connection, query: str, *values: object) -> Any:
    """Return the first column of a query's first row; None where it has no row."""
    row = await (await connection.execute(query.encode(), values)).fetchone()
    return row[0] if row else None


class Readers:
    """At most so many connections that read, made when they are needed and again when they were lost.

    A pool that makes them in the background would wait longer and longer between its tries: after an outage of minutes
    queries would wait for minutes, too.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], refuse: Callable[[], None], limit: int) -> None:
        """Take how a connection is made, and what raises psycopg.Error while none is to be lent."""
        self._connect = connect
        self._refuse = refuse
        self._free = asyncio.Semaphore(limit)
        self._idle: list[Connection] = []
        self._is_closed = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[tuple[Connection, bool]]:
        """Lend a connection, and whether it was made before; one that was lost meanwhile is not kept.

        Raises:
            psycopg.Error: Postgres cannot be reached or refuses.
        """
        async with self._free:
            self._refuse()
            known = bool(self._idle)
            connection = self._idle.pop() if known else await self._connect()
            try:
                yield connection, known
            except BaseException:
                # Also when its user was cancelled in the middle of an answer.
                is_usable = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
                await self._return_connection(connection, is_usable=is_usable)
                raise
            await self._return_connection(connection, is_usable=True)

    async def _return_connection(self, connection: Connection, *, is_usable: bool) -> None:
        if is_usable and not (self._is_closed or connection.closed):
            self._idle.append(connection)
        else:
            await connection.close()

    async def close(self) -> None:
        """Close them: those that are lent when they come back."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().close()
