"""One SQLite file: a grouped writer and a reader.

All writes go through one connection. What waits while a commit runs is committed together with the next one, so that
fifty sessions cost one fsync instead of fifty. A transaction that asks to be durable is on disk when it returns
(`synchronous=FULL`); the others survive kill -9 but not a power cut (`NORMAL`).

While the disk is full, read-only or broken, or the file locked or gone, every write fails with a `DiskError`, and the
next one is tried again: nothing has to be restarted. Only a damaged file is not written to again (see `recovery`).
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy import ClauseElement, ColumnElement, Table, bindparam, select
from sqlalchemy.dialects import sqlite

from goclaw.core.clock import Clock
from goclaw.core.records import record
from goclaw.core.supervise import background, keep_running
from goclaw.errors import DiskError, DiskFault, StateError
from goclaw.health.resources import disk_error, remedy
from goclaw.store.recovery import CLOCK, Salvage, make_ready, mark_damaged, rescue

log = logging.getLogger(__name__)

T = TypeVar("T")

GROUP_SIZE = 256
"""Transactions per commit at most; bounds how long one commit can hold the others up."""
RESULTS_AT_ONCE = 16
"""Results handed out in one round of the event loop: what each of them continues there holds up everything else."""
BUSY_MS = 5_000
CACHE_KIB = 512
"""Pages of the file that a connection keeps, in KiB (SQLite's default: 2,000). The kernel has the others, and of the
rows of a turn most are read once."""
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


@record
class BoundStatement:
    """A statement with its values, ready to run."""

    sql: str
    values: dict[str, Any]


class Statement:
    """An SQLAlchemy statement, compiled once. Call it with the values of its parameters."""

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause

    @cached_property
    def _compiled(self) -> tuple[str, dict[str, Any]]:
        """Return the text and the fixed values; compiled at the first use, which keeps starts quick."""
        compiled = self._clause.compile(dialect=_DIALECT)
        sql = str(compiled)
        if "POSTCOMPILE" in sql:
            raise TypeError(f"a list (IN) cannot be compiled once; write it with OR: {sql}")
        return sql, dict(compiled.params or {})

    def __call__(self, **values: Any) -> BoundStatement:
        sql, defaults = self._compiled
        unknown = values.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"the statement has no parameter {', '.join(sorted(unknown))}: {sql}")
        return BoundStatement(sql, defaults | values)


def insert_into(table: Table, *columns: str, ignore_conflict: bool = False) -> Statement:
    """Build an INSERT with one parameter per named column. `ignore_conflict`: leave a row whose key exists as it is."""
    clause = sqlite.insert(table).values({column: bindparam(column) for column in columns})
    return Statement(clause.on_conflict_do_nothing() if ignore_conflict else clause)


def insert_if(table: Table, condition: ColumnElement[bool], *columns: str) -> Statement:
    """Build an INSERT with one parameter per named column, done only where `condition` (it may use them) holds."""
    values = select(*(bindparam(column, type_=table.c[column].type) for column in columns)).where(condition)
    return Statement(sqlite.insert(table).from_select(list(columns), values))


@record
class StatementResult:
    """The result of one statement in a transaction."""

    rowcount: int
    lastrowid: int
    rows: list[sqlite3.Row]


@dataclass(slots=True)
class _Transaction:
    statements: Sequence[BoundStatement]
    durable: bool
    done: asyncio.Future[list[StatementResult]]


class _Connection(aiosqlite.Connection):
    """aiosqlite's connection with one more method: a whole function in its thread instead of a hop per statement."""

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        result: T = await self._execute(function, self._conn)  # type: ignore[no-untyped-call]  # untyped there
        return result


@record
class _Place:
    """The file's path, and its identity when it was opened."""

    path: Path
    identity: tuple[int, int]

    @classmethod
    def of(cls, path: Path) -> "_Place":
        found = path.stat()
        return cls(path, (found.st_dev, found.st_ino))

    def check(self) -> None:
        """Check that the file was not deleted or replaced: SQLite would go on writing to the old one.

        Raises:
            DiskError: it was.
        """
        try:
            found = self.path.stat()
        except OSError:
            what = "was deleted, or its folder is gone"
        else:
            if (found.st_dev, found.st_ino) == self.identity:
                return
            what = "was replaced by another file"
        help = remedy(DiskFault.GONE, self.path)
        raise DiskError(f"{self.path} {what} while GoClaw was running; {help}", DiskFault.GONE)


class Database:
    """The open file. Made by `open_database`."""

    def __init__(self, writer: _Connection, reader: _Connection, place: _Place, salvaged: Salvage | None) -> None:
        self._writer = writer
        self._reader = reader
        self._place = place
        self._waiting: asyncio.Queue[_Transaction] = asyncio.Queue()
        self._settled: deque[tuple[_Transaction, list[StatementResult] | Exception]] = deque()
        """Transactions whose result is still to be handed out."""
        self._durable: bool | None = None
        """How the writer was told to commit last; None: not known."""
        self.salvaged = salvaged
        """The salvage of a damaged file that this one replaced at this start."""
        self.trouble: DiskError | None = None
        """Why the last write failed; None when it did not."""
        self.watcher: Callable[[DiskError | None], None] | None = None
        """Called when trouble begins or changes, and with None when it has ended."""
        self.written: Callable[[], None] = _ignore_commit
        """Called after each commit; must return at once."""

    def write(self, *statements: BoundStatement, durable: bool = False) -> Awaitable[list[StatementResult]]:
        """Run the statements as one transaction and return what each did, once it is committed.

        The transaction is queued at once, and goes on when its awaiter is cancelled.

        Raises:
            DiskError: the disk is full or read-only, the file is locked, damaged or gone. Nothing of it is kept.
            sqlite3.Error: the statements cannot be run, or a constraint refused them.
        """
        done: asyncio.Future[list[StatementResult]] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait(_Transaction(statements, durable, done))
        return done

    async def read(self, statement: BoundStatement) -> list[sqlite3.Row]:
        """Run one query on what is committed.

        Raises:
            DiskError: the file cannot be read.
        """
        try:
            return await self._reader.run(lambda reader: reader.execute(statement.sql, statement.values).fetchall())
        except sqlite3.DatabaseError as error:
            if _is_its_own_fault(error):
                raise
            trouble = disk_error(error, self._place.path, "read")
            if trouble.fault is DiskFault.DAMAGED:
                await self._notice(trouble)
            raise trouble from error

    async def commit_forever(self) -> None:
        """Commit queued transactions; runs beside everything else (see `open_database`)."""
        while True:
            group = [await self._waiting.get()]
            while len(group) < GROUP_SIZE and not self._waiting.empty():
                group.append(self._waiting.get_nowait())
            await self._see_to(group)

    async def _see_to(self, group: Sequence[_Transaction]) -> None:
        """Commit a group, and have the results of its transactions handed out."""
        outcomes: Sequence[list[StatementResult] | Exception] = [
            StateError("the database's writer failed") for _ in group
        ]
        try:
            outcomes = await self._commit(group)
            await self._notice(None)
        except DiskError as error:
            outcomes = [DiskError(str(error), error.fault) for _ in group]
            await self._notice(error)
        finally:
            is_handing_out = bool(self._settled)
            self._settled.extend(zip(group, outcomes, strict=True))
            if not is_handing_out:
                self._hand_out()
        self.written()

    def _hand_out(self) -> None:
        """Set results in the order of the commits, a few now and the others in later rounds of the loop."""
        for _ in range(min(RESULTS_AT_ONCE, len(self._settled))):
            transaction, outcome = self._settled.popleft()
            if transaction.done.done():
                continue
            if isinstance(outcome, Exception):
                transaction.done.set_exception(outcome)
            else:
                transaction.done.set_result(outcome)
        if self._settled:
            asyncio.get_running_loop().call_soon(self._hand_out)

    async def _commit(self, group: Sequence[_Transaction]) -> Sequence[list[StatementResult] | Exception]:
        if self.trouble and self._is_damaged():
            raise self.trouble
        durable = any(transaction.durable for transaction in group)
        change, self._durable = durable if durable != self._durable else None, None
        try:
            outcomes = await self._writer.run(partial(_commit, group=group, place=self._place, durable=change))
        except (sqlite3.Error, OSError) as error:
            raise disk_error(error, self._place.path, "written") from error
        self._durable = durable
        return outcomes

    def _is_damaged(self) -> bool:
        return self.trouble is not None and self.trouble.fault is DiskFault.DAMAGED

    async def _notice(self, trouble: DiskError | None) -> None:
        """Log once when trouble begins or changes, and when it has ended; however many writes fail in between."""
        before = self.trouble
        if (before and before.fault) == (trouble and trouble.fault) or self._is_damaged():
            return
        self.trouble = trouble
        if trouble is None:
            log.warning("the database can be written to again")
        else:
            log.error("%s", trouble)
            await self._keep_what_there_is(trouble)
        if self.watcher:
            self.watcher(trouble)

    async def _keep_what_there_is(self, trouble: DiskError) -> None:
        path = self._place.path
        try:
            if trouble.fault is DiskFault.DAMAGED:
                await asyncio.to_thread(mark_damaged, path, str(trouble))
            elif trouble.fault is DiskFault.GONE:
                kept = await self._writer.run(partial(rescue, path=path))
                log.error("what was in %s is kept as %s: `goclaw stop`, then rename it to go on with it", path, kept)
        except (sqlite3.Error, OSError) as error:
            log.error("%s", error)

    async def rewrite(self) -> bool:
        """Write the file anew and empty its log: nothing that was deleted can be read in them afterwards.

        Writes wait meanwhile (about ten seconds per gigabyte). False: an old view of it is being read (by a backup),
        or the disk is too full; the log says which.
        """
        return await self._writer.run(_rewrite)

    async def drain(self) -> None:
        """Wait until everything handed in so far is committed, or cannot be."""
        with suppress(DiskError):
            await self.write()


def _ignore_commit() -> None:
    """Do nothing after a commit."""


def _commit(
    connection: sqlite3.Connection, group: Sequence[_Transaction], place: _Place, durable: bool | None
) -> list[list[StatementResult] | Exception]:
    """Commit a group; a transaction that fails by its own fault is rolled back alone.

    Args:
        connection: the writer.
        group: what is committed together.
        place: the file.
        durable: whether the disk must have it from now on when a commit returns; None: as before.

    Raises:
        DiskError: the file is not the one that was opened.
        sqlite3.Error: nothing of the group is kept.
    """
    place.check()
    try:
        if durable is not None:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
        outcomes = [_run_one(connection, transaction, alone=len(group) == 1) for transaction in group]
        if connection.in_transaction:
            connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            # Should this fail, too, the next BEGIN does, and comes by here again.
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
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


def _run_one(
    connection: sqlite3.Connection, transaction: _Transaction, *, alone: bool
) -> list[StatementResult] | Exception:
    """Run the statements; where one fails by its own fault, undo them and return the error. `alone`: in its group."""
    if not alone:
        connection.execute("SAVEPOINT one")
    try:
        results = []
        for statement in transaction.statements:
            cursor = connection.execute(statement.sql, statement.values)
            rows = cursor.fetchall() if cursor.description else []
            results.append(StatementResult(cursor.rowcount, cursor.lastrowid or 0, rows))
    except (*_ITS_OWN_FAULT, sqlite3.OperationalError) as error:
        if not _is_its_own_fault(error):
            raise
        connection.execute("ROLLBACK" if alone else "ROLLBACK TO one")
        if not alone:
            connection.execute("RELEASE one")
        return error
    if not alone:
        connection.execute("RELEASE one")
    return results


def _is_its_own_fault(error: Exception) -> bool:
    """Whether a statement failed by what it says, and not by the disk."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return isinstance(error, _ITS_OWN_FAULT) or code == sqlite3.SQLITE_ERROR


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    connection.execute(f"PRAGMA cache_size={-CACHE_KIB}")
    # What is deleted is overwritten. FAST would leave whole pages as they were (measured: 0 to 7 % more CPU per turn).
    connection.execute("PRAGMA secure_delete=ON")
    connection.execute(f"PRAGMA query_only={'ON' if read_only else 'OFF'}")
    return connection


@asynccontextmanager
async def open_database(path: Path, clock: Clock = CLOCK) -> AsyncIterator[Database]:
    """Open (and bring up to date, or make) the database at `path`; a damaged one is set aside first: see `recovery`.

    Raises:
        StateError: it cannot be opened, or was written by a newer GoClaw.
    """
    salvaged = await asyncio.to_thread(make_ready, path)
    writer = _Connection(partial(_connect, path, read_only=False), iter_chunk_size=64)
    reader = _Connection(partial(_connect, path, read_only=True), iter_chunk_size=64)
    async with writer, reader:
        database = Database(writer, reader, _Place.of(path), salvaged)
        # Without it every write would wait forever, so any error begins it anew.
        writing = keep_running("the database's writer", database.commit_forever, clock)
        async with background(writing, "database writer"):
            try:
                yield database
            finally:
                await database.drain()
