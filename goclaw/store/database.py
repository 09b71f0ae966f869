"""One SQLite file: a grouped writer and a reader.

All writes go through one connection. What waits while a commit runs is committed together with the next one, so that
fifty sessions cost one fsync instead of fifty. A transaction that asks to be durable is on disk when it returns
(`synchronous=FULL`); the others survive kill -9 but not a power cut (`NORMAL`, design: "Durable turns").
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy import ClauseElement, ColumnElement, Table, bindparam, select
from sqlalchemy.dialects import sqlite

from goclaw.errors import StateError
from goclaw.store.migrations import migrate
from goclaw.supervise import background

log = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_SIZE = 256
"""Transactions per commit at most; bounds how long one commit can hold the others up."""
BUSY_MS = 5_000
_ITS_OWN_FAULT = (
    sqlite3.IntegrityError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    ValueError,
    OverflowError,
)
"""Errors that a transaction's own values cause (text that is not Unicode is a ValueError): the group goes on."""
_DIALECT = sqlite.dialect(paramstyle="named")


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with its values, ready to run."""

    sql: str
    values: dict[str, Any]


class Statement:
    """An SQLAlchemy statement, compiled once. Call it with the values of its parameters."""

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause

    @cached_property
    def _compiled(self) -> tuple[str, dict[str, Any]]:
        """The text and the fixed values; made at the first use, so that a start pays only for what it asks."""
        compiled = self._clause.compile(dialect=_DIALECT)
        sql = str(compiled)
        if "POSTCOMPILE" in sql:
            raise TypeError(f"a list (IN) cannot be compiled once; write it with OR: {sql}")
        return sql, dict(compiled.params or {})

    def __call__(self, **values: Any) -> Bound:
        sql, defaults = self._compiled
        unknown = values.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"the statement has no parameter {', '.join(sorted(unknown))}: {sql}")
        return Bound(sql, defaults | values)


def insert_into(table: Table, *columns: str, ignore_conflict: bool = False) -> Statement:
    """An INSERT with one parameter per named column. `ignore_conflict`: a row whose key exists is left as it is."""
    clause = sqlite.insert(table).values({column: bindparam(column) for column in columns})
    return Statement(clause.on_conflict_do_nothing() if ignore_conflict else clause)


def insert_if(table: Table, condition: ColumnElement[bool], *columns: str) -> Statement:
    """An INSERT with one parameter per named column, done only where `condition` (it may use them) holds."""
    values = select(*(bindparam(column, type_=table.c[column].type) for column in columns)).where(condition)
    return Statement(sqlite.insert(table).from_select(list(columns), values))


@dataclass(frozen=True, slots=True)
class Result:
    """What one statement of a transaction did."""

    rowcount: int
    lastrowid: int
    rows: list[sqlite3.Row]


@dataclass(slots=True)
class _Transaction:
    statements: Sequence[Bound]
    durable: bool
    done: asyncio.Future[list[Result]]


class _Connection(aiosqlite.Connection):
    """aiosqlite's connection with one more method: a whole function in its thread instead of a hop per statement."""

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        result: T = await self._execute(function, self._conn)  # type: ignore[no-untyped-call]  # untyped there
        return result


class Database:
    """The open file. Made by `open_database`."""

    def __init__(self, writer: _Connection, reader: _Connection) -> None:
        self._writer = writer
        self._reader = reader
        self._waiting: asyncio.Queue[_Transaction] = asyncio.Queue()

    async def write(self, *statements: Bound, durable: bool = False) -> list[Result]:
        """Run the statements as one transaction and return what each did, once it is committed.

        Raises:
            StateError: the disk is full or read-only, the file is locked or damaged. Nothing of it is kept.
            sqlite3.IntegrityError: a constraint refused it.
        """
        done: asyncio.Future[list[Result]] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(_Transaction(statements, durable, done))
        return await done

    async def read(self, statement: Bound) -> list[sqlite3.Row]:
        """Run one query on what is committed."""
        return await self._reader.run(lambda connection: connection.execute(statement.sql, statement.values).fetchall())

    async def commit_forever(self) -> None:
        """The writer's work; runs beside everything else (see `open_database`)."""
        while True:
            group = [await self._waiting.get()]
            while len(group) < GROUP_SIZE and not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            outcomes = await self._writer.run(partial(_commit, group=group))
            for transaction, outcome in zip(group, outcomes, strict=True):
                if transaction.done.cancelled():
                    continue
                if isinstance(outcome, Exception):
                    transaction.done.set_exception(outcome)
                else:
                    transaction.done.set_result(outcome)

    async def rewrite(self) -> bool:
        """Write the file anew and empty its log: nothing that was deleted can be read in them afterwards.

        Writes wait meanwhile (about ten seconds per gigabyte). False: somebody reads an old view of it (a backup), or
        the disk is too full; the log says which.
        """
        return await self._writer.run(_rewrite)

    async def drain(self) -> None:
        """Wait until everything handed in so far is committed."""
        await self.write()


def _commit(connection: sqlite3.Connection, group: Sequence[_Transaction]) -> list[list[Result] | Exception]:
    """Commit a group; a transaction that fails is rolled back alone."""
    durable = any(transaction.durable for transaction in group)
    try:
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
        outcomes = [_run_one(connection, transaction) for transaction in group]
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        log.error("the database refused a write: %s", error)
        return [StateError(f"the database cannot be written: {error}") for _ in group]
    return outcomes


def _rewrite(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("VACUUM")
        # Until here the log beside the file holds pages as they were.
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.Error as error:
        log.warning("the database could not be written anew: %s", error)
        return False
    if busy:
        log.warning("the database is written anew, but its old log stays while somebody reads it (a backup?)")
    return not busy


def _run_one(connection: sqlite3.Connection, transaction: _Transaction) -> list[Result] | Exception:
    connection.execute("SAVEPOINT one")
    try:
        results = []
        for statement in transaction.statements:
            cursor = connection.execute(statement.sql, statement.values)
            rows = cursor.fetchall() if cursor.description else []
            results.append(Result(cursor.rowcount, cursor.lastrowid or 0, rows))
    except _ITS_OWN_FAULT as error:
        connection.execute("ROLLBACK TO one")
        connection.execute("RELEASE one")
        return error
    connection.execute("RELEASE one")
    return results


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    # What is deleted is overwritten. FAST would leave whole pages as they were (measured: 0 to 7 % more CPU per turn).
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute(f"PRAGMA query_only={'ON' if read_only else 'OFF'}")
    return connection


@asynccontextmanager
async def open_database(path: Path) -> AsyncIterator[Database]:
    """Open (and bring up to date, or make) the database at `path`.

    Raises:
        StateError: it cannot be opened, is damaged, or was written by a newer GoClaw.
    """
    await asyncio.to_thread(migrate, path)
    writer = _Connection(partial(_connect, path, read_only=False), iter_chunk_size=64)
    reader = _Connection(partial(_connect, path, read_only=True), iter_chunk_size=64)
    async with writer, reader:
        database = Database(writer, reader)
        async with background(database.commit_forever(), "database writer"):
            try:
                yield database
            finally:
                await database.drain()
