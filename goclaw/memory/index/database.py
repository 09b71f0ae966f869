"""The open index file: a writer and a reader, each a connection in a thread of its own; and rebuilding of the file.

Each operation is a function of a connection, run whole in its thread. No check of the whole file delays a start: the
first caller that finds it damaged begins an empty one (`IndexFile.rebuild`); until it is filled again, searches find
the present content. A reindexing fills a file next to the current one, which it replaces when complete
(`rebuild_beside`). Vectors are copied: they belong to texts, and the same texts come again.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from goclaw.errors import StateError
from goclaw.memory.index import text_vectors
from goclaw.memory.index.schema import SCHEMA, SCHEMA_VERSION

log = logging.getLogger(__name__)


T = TypeVar("T")

SET_ASIDE = ".broken"
"""Appended to the name of a file that cannot be read; the latest such file is kept."""
BUSY_MS = 5_000
WRITER_CACHE_KIB = 512
"""Pages of the file that the writer keeps, in KiB (SQLite's default: 2,000): it appends, and searches have a reader."""


class BrokenIndex(StateError):
    """The index file is damaged; `IndexFile.rebuild` makes a new one."""

    def __init__(self, why: str, generation: int) -> None:
        """Take the reason and the generation of the damaged file: another one may be in its place by now."""
        super().__init__(why)
        self.generation = generation


class IndexFile:
    """The open index. All methods raise `BrokenIndex` when the file is damaged, `StateError` when the disk refuses.

    Made by `open_index`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = ThreadPoolExecutor(1, "memory-writer")
        self._reading = ThreadPoolExecutor(1, "memory-reader")
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self.generation = 0
        """Increases when the file is rebuilt, which invalidates everything read before."""
        self.written = asyncio.Event()
        """Set whenever something was written; its single consumer clears it."""

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` as one transaction, rolled back when it raises."""

        def transaction() -> T:
            with _in_words(self.generation):
                connection = self._opened_writer()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    done = work(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                return done

        result = await asyncio.get_running_loop().run_in_executor(self._writing, transaction)
        self.written.set()
        return result

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on one consistent view of the committed data."""

        def view() -> T:
            with _in_words(self.generation):
                connection = self._opened_reader()
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")

        return await asyncio.get_running_loop().run_in_executor(self._reading, view)

    async def rewrite(self) -> bool:
        """Rewrite the conversations so that no deleted word of theirs remains readable in the file or next to it.

        Takes seconds for large conversations; searches go on and writing waits. Notes are rewritten with them only
        where they are the smaller part. Returns False if an old view of it is still
        being read, or the disk is too full; the log says which.
        """

        def written_anew() -> bool:
            with _in_words(self.generation):
                done = _rewrite(self._opened_writer())
                _drop_broken(self._path)
                return done

        return await asyncio.get_running_loop().run_in_executor(self._writing, written_anew)

    async def drop_broken(self) -> None:
        """Remove the damaged file that was set aside: it contains words, too."""

        def drop() -> None:
            with _in_words(self.generation):
                _drop_broken(self._path)

        await asyncio.get_running_loop().run_in_executor(self._writing, drop)

    async def rebuild(self, error: BrokenIndex) -> None:
        """Set aside the file with the error and continue with an empty one, unless that has been done.

        Usually several callers find the damage at the same time: the second must not set the new file aside.
        """

        def set_aside() -> None:
            extra = {"path": str(self._path), "why": str(error)}
            log.warning("the memory index is damaged and will be rebuilt", extra=extra)
            _set_aside(self._path)

        await self._change_file(set_aside, error.generation)

    async def replace(self, path: Path) -> None:
        """Continue with another index file, which no connection has open, in place of this one."""

        def replace_file() -> None:
            _discard_companions(self._path)
            path.replace(self._path)

        await self._change_file(replace_file)

    async def _change_file(self, change: Callable[[], None], generation: int | None = None) -> None:
        """Run `change` to put another file in place; given a generation, only if that is still the current one."""

        def change_file() -> None:
            if generation not in (None, self.generation):
                return
            with _in_words(self.generation):
                self._close_writer()
                # In this thread, so that no call can write to the other file and take it for the previous one.
                self.generation += 1
                change()
                self._writer = _connect(self._path)

        def without_readers() -> None:
            # Readers wait meanwhile, and then open the other file.
            self._close_reader()
            self._writing.submit(change_file).result()

        await asyncio.get_running_loop().run_in_executor(self._reading, without_readers)
        self.written.set()

    async def close(self) -> None:
        """Wait for running work, and close."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._reading, self._close_reader)
        await loop.run_in_executor(self._writing, self._close_writer)
        self._writing.shutdown(wait=False)
        self._reading.shutdown(wait=False)

    def _opened_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = _made_ready(self._path)
        return self._writer

    def _opened_reader(self) -> sqlite3.Connection:
        if self._reader is None:
            # The writer makes the file, so its thread runs first where nothing was written yet.
            self._writing.submit(self._opened_writer).result()
            self._reader = _plain(self._path)
            self._reader.execute("PRAGMA query_only = ON")
        return self._reader

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


@asynccontextmanager
async def open_index(path: Path) -> AsyncIterator[IndexFile]:
    """Yield the index file, opened at its first use: a missing one, or one of another version, is rebuilt."""
    index = IndexFile(path)
    try:
        yield index
    finally:
        await index.close()


def _made_ready(path: Path) -> sqlite3.Connection:
    try:
        with _in_words():
            return _connect(path)
    except _Outdated:
        _discard(path)
    except BrokenIndex as error:
        _set_aside(path)
        log.warning(
            "the memory index could not be read and will be rebuilt", extra={"path": str(path), "why": str(error)}
        )
    return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    path.touch(0o600)
    connection = _plain(path)
    try:
        connection.execute(f"PRAGMA cache_size = {-WRITER_CACHE_KIB}")
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _plain(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    return connection


def _rewrite(connection: sqlite3.Connection) -> bool:
    try:
        # Deleting a row marks its words in the full-text index as gone; merged into one piece, it has them no more.
        for table in ("talk_words", "talk_parts"):
            connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 - names of ours
        if _is_mostly_notes(connection):
            _rewrite_talk(connection)
        else:
            connection.execute("VACUUM")
        # Until here the log beside the file holds pages as they were.
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError as error:
        log.warning("the memory index could not be written anew: %s", error)
        return False
    if busy:
        log.warning("the memory index is written anew, but its old log stays while somebody reads it")
    return not busy


def _is_mostly_notes(connection: sqlite3.Connection) -> bool:
    """Return whether notes take more than half the file, going by their words."""
    [(pages,)], [(free,)] = connection.execute("PRAGMA page_count"), connection.execute("PRAGMA freelist_count")
    counts = "SELECT (SELECT total(words) FROM note_documents), (SELECT total(words) FROM talk_documents)"
    [(notes, talk)] = connection.execute(counts)
    return bool(2 * (pages - free) * notes > pages * (notes + talk))


def _rewrite_talk(connection: sqlite3.Connection) -> None:
    """Write the rows of the conversations' tables into empty pages: deleted words are in none of these.

    `secure_delete` overwrites deleted rows, but not the copies that SQLite left within a page when it moved rows. It
    overwrites the whole page when a table gives it up, as here each table gives up all of its own.
    """
    ours = "tbl_name LIKE 'talk\\_%' ESCAPE '\\'"
    tables = connection.execute(
        f"SELECT name FROM sqlite_schema WHERE type = 'table' AND {ours} AND sql NOT LIKE 'CREATE VIRTUAL%'"  # noqa: S608 - names of ours
    ).fetchall()
    triggers = connection.execute(f"SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND {ours}").fetchall()  # noqa: S608 - names of ours
    connection.execute("BEGIN IMMEDIATE")
    try:
        # With a trigger, DELETE takes row by row and gives up no whole page.
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for (table,) in tables:
            connection.execute(f"CREATE TEMP TABLE moving AS SELECT * FROM {table}")  # noqa: S608 - names of ours
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
            connection.execute(f"INSERT INTO {table} SELECT * FROM moving")  # noqa: S608 - names of ours
            connection.execute("DROP TABLE moving")
        for _, sql in triggers:
            connection.execute(sql)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _prepare(connection: sqlite3.Connection) -> None:
    # A crash may cost the last commits, never the consistency: the sweep finds out what is missing. Deleted rows are
    # overwritten, as in the database: a forgotten conversation is in no file of the state folder.
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;")
    [(version,)] = connection.execute("PRAGMA user_version")
    [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_schema")
    if tables and version != SCHEMA_VERSION:
        raise _Outdated
    if not tables:
        connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


class _Outdated(Exception):
    """The index file was made by another version of GoClaw."""


@contextmanager
def _in_words(generation: int = 0) -> Iterator[None]:
    """Convert SQLite's errors: `BrokenIndex` for a damaged file, `StateError` for faults only the operator can mend."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # The low byte of SQLite's code is the kind, the rest the detail.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise BrokenIndex(str(error), generation) from error
        raise StateError(f"the memory index cannot be used: {error}") from error
    except OSError as error:
        raise StateError(f"the memory index cannot be used: {error}") from error


def _set_aside(path: Path) -> None:
    """Rename a broken index file, so that it can be examined, and delete its companions."""
    path.replace(path.with_name(path.name + SET_ASIDE))
    _discard_companions(path)


def _drop_broken(path: Path) -> None:
    path.with_name(path.name + SET_ASIDE).unlink(missing_ok=True)


def _discard(path: Path) -> None:
    path.unlink(missing_ok=True)
    _discard_companions(path)


def _discard_companions(path: Path) -> None:
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


BESIDE = ".new"
"""Appended to the name of the index while another one is made."""
COPIED_AT_ONCE = 500
"""Vectors copied in one step: 10 ms."""


async def rebuild_beside(index: IndexFile, path: Path, fill: Callable[[IndexFile], Awaitable[None]]) -> None:
    """Have `fill` fill a new index file, and continue with that file. `path` is the path of `index`.

    Raises:
        StateError: the disk refuses; the index is as it was.
    """
    beside = path.with_name(path.name + BESIDE)
    await asyncio.to_thread(discard_unfinished, path)
    try:
        async with open_index(beside) as fresh:
            await fill(fresh)
            await _copy_vectors(index, fresh)
        await index.replace(beside)
    finally:
        await asyncio.to_thread(discard_unfinished, path)


def discard_unfinished(path: Path) -> None:
    """Remove the rest of an interrupted rebuild; `path` is the path of the current index."""
    _discard(path.with_name(path.name + BESIDE))


async def _copy_vectors(index: IndexFile, fresh: IndexFile) -> None:
    """Copy all vectors. Those of texts that do not come again are deleted later, like all unused ones."""
    # The model in use first: the first one registered in a file becomes the one in use there.
    for model in sorted(await _query(index, text_vectors.models), key=lambda each: not each.serving):
        await fresh.write(partial(text_vectors.announce, name=model.name, spec=model.spec))
        after = b""
        while found := await _query(
            index, partial(text_vectors.next_vectors, model=model.name, after=after, limit=COPIED_AT_ONCE)
        ):
            await fresh.write(partial(text_vectors.store, model=model.name, vectors=dict(found)))
            after = found[-1][0]


async def _query(index: IndexFile, asked: Callable[[sqlite3.Connection], list[T]]) -> list[T]:
    """Return the result of a query on an index; nothing where it is damaged: its vectors are made again."""
    try:
        return await index.read(asked)
    except BrokenIndex as error:
        log.warning("vectors of the damaged index are lost and will be made again: %s", error)
        return []
