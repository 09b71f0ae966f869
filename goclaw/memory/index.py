"""The full-text index: one rebuildable SQLite file, apart from the database that must never be lost.

Every statement names a workspace; every search names an actor. Ranking is bm25 over the headings, the text and the
extra terms of `words`. Vectors, when they come, are a second table by chunk id and a second ranked list, joined with
this one in `service`.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiosqlite

from goclaw.errors import StateError
from goclaw.memory.base import Hit, MemoryFile, Score, owner_of
from goclaw.memory.chunks import Chunk

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
"""Raise it when the tables, the cutting of passages or the extra terms change: the file is then made anew."""

SET_ASIDE = ".broken"
"""Appended to the name of a file that cannot be read; the latest such file is kept."""

_SCHEMA = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    workspace TEXT NOT NULL,
    path TEXT NOT NULL,
    owner TEXT NOT NULL,
    modified REAL NOT NULL,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    lines INTEGER NOT NULL,
    UNIQUE (workspace, path)
);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL REFERENCES files (id),
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    extra TEXT NOT NULL
);
CREATE INDEX chunks_by_file ON chunks (file);
CREATE VIRTUAL TABLE chunk_words USING fts5 (
    heading, text, extra, content = chunks, content_rowid = id, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
    INSERT INTO chunk_words (rowid, heading, text, extra) VALUES (new.id, new.heading, new.text, new.extra);
END;
CREATE TRIGGER chunk_removed AFTER DELETE ON chunks BEGIN
    INSERT INTO chunk_words (chunk_words, rowid, heading, text, extra)
    VALUES ('delete', old.id, old.heading, old.text, old.extra);
END;
"""

_INSERT_FILE = """
INSERT INTO files (workspace, path, owner, modified, inode, size, sha256, lines) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_CHUNK = """
INSERT INTO chunks (file, first_line, last_line, heading, text, extra)
VALUES ((SELECT id FROM files WHERE workspace = ? AND path = ?), ?, ?, ?, ?, ?)
"""
_DELETE_CHUNKS = "DELETE FROM chunks WHERE file = (SELECT id FROM files WHERE workspace = ? AND path = ?)"
_DELETE_FILE = "DELETE FROM files WHERE workspace = ? AND path = ?"

# CROSS JOIN keeps SQLite's planner from walking all files and asking the full-text index once per passage.
_SEARCH = """
SELECT files.path, chunks.first_line, chunks.last_line, chunks.heading, chunks.text, files.modified,
    bm25(chunk_words) AS rank
FROM chunk_words CROSS JOIN chunks ON chunks.id = chunk_words.rowid CROSS JOIN files ON files.id = chunks.file
WHERE chunk_words MATCH ? AND files.workspace = ? AND files.owner IN ('', ?)
ORDER BY rank, files.path, chunks.first_line
LIMIT ?
"""


class BrokenIndex(StateError):
    """The index file is damaged; `Index.rebuild` makes it anew."""


@dataclass(frozen=True, slots=True)
class Version:
    """What tells one version of a file from another without reading it.

    The inode is there for files that are replaced by another one of the same size within one tick of the file clock.
    """

    modified: float
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it goes into the index."""

    path: str
    version: Version
    sha256: str
    lines: int
    chunks: Sequence[tuple[Chunk, str]]
    """Passages, each with its extra terms."""


class Index:
    """The open index. One caller at a time: it has one connection and one transaction.

    All methods raise `BrokenIndex` when the file turns out to be damaged, `StateError` when it cannot be written.
    """

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        self._path = path
        self._connection = connection

    async def close(self) -> None:
        await self._connection.close()

    async def rebuild(self) -> None:
        """Set the file aside and go on with an empty one."""
        with _in_words():
            await self._connection.close()
            _set_aside(self._path)
            self._connection = await _connect(self._path)

    async def versions(self, workspace: str) -> dict[str, tuple[Version, str]]:
        """What is indexed of a workspace: by path the version and the SHA-256 of the content."""
        rows = await self._rows(
            "SELECT path, modified, inode, size, sha256 FROM files WHERE workspace = ?", (workspace,)
        )
        return {path: (Version(modified, inode, size), sha256) for path, modified, inode, size, sha256 in rows}

    async def put(self, workspace: str, documents: Sequence[Document]) -> None:
        """Add or replace files, all in one transaction."""
        async with self._transaction():
            await self._delete(workspace, [document.path for document in documents])
            await self._connection.executemany(_INSERT_FILE, [_file_row(workspace, document) for document in documents])
            await self._connection.executemany(
                _INSERT_CHUNK,
                [
                    (workspace, document.path, chunk.start, chunk.end, chunk.heading, chunk.text, extra)
                    for document in documents
                    for chunk, extra in document.chunks
                ],
            )

    async def touch(self, workspace: str, versions: Mapping[str, Version]) -> None:
        """Note new versions of files whose content is the same."""
        async with self._transaction():
            await self._connection.executemany(
                "UPDATE files SET modified = ?, inode = ? WHERE workspace = ? AND path = ?",
                [(version.modified, version.inode, workspace, path) for path, version in versions.items()],
            )

    async def remove(self, workspace: str, paths: Iterable[str]) -> None:
        """Forget files, all in one transaction."""
        async with self._transaction():
            await self._delete(workspace, paths)

    async def search(self, workspace: str, actor_key: str, expression: str, limit: int) -> list[Hit]:
        """Passages that match the FTS5 `expression` and that `actor_key` may see, best first.

        bm25() of FTS5 is negative, the better the lower. A passage without any term would have 0; scores are scaled
        between that and the best one found.
        """
        rows = await self._rows(_SEARCH, (expression, workspace, actor_key, limit))
        best = rows[0][-1] if rows else 0
        return [
            Hit(path, first, last, Score(rank / best if best else 1.0, 1.0, 0.0, False), heading, text, modified)
            for path, first, last, heading, text, modified, rank in rows
        ]

    async def files(self, workspace: str, actor_key: str) -> list[MemoryFile]:
        """The indexed files that `actor_key` may see, by path."""
        rows = await self._rows(
            "SELECT path, size, lines, modified FROM files WHERE workspace = ? AND owner IN ('', ?) ORDER BY path",
            (workspace, actor_key),
        )
        return [MemoryFile(path, size, lines, modified) for path, size, lines, modified in rows]

    async def _rows(self, statement: str, parameters: Sequence[str | int]) -> list[sqlite3.Row]:
        with _in_words():
            return list(await self._connection.execute_fetchall(statement, parameters))

    async def _delete(self, workspace: str, paths: Iterable[str]) -> None:
        keys = [(workspace, path) for path in paths]
        await self._connection.executemany(_DELETE_CHUNKS, keys)
        await self._connection.executemany(_DELETE_FILE, keys)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        with _in_words():
            try:
                await self._connection.execute("BEGIN IMMEDIATE")
                yield
                await self._connection.commit()
            except BaseException:
                await self._connection.rollback()
                raise


def _file_row(workspace: str, document: Document) -> tuple[str | int | float, ...]:
    version = document.version
    path, owner = document.path, owner_of(document.path)
    return (workspace, path, owner, version.modified, version.inode, version.size, document.sha256, document.lines)


@asynccontextmanager
async def open_index(path: Path) -> AsyncIterator[Index]:
    """Open the index file, or make a new one where there is none, one of another version, or a broken one.

    Raises:
        StateError: the file cannot be made.
    """
    with _in_words():
        index = Index(path, await _connect(path))
    try:
        yield index
    finally:
        await index.close()


async def _connect(path: Path) -> aiosqlite.Connection:
    try:
        with _in_words():
            return await _connect_as_is(path)
    except _Outdated:
        _discard(path)
    except BrokenIndex as error:
        _set_aside(path)
        log.warning("the memory index could not be read and is made anew", extra={"path": str(path), "why": str(error)})
    return await _connect_as_is(path)


async def _connect_as_is(path: Path) -> aiosqlite.Connection:
    # First, because a connection that cannot open its file leaves a thread behind that nobody can wait for.
    await asyncio.to_thread(path.touch, 0o600)
    connection = await aiosqlite.connect(path, isolation_level=None)
    try:
        await _prepare(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _prepare(connection: aiosqlite.Connection) -> None:
    # A crash may cost the last commits, never the consistency: the sweep finds out what is missing.
    await connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")
    [(verdict,)] = await connection.execute_fetchall("PRAGMA quick_check(1)")
    if verdict != "ok":
        raise BrokenIndex(verdict)
    [(version,)] = await connection.execute_fetchall("PRAGMA user_version")
    [(tables,)] = await connection.execute_fetchall("SELECT count(*) FROM sqlite_schema")
    if tables and version != SCHEMA_VERSION:
        raise _Outdated
    if not tables:
        await connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")


class _Outdated(Exception):
    """The index file was made by another version of GoClaw."""


@contextmanager
def _in_words() -> Iterator[None]:
    """Tell a damaged file, which is made anew, from what only the operator can mend."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        # The low byte of SQLite's code is the kind, the rest the detail.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise BrokenIndex(str(error)) from error
        raise StateError(f"the memory index cannot be used: {error}") from error
    except OSError as error:
        raise StateError(f"the memory index cannot be used: {error}") from error


def _set_aside(path: Path) -> None:
    """Rename a broken index file, so that somebody may look at it, and drop its companions."""
    path.replace(path.with_name(path.name + SET_ASIDE))
    _discard(path)


def _discard(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
