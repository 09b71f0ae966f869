"""Notes in the index: writing files of a workspace, cut into passages, and looking up who may see them.

Nothing here reads a file (`file_indexer` does). A document keeps its number while its file exists; a passage that
stays at its place keeps its row and its unit. One that moves gets a new unit; its vector belongs to its text, and
stays.
"""

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from goclaw.common.core.records import record
from goclaw.memory.base import MemoryFile, owner_of
from goclaw.memory.chunks import Chunk
from goclaw.memory.index.schema import Scope, place_of, places_of
from goclaw.memory.query_terms import extra_terms, parts_terms, word_count

ROWS_AT_ONCE = 100
"""Passages that one call compares, writes or deletes: a transaction of some 15 ms, however large a file is."""

_UNFINISHED = ""
"""Stands for the SHA-256 of a file whose passages are incomplete: the next sweep reads it again."""

_DOCUMENT = """
INSERT INTO note_documents (workspace, path, owner, modified, inode, size, sha256, lines, passages, words)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0)
ON CONFLICT (workspace, path) DO UPDATE SET modified = excluded.modified, inode = excluded.inode,
    size = excluded.size, sha256 = excluded.sha256, lines = excluded.lines
RETURNING id
"""
_NUMBER = "SELECT id FROM note_documents WHERE workspace = ? AND path = ?"
_PASSAGE = """
INSERT INTO note_passages (place, row, turn, first, last, told, speaker, words, asks, heading, text, extra, parts)
VALUES (?, 0, '', ?, ?, ?, '', ?, 0, ?, ?, ?, ?)
"""
_ANY_PASSAGE = "SELECT 1 FROM note_passages WHERE place BETWEEN ? AND ? LIMIT 1"
_FINISH = """
UPDATE note_documents SET sha256 = ?, (passages, words) =
    (SELECT count(*), coalesce(sum(words), 0) FROM note_passages WHERE place BETWEEN ? AND ?) WHERE id = ?
"""
# Documents with consecutive numbers are one range: 5,000 files are a few of them.
_SCOPE = """
SELECT min(id), max(id), sum(passages), sum(words) FROM (
    SELECT id, passages, words, id - row_number() OVER (ORDER BY id) AS island
    FROM note_documents WHERE workspace = ? AND owner IN ('', ?)
) GROUP BY island ORDER BY 1
"""


@record
class FileVersion:
    """The stat data that distinguish one version of a file from another without reading it.

    The inode reveals a file replaced by another one of the same size within one tick of the file clock.
    """

    modified: float
    inode: int
    size: int


@record
class IndexedNote:
    """A file as it goes into the index."""

    path: str
    version: FileVersion
    sha256: str
    lines: int
    passages: Sequence[Chunk]
    begun: int = 0
    """How many passages, from the first on, an earlier call of `put` has written."""


def versions(connection: sqlite3.Connection, workspace: str) -> dict[str, tuple[FileVersion, str]]:
    """Return the indexed files of a workspace: by path the version and the SHA-256 of the content."""
    rows = connection.execute(
        "SELECT path, modified, inode, size, sha256 FROM note_documents WHERE workspace = ?", (workspace,)
    )
    return {path: (FileVersion(modified, inode, size), sha256) for path, modified, inode, size, sha256 in rows}


def put(connection: sqlite3.Connection, workspace: str, documents: Sequence[IndexedNote]) -> Sequence[IndexedNote]:
    """Add or update files: `ROWS_AT_ONCE` passages of them.

    Returns the remainder, to be put in the next transaction. A file with a remainder counts as unread.
    """
    room = ROWS_AT_ONCE
    for index, document in enumerate(documents):
        if room <= 0:
            return documents[index:]
        if not _put(connection, workspace, document, room):
            return [replace(document, begun=document.begun + room), *documents[index + 1 :]]
        room -= max(1, len(document.passages) - document.begun)
    return ()


def touch(connection: sqlite3.Connection, workspace: str, found: Mapping[str, FileVersion]) -> None:
    """Note new versions of files with unchanged content."""
    for path, version in found.items():
        number = _number(connection, workspace, path)
        if number is not None:
            connection.execute(
                "UPDATE note_documents SET modified = ?, inode = ?, size = ? WHERE id = ?",
                (version.modified, version.inode, version.size, number),
            )
            _set_time(connection, number, version.modified)


def remove(connection: sqlite3.Connection, workspace: str, paths: Sequence[str]) -> Sequence[str]:
    """Remove files: at most `ROWS_AT_ONCE` passages. Returns the paths with more to remove."""
    room = ROWS_AT_ONCE
    for index, path in enumerate(paths):
        number = _number(connection, workspace, path)
        if number is None:
            continue
        first, last = places_of(number)
        rows = connection.execute(
            "SELECT place FROM note_passages WHERE place BETWEEN ? AND ? LIMIT ?", (first, last, room + 1)
        )
        places = [place for (place,) in rows]
        room -= len(places)
        _delete(connection, places[:ROWS_AT_ONCE])
        if room < 0:
            connection.execute("UPDATE note_documents SET sha256 = ? WHERE id = ?", (_UNFINISHED, number))
            return paths[index:]
        connection.execute("DELETE FROM note_documents WHERE id = ?", (number,))
    return ()


def files(connection: sqlite3.Connection, workspace: str, actor_key: str) -> list[MemoryFile]:
    """Return the indexed files that `actor_key` may see, by path."""
    rows = connection.execute(
        "SELECT path, size, lines, modified FROM note_documents WHERE workspace = ? AND owner IN ('', ?) ORDER BY path",
        (workspace, actor_key),
    )
    return [MemoryFile(path, size, lines, modified) for path, size, lines, modified in rows]


def scope(connection: sqlite3.Connection, workspace: str, actor_key: str) -> Scope:
    """Return the places of a workspace that `actor_key` may see."""
    rows = connection.execute(_SCOPE, (workspace, actor_key)).fetchall()
    ranges = [(places_of(first)[0], places_of(last)[1]) for first, last, _, _ in rows]
    return Scope(ranges, sum(row[2] for row in rows), sum(row[3] for row in rows))


def _put(connection: sqlite3.Connection, workspace: str, document: IndexedNote, room: int) -> bool:
    """Write the next passages of a file, at most `room`; return whether these were the last."""
    version, begin, end = document.version, document.begun, document.begun + room
    values = (version.modified, version.inode, version.size, _UNFINISHED, document.lines)
    [(number,)] = connection.execute(_DOCUMENT, (workspace, document.path, owner_of(document.path), *values))
    old = _standing(connection, place_of(number, begin), place_of(number, end) - 1)
    new = {place_of(number, at): chunk for at, chunk in enumerate(document.passages[begin:end], begin)}
    changed = [place for place, chunk in new.items() if _text_of(old.get(place)) != (chunk.heading, chunk.text)]
    _delete(connection, [place for place in (*changed, *(old.keys() - new.keys())) if place in old])
    _insert(connection, document, {place: new[place] for place in changed})
    connection.executemany(
        "UPDATE note_passages SET first = ?, last = ? WHERE place = ?",
        [(chunk.start, chunk.end, place) for place, chunk in new.items() if place in old and chunk != old[place]],
    )
    behind = (place_of(number, end), places_of(number)[1])
    if end < len(document.passages) or connection.execute(_ANY_PASSAGE, behind).fetchone():
        return False
    _set_time(connection, number, version.modified)
    connection.execute(_FINISH, (document.sha256, *places_of(number), number))
    return True


def _number(connection: sqlite3.Connection, workspace: str, path: str) -> int | None:
    return next((int(number) for (number,) in connection.execute(_NUMBER, (workspace, path))), None)


def _standing(connection: sqlite3.Connection, first: int, last: int) -> dict[int, Chunk]:
    rows = connection.execute(
        "SELECT place, first, last, heading, text FROM note_passages WHERE place BETWEEN ? AND ?", (first, last)
    )
    return {place: Chunk(*row) for place, *row in rows}


def _text_of(chunk: Chunk | None) -> tuple[str, str] | None:
    return (chunk.heading, chunk.text) if chunk else None


def _insert(connection: sqlite3.Connection, document: IndexedNote, chunks: Mapping[int, Chunk]) -> None:
    stem = PurePosixPath(document.path).stem  # `2026-11-20`: what notes of a day are asked for by
    passages, units = [], []
    for place, chunk in chunks.items():
        text = f"{chunk.heading}\n{chunk.text}" if chunk.heading else chunk.text
        extra, parts = " ".join((stem, *extra_terms(text))), " ".join(parts_terms(text))
        where = (place, chunk.start, chunk.end, document.version.modified)
        passages.append((*where, word_count(chunk.text), chunk.heading, chunk.text, extra, parts))
        units.append((place, place, hashlib.sha256(text.encode()).digest(), text))
    connection.executemany(_PASSAGE, passages)
    connection.executemany("INSERT INTO note_units (first, last, sha256, text) VALUES (?, ?, ?, ?)", units)


def _delete(connection: sqlite3.Connection, places: Sequence[int]) -> None:
    keys = [(place,) for place in places]
    connection.executemany("DELETE FROM note_passages WHERE place = ?", keys)
    connection.executemany("DELETE FROM note_units WHERE first = ?", keys)


def _set_time(connection: sqlite3.Connection, number: int, modified: float) -> None:
    first, last = places_of(number)
    connection.execute(
        "UPDATE note_passages SET told = ? WHERE place BETWEEN ? AND ? AND told != ?", (modified, first, last, modified)
    )
