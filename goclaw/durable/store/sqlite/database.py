"""One SQLite file: a writer and a reader, each with a thread of its own.

A transaction that asks to be durable is on disk when it returns (`synchronous=FULL`); the others survive kill -9 but
not a power cut (`NORMAL`).

While the disk is full, read-only or broken, or the file locked or gone, writes fail. Only a damaged file is not written
to again (see `recovery`).
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import aiosqlite
from sqlalchemy.dialects import sqlite

from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.records import record
from goclaw.common.health.resources import disk_error, remedy
from goclaw.durable.store.database import (
    BoundStatement,
    ConstraintViolated,
    Database,
    Outcome,
    Row,
    StatementResult,
    Transaction,
)
from goclaw.durable.store.sqlite.recovery import CLOCK, Salvage, make_ready, mark_damaged, rescue
from goclaw.errors import DiskError, DiskFault, StateError

log = logging.getLogger(__name__)

T = TypeVar("T")

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
DIALECT = sqlite.dialect(paramstyle="named")


def run(connection: sqlite3.Connection, statement: BoundStatement) -> sqlite3.Cursor:
    """Run a statement on a connection of one's own."""
    return connection.execute(*statement.compile(DIALECT))


def read_file(path: Path, statements: Sequence[BoundStatement]) -> list[Sequence[Row]]:
    """Answer queries of one moment while a process may write to the file; no rows where no file is.

    Raises:
        StateError: the file cannot be read.
    """
    if not path.exists():
        return [[] for _ in statements]
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_MS / 1000, isolation_level=None)) as reader:
            reader.row_factory = sqlite3.Row
            reader.execute("BEGIN")
            return [run(reader, statement).fetchall() for statement in statements]
    except sqlite3.Error as error:
        raise StateError(f"{path}: cannot be read: {error}") from error


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


class SqliteDatabase(Database):
    """The open file. Made by `open_file`."""

    name = "SQLite"
    kind = "sqlite"
    is_default = True

    def __init__(self, writer: _Connection, reader: _Connection, place: _Place, salvaged: Salvage | None) -> None:
        super().__init__()
        self._writer = writer
        self._reader = reader
        self._place = place
        self._durable: bool | None = None
        """How the writer was told to commit last; None: not known."""
        self.salvaged = salvaged

    async def read(self, statement: BoundStatement) -> Sequence[Row]:
        try:
            return await self._reader.run(lambda reader: run(reader, statement).fetchall())
        except sqlite3.DatabaseError as error:
            if _is_its_own_fault(error):
                raise
            trouble = disk_error(error, self._place.path, "read")
            if trouble.fault is DiskFault.DAMAGED:
                await self._notice(trouble)
            raise trouble from error

    async def commit_group(self, group: Sequence[Transaction]) -> Sequence[Outcome]:
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

    async def save_readable(self, trouble: DiskError) -> None:
        path = self._place.path
        try:
            if trouble.fault is DiskFault.DAMAGED:
                await asyncio.to_thread(mark_damaged, path, str(trouble))
            elif trouble.fault is DiskFault.GONE:
                kept = await self._writer.run(partial(rescue, path=path))
                stop = daemon_command("stop")
                log.error("what was in %s is kept as %s: %s, then rename it to go on with it", path, kept, stop)
        except (sqlite3.Error, OSError) as error:
            log.error("%s", error)

    async def rewrite(self) -> bool:
        """Rewrite the file and empty its log: nothing that was deleted can be read in them afterwards.

        Writes wait meanwhile (about ten seconds per gigabyte). False: an old view of it is being read (by a backup),
        or the disk is too full; the log says which.
        """
        return await self._writer.run(_rewrite)


def _commit(
    connection: sqlite3.Connection, group: Sequence[Transaction], place: _Place, durable: bool | None
) -> list[Outcome]:
    """Commit a group; a transaction that fails by its own fault is rolled back alone.

    Args:
        connection: the writer.
        group: the transactions to commit together.
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


def _run_one(connection: sqlite3.Connection, transaction: Transaction, *, alone: bool) -> Outcome:
    """Run the statements; where one fails by its own fault, undo them and return the error. `alone`: in its group."""
    if not alone:
        connection.execute("SAVEPOINT one")
    try:
        results = []
        for statement in transaction.statements:
            cursor = run(connection, statement)
            rows = cursor.fetchall() if cursor.description else []
            results.append(StatementResult(cursor.rowcount, cursor.lastrowid or 0, rows))
    except (*_ITS_OWN_FAULT, sqlite3.OperationalError) as error:
        if not _is_its_own_fault(error):
            raise
        connection.execute("ROLLBACK" if alone else "ROLLBACK TO one")
        if not alone:
            connection.execute("RELEASE one")
        return _in_our_words(error)
    if not alone:
        connection.execute("RELEASE one")
    return results


def _in_our_words(error: Exception) -> Exception:
    if not isinstance(error, sqlite3.IntegrityError):
        return error
    refused = ConstraintViolated(str(error))
    refused.__cause__ = error
    return refused


def _is_its_own_fault(error: Exception) -> bool:
    """Whether a statement failed by its own content, and not by the disk."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return isinstance(error, _ITS_OWN_FAULT) or code == sqlite3.SQLITE_ERROR


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
        connection.execute(f"PRAGMA cache_size={-CACHE_KIB}")
        # Deleted data are overwritten. FAST would leave whole pages as they were (measured: 0 to 7 % more CPU a turn).
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA query_only={'ON' if read_only else 'OFF'}")
    except sqlite3.OperationalError as error:  # a full disk has no room for the shared memory of the log
        connection.close()
        raise disk_error(error, path, "opened") from error
    return connection


@asynccontextmanager
async def open_file(path: Path, clock: Clock = CLOCK) -> AsyncIterator[SqliteDatabase]:
    """Open (and bring up to date, or make) the database at `path`; a damaged one is set aside first: see `recovery`.

    Raises:
        StateError: it cannot be opened, or was written by a newer GoClaw.
    """
    salvaged = await asyncio.to_thread(make_ready, path)
    writer = _Connection(partial(_connect, path, read_only=False), iter_chunk_size=64)
    reader = _Connection(partial(_connect, path, read_only=True), iter_chunk_size=64)
    async with writer, reader:
        database = SqliteDatabase(writer, reader, _Place.of(path), salvaged)
        async with database.writing(clock):
            yield database
