"""A schema as a file of SQLite, and the rows of such a file in a schema, all or none. Everything here blocks.

A copy out is of one moment of the database, while the daemon goes on. Nothing may use a schema that is filled.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import psycopg
from psycopg import sql
from sqlalchemy import Boolean, Column, Table

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.durable.store.dialect import MOMENT, NUMBERS
from goclaw.durable.store.postgres.beside import SCHEMA, connect
from goclaw.durable.store.postgres.connecting import Connection, single
from goclaw.durable.store.postgres.database import PostgresDatabase
from goclaw.durable.store.postgres.faults import store_error
from goclaw.durable.store.schema import daemon_facts, metadata
from goclaw.durable.store.sqlite.migrations import migrate
from goclaw.durable.store.sums import (
    AT_ONCE,
    OF_A_STORE,
    Summing,
    TableSum,
    differing,
    in_sqlite,
    in_use,
    non_empty,
    read_only,
    rows_in_order,
    sums_of_file,
)
from goclaw.errors import StateError

_FACT = "SELECT value FROM daemon_facts WHERE name = %s"
_KEEP = "INSERT INTO daemon_facts (name, value) VALUES (%s, %s)"
_SET_SEQUENCE = "SELECT setval(pg_get_serial_sequence(%s, %s), %s)"
_SEQUENCE = "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence(%s, %s)::regclass), 0)"


def copy_to_file(place: PostgresPlace, target: Path) -> Mapping[str, TableSum]:
    """Write all rows of one moment into the new SQLite file `target`; returns their sums, as Postgres has them.

    Raises:
        StateError: Postgres cannot be used, or was never.
    """
    migrate(target)
    with connect(place) as connection, closing(sqlite3.connect(target, isolation_level=None)) as file:
        if connection.execute(SCHEMA, (place.schema,)).fetchone() is None:
            raise StateError(f"{place.shown}: there is no database yet; GoClaw has not run with it")
        file.execute("BEGIN")
        sums = {str(table.name): _copy_out(connection, file, table) for table in metadata.sorted_tables}
        file.execute("COMMIT")
        file.execute("PRAGMA journal_mode=DELETE")
    return sums


def _copy_out(connection: psycopg.Connection[Any], file: sqlite3.Connection, table: Table) -> TableSum:
    names, summing = [column.name for column in table.columns], Summing()
    file.execute(f"DELETE FROM {table.name}")  # noqa: S608  # our own names
    insert = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608  # our own names
    with connection.cursor(name=f"copy_{table.name}") as cursor:
        cursor.itersize = AT_ONCE
        cursor.execute(rows_in_order(table).encode())
        while rows := [tuple(map(in_sqlite, row)) for row in cursor.fetchmany(AT_ONCE)]:
            summing.add(rows)
            file.executemany(insert, rows)
    own = table.autoincrement_column
    if own is not None and table.dialect_options["sqlite"]["autoincrement"]:
        # An id that was given once is not given again, also where its row is gone.
        [(used,)] = connection.execute(_SEQUENCE, (str(table.name), own.name)).fetchall()
        file.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
        file.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, used))
    return summing.sum()


def replace_with_file(place: PostgresPlace, source: Path, only_empty: bool) -> Mapping[str, TableSum]:
    """Put the rows of a SQLite file of the newest version in the place of those of the schema, all or none.

    What came in is read again before it is committed. `only_empty`: refuse a schema that has rows. Returns the sums.

    Raises:
        StateError: a daemon uses the schema, it has rows, the rows received are not those sent, or Postgres cannot be
            used. Nothing has changed then.
    """
    # In a thread of its own: the caller may have an event loop, and waits all the same.
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, _replace(place, source, only_empty)).result()


async def _replace(place: PostgresPlace, source: Path, only_empty: bool) -> Mapping[str, TableSum]:
    database = PostgresDatabase(place, RealClock(), alone=True)
    try:
        await database.open()
        async with database.pause_writes() as writer, writer.transaction():
            if only_empty and (found := non_empty(await _sums(writer))):
                raise StateError(in_use(place.shown, found))
            await _fill(writer, source)
            wanted, came = sums_of_file(source), await _sums(writer)
            if different := list(differing(wanted, came)):
                raise StateError(f"{place.shown}: the received data differ from the source: {', '.join(different)}")
        return came
    except sqlite3.Error as error:
        raise StateError(f"{source} cannot be read: {error}") from error
    except psycopg.Error as error:
        raise StateError(str(store_error(error, place.shown, "written"))) from error
    finally:
        await database.close()


async def _fill(writer: Connection, source: Path) -> None:
    kept = {name: await single(writer, _FACT, name) for name in OF_A_STORE}
    with read_only(source) as file:
        names = ", ".join(table.name for table in metadata.sorted_tables)  # at once: one refers to another
        await writer.execute(f"TRUNCATE {names} RESTART IDENTITY".encode())
        for table in metadata.sorted_tables:
            await _copy_in(writer, file, table)
    await writer.execute(b"TRUNCATE vectors")
    for name, value in kept.items():
        if value is not None:
            await writer.execute(_KEEP, (name, value))


async def _copy_in(writer: Connection, file: sqlite3.Connection, table: Table) -> None:
    columns = list(table.columns)
    names = [column.name for column in columns]
    into_ours = [_reader_of(column) for column in columns]
    listed = sql.SQL(", ").join(map(sql.Identifier, names))
    into = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(str(table.name)), listed)
    rows = file.execute(f"SELECT {', '.join(names)} FROM {table.name}")  # noqa: S608  # our own names
    async with writer.cursor() as cursor, cursor.copy(into) as copying:
        for row in rows:
            if table is daemon_facts and row[0] in OF_A_STORE:
                continue
            await copying.write_row([read(value) for read, value in zip(into_ours, row, strict=True)])
    own = table.autoincrement_column
    if own is not None:
        highest = file.execute(f"SELECT coalesce(max({own.name}), 0) FROM {table.name}").fetchone()[0]  # noqa: S608  # our own names
        if table.dialect_options["sqlite"]["autoincrement"]:
            used = file.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)).fetchone()
            highest = max(highest, used[0] if used else 0)
        if highest:
            await writer.execute(_SET_SEQUENCE, (str(table.name), own.name, highest))


async def _sums(writer: Connection) -> Mapping[str, TableSum]:
    sums = dict[str, TableSum]()
    for table in metadata.sorted_tables:
        summing = Summing()
        async with writer.cursor(name=f"sum_{table.name}") as cursor:
            await cursor.execute(rows_in_order(table).encode())
            while rows := await cursor.fetchmany(AT_ONCE):
                summing.add([tuple(row) for row in rows])
        sums[str(table.name)] = summing.sum()
    return sums


def _reader_of(column: Column[Any]) -> Callable[[Any], Any]:
    """Return what makes a value of SQLite one of Postgres."""
    if isinstance(column.type, Boolean):
        read: Callable[[Any], Any] = bool
    elif column.type is MOMENT:
        read = partial(datetime.fromtimestamp, tz=UTC)
    elif column.type is NUMBERS:
        read = orjson.loads
    else:
        return lambda value: value.replace("\0", "") if isinstance(value, str) else value
    return lambda value: None if value is None else read(value)
