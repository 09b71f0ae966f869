"""Checksums of the rows of a store, by table: equal for the same rows, whichever store has them.

What reads a SQLite file raises `sqlite3.Error` when that cannot be read.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import String, Table

from goclaw.common.core.records import record
from goclaw.durable.store.schema import metadata

AT_ONCE = 500
"""Rows that are fetched, inserted or hashed together."""
OF_A_STORE = ("schema_version", "schema_writer", "holder", "procrastinate_migration")
"""Facts that are about a schema of Postgres itself: they are in no copy, and are not counted."""


@record
class TableSum:
    """The rows of a table, ordered by its key."""

    rows: int
    sha256: str


class Summing:
    """Counts and hashes rows that are handed in by and by, in the order of the table's key."""

    def __init__(self) -> None:
        self._rows = 0
        self._digest = hashlib.sha256()

    def add(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take the next rows."""
        for row in rows:
            self._digest.update(orjson.dumps([_common(value) for value in row]) + b"\n")
            self._rows += 1

    def sum(self) -> TableSum:
        """Return what came so far."""
        return TableSum(self._rows, self._digest.hexdigest())


def _common(value: Any) -> Any:
    """Return what both stores can keep: SQLite has no True but 1, and Postgres no NUL."""
    if isinstance(value, str):
        return value.replace("\0", "")
    return int(value) if isinstance(value, bool) else in_sqlite(value)


def in_sqlite(value: Any) -> Any:
    """Return a value of Postgres as SQLite keeps it: `store.dialect.MOMENT` and `NUMBERS`."""
    if isinstance(value, datetime):
        return value.timestamp()
    return orjson.dumps(value).decode() if isinstance(value, list) else value


def rows_in_order(table: Table) -> str:
    """Return the query of all rows of a table that a copy has, ordered by its key, in SQL of both stores."""
    columns = ", ".join(column.name for column in table.columns)
    key = ", ".join(column.name for column in table.primary_key.columns)
    without = f" WHERE name NOT IN ({', '.join(map(repr, OF_A_STORE))})" if table.name == "daemon_facts" else ""
    return f"SELECT {columns} FROM {table.name}{without} ORDER BY {key}"  # noqa: S608  # our own names


@contextmanager
def read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file that nothing uses, for reading."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
        yield file


def sums_of_file(path: Path) -> Mapping[str, TableSum]:
    """Return the sum of each table in a SQLite file of the newest version."""
    with read_only(path) as file:
        return {str(table.name): _sum_of(file, table) for table in metadata.sorted_tables}


def _sum_of(file: sqlite3.Connection, table: Table) -> TableSum:
    summing = Summing()
    summing.add(file.execute(rows_in_order(table)))
    return summing.sum()


def differing(one: Mapping[str, TableSum], other: Mapping[str, TableSum]) -> Iterator[str]:
    """Yield the names of the tables that are not the same, with their rows."""
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            rows = [sums[name].rows if name in sums else 0 for sums in (one, other)]
            yield f"{name} ({rows[0]} and {rows[1]} rows)"


def non_empty(sums: Mapping[str, TableSum]) -> Mapping[str, int]:
    """Return the rows of each table that has any, but for what every start writes (`daemon_facts`)."""
    return {name: each.rows for name, each in sums.items() if each.rows and name != "daemon_facts"}


def rows_of_file(path: Path) -> Mapping[str, int]:
    """Return the same of a SQLite file of any version."""
    with read_only(path) as file:
        found = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        names = sorted({name for (name,) in found} - {"daemon_facts"})
        counts = {name: file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}  # noqa: S608  # ours
    return {name: count for name, count in counts.items() if count}


def in_use(place: str, rows: Mapping[str, int]) -> str:
    """Return the words for a place that has rows where none may be."""
    found = ", ".join(f"{count:,} of {name}" for name, count in rows.items())
    return f"{place} already has rows ({found}); `--replace` replaces them with the copy and saves them in a file"


def texts_with_nul(path: Path) -> int:
    """Count the texts in a SQLite file of the newest version that have the character NUL."""
    with read_only(path) as file:
        queries = (
            f"SELECT count(*) FROM {table.name} WHERE instr({column.name}, char(0))"  # noqa: S608  # our own names
            for table in metadata.sorted_tables
            for column in table.columns
            if isinstance(column.type, String)
        )
        return sum(file.execute(query).fetchone()[0] for query in queries)
