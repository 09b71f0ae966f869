"""Reads what can be read of a damaged database, row by row, into a new one.

A page that cannot be read costs the rows on it, not those behind it. A header, or a first page, that is destroyed is
borrowed from the new file. Whatever does not look like a row of its table is left out. Every row keeps its id, so that
nothing is taken for new that was done before.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Float, Integer, Table

from goclaw.codec import Codec
from goclaw.events import LOCAL, Delivery, Inbound
from goclaw.store.tables import metadata

HEADER_BYTES = 100
PAGE_BYTES = 4096
"""SQLite's default, which GoClaw never changes (sqlite.org/fileformat2.html)."""
_FURTHEST = 1 << 40
"""No row has a higher id."""
TOLD = (
    "Your message was under way when my database was damaged, and I cannot tell how far I had come with it. "
    "Please send it again."
)
_INBOUND: Codec[Inbound] = Codec(Inbound)
_DELIVERY: Codec[Delivery] = Codec(Delivery)


def salvage(damaged: Path, fresh: Path, now: float) -> tuple[dict[str, int], list[str]]:
    """Copy every row that can be read from the file `damaged`, which is a copy and may be changed, to `fresh`.

    Returns how many rows of each table were, and the tables of which some could not be.
    """
    with closing(sqlite3.connect(fresh, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous=OFF")  # the caller flushes the whole, before it gets a name
        for borrowed in (0, HEADER_BYTES, PAGE_BYTES):
            _borrow(damaged, fresh, borrowed)
            with closing(sqlite3.connect(damaged, isolation_level=None)) as source:
                found = _columns(source)
                if found:
                    target.execute("BEGIN IMMEDIATE")
                    kept, incomplete = _copy(source, target, found)
                    _close_what_is_uncertain(target, incomplete, now)
                    target.execute("COMMIT")
                    return kept, incomplete
    return {}, [str(table.name) for table in metadata.sorted_tables]


def _borrow(damaged: Path, fresh: Path, count: int) -> None:
    """Put the first `count` bytes of a sound file in the place of those that are destroyed."""
    size = damaged.stat().st_size if damaged.exists() else 0
    if count == 0 or size < PAGE_BYTES:
        return
    sound = bytearray(fresh.read_bytes()[:count])
    sound[28:32] = (size // PAGE_BYTES).to_bytes(4, "big")
    sound[32:40] = bytes(8)  # no list of free pages: it would be that of the other file
    with damaged.open("r+b") as file:
        file.write(sound)


def _columns(source: sqlite3.Connection) -> dict[str, list[str]]:
    """Return our columns that the tables of the file have; empty when not even that can be read."""
    try:
        found = {
            table.name: [row[1] for row in source.execute(f"PRAGMA table_info({table.name})")]
            for table in metadata.sorted_tables
        }
    except sqlite3.DatabaseError:
        return {}
    return {name: columns for name, columns in found.items() if columns}


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, found: dict[str, list[str]]
) -> tuple[dict[str, int], list[str]]:
    kept: dict[str, int] = {}
    incomplete = []
    for table in metadata.sorted_tables:
        name = str(table.name)  # SQLAlchemy's is a kind of text of its own
        columns = [column.name for column in table.columns if column.name in found.get(name, ())]
        reading = _Reading(source, table, columns)
        marks = ", ".join("?" * len(columns))
        insert = f"INSERT OR IGNORE INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608  # our names
        kept[name] = target.executemany(insert, reading).rowcount if columns else 0
        # A table that is younger than the file is no loss.
        if not reading.whole or (not columns and name in ("messages", "inbox", "steps", "deliveries")):
            incomplete.append(name)
    return kept, incomplete


class _Reading:
    """The rows of one table that can be read, in order of their ids."""

    def __init__(self, source: sqlite3.Connection, table: Table, columns: Sequence[str]) -> None:
        self._source, self._table = source, table
        self._kinds = [_kind(table, name) for name in columns]
        named = f"rowid, {', '.join(columns)} FROM {table.name}"
        self._query = f"SELECT {named} NOT INDEXED WHERE rowid > ? ORDER BY rowid"  # our own names
        self.whole = True

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        last: int | None = 0
        while last is not None:
            try:
                for row in self._source.execute(self._query, (last,)):
                    last = int(row[0])
                    if self._is_plausible(row[1:]):
                        yield row[1:]
                    else:
                        self.whole = False
                return
            except sqlite3.DatabaseError:
                self.whole = False
                last = self._next_readable(last or 0)

    def _next_readable(self, last: int) -> int | None:
        """Return the lowest id behind which a row can be read; None when no more can."""
        step = 1
        while not self._can_read(last + step):
            step *= 2
            if step > _FURTHEST:
                return None
        low, high = last + step // 2, last + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._can_read(middle) else (middle, high)
        return high

    def _can_read(self, after: int) -> bool:
        try:
            self._source.execute(f"{self._query} LIMIT 1", (after,)).fetchone()
        except sqlite3.DatabaseError:
            return False
        return True

    def _is_plausible(self, row: Sequence[Any]) -> bool:
        return all(isinstance(value, kind) for value, kind in zip(row, self._kinds, strict=True))


def _kind(table: Table, name: str) -> tuple[type, ...]:
    column = table.columns[name]
    of = (int, float) if isinstance(column.type, Float) else (int,) if _is_whole(column.type) else (str,)
    return (*of, type(None)) if column.nullable else of


def _is_whole(kind: object) -> bool:
    return isinstance(kind, Integer | Boolean)


def _close_what_is_uncertain(target: sqlite3.Connection, incomplete: Sequence[str], now: float) -> None:
    """End open turns whose journal is not whole: running them again could do twice what must be done once."""
    if "steps" not in incomplete:
        return
    opened = "SELECT id, session, body FROM inbox WHERE state != 'done'"
    if "messages" not in incomplete:
        opened += " AND id IN (SELECT turn FROM messages UNION SELECT turn FROM steps)"
    for turn, session, body in target.execute(f"{opened} ORDER BY seq").fetchall():
        address = _INBOUND.from_json(body).address
        target.execute("UPDATE inbox SET state = 'done', ended_at = ? WHERE id = ?", (now, turn))
        target.execute("DELETE FROM steps WHERE turn = ?", (turn,))
        target.execute(
            "INSERT INTO messages (session, turn, step, role, text, created_at) VALUES (?, ?, ?, 'assistant', ?, ?)",
            (session, turn, "damaged", f"[{TOLD}]", now),
        )
        if address.channel != LOCAL:
            told = Delivery(f"{turn}:deliver:1", address, TOLD, turn=turn, session=session)
            target.execute(
                "INSERT OR IGNORE INTO deliveries (id, channel, chat, body, state, created_at)"
                " VALUES (?, ?, ?, ?, 'pending', ?)",
                (told.id, address.channel, address.chat, _DELIVERY.to_json(told), now),
            )
