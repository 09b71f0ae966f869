"""Access to a schema beside the daemon that uses it: queries, a check, and a copy as a file of SQLite.

Also the way back: the rows of a file into the schema, which no daemon may use meanwhile. Everything here blocks.
"""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Cursor, sql
from sqlalchemy import Boolean, Table

from goclaw.config.values import PostgresPlace
from goclaw.core.clock import RealClock
from goclaw.errors import StateError
from goclaw.store.database import BoundStatement, Examined, Row
from goclaw.store.postgres.connecting import HOLDER_OF, PostgresRow, off_this_machine, parameters
from goclaw.store.postgres.database import PostgresDatabase, bound
from goclaw.store.postgres.faults import store_error
from goclaw.store.postgres.ownership_schema import MIGRATION
from goclaw.store.postgres.schema import HOLDER, NEWEST, VERSION
from goclaw.store.schema import daemon_facts, metadata
from goclaw.store.sqlite.migrations import migrate

AT_ONCE = 500
"""Rows that are fetched and inserted together."""
OF_THE_STORE = (VERSION, HOLDER, MIGRATION)
"""Facts that no copy has: they are about the schema itself."""
_ABOUT = """
SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
  (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS is_encrypted
"""
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r'
"""
_SCHEMA = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'daemon_facts'"
_FACT = "SELECT value FROM daemon_facts WHERE name = %s"


@contextmanager
def _connected(place: PostgresPlace) -> Iterator[psycopg.Connection[PostgresRow]]:
    """Connect for reading, at one moment of the database.

    Raises:
        StateError: Postgres cannot be used, or a query fails.
    """
    try:
        with psycopg.connect(**parameters(place), application_name="goclaw beside", row_factory=_rows) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute("SELECT set_config('search_path', %s, false)", (f'"{place.schema}", pg_temp',))
            yield connection
    except psycopg.Error as error:
        raise StateError(str(store_error(error, place.shown, "read"))) from error


def _rows(cursor: Cursor[Any]) -> Any:
    places = {column.name: place for place, column in enumerate(cursor.description or ())}
    return lambda values: PostgresRow(values, places)


def read(place: PostgresPlace, statements: Sequence[BoundStatement]) -> list[Sequence[Row]]:
    """Return the rows of each query, all of one moment; none where the schema was never used.

    Raises:
        StateError: Postgres cannot be used.
    """
    with _connected(place) as connection:
        if connection.execute(_SCHEMA, (place.schema,)).fetchone() is None:
            return [[] for _ in statements]
        return [connection.execute(*bound(statement)).fetchall() for statement in statements]


def exists(place: PostgresPlace) -> bool:
    """Whether the schema has the tables of GoClaw.

    Raises:
        StateError: Postgres cannot be used.
    """
    with _connected(place) as connection:
        return connection.execute(_SCHEMA, (place.schema,)).fetchone() is not None


def examine(place: PostgresPlace) -> Examined:
    """Look at the server, the role and the schema.

    Raises:
        StateError: Postgres cannot be used.
    """
    with _connected(place) as connection:
        (about,) = connection.execute(_ABOUT).fetchall()
        weak = []
        if about["is_superuser"]:
            weak.append(("the role is a superuser, which may do anything", "give GoClaw a role of its own"))
        if about["fsync"] == "off":
            weak.append(("`fsync` is off: a power cut destroys the whole database", "switch it on"))
        if not about["is_encrypted"] and off_this_machine(place):
            weak.append(("what is said crosses the network unencrypted", "`?sslmode=verify-full` in `store`"))
        words = f"Postgres {about['version']}, {place.shown}"
        if connection.execute(_SCHEMA, (place.schema,)).fetchone() is None:
            return Examined(f"{words}: will be made at the first start", weak)
        version = int(connection.execute(_FACT, (VERSION,)).fetchall()[0][0])
        if version > NEWEST:
            raise StateError(f"{place.shown} is of a newer GoClaw (schema {version}): install that version")
        (size,) = connection.execute(_SIZE, (place.schema,)).fetchall()[0]
        holder = connection.execute(HOLDER_OF, (place.schema,)).fetchone()
        used = f"used by `{holder['application_name']}`" if holder else "used by no daemon"
        return Examined(f"{words}: schema {version}, {size / 1e6:,.1f} MB, {used}", weak)


def copy_to_file(place: PostgresPlace, target: Path) -> None:
    """Write all rows of one moment into the new SQLite file `target`: a daemon goes on meanwhile.

    Raises:
        StateError: Postgres cannot be used, or was never.
    """
    migrate(target)
    with _connected(place) as connection, closing(sqlite3.connect(target, isolation_level=None)) as file:
        if connection.execute(_SCHEMA, (place.schema,)).fetchone() is None:
            raise StateError(f"{place.shown}: there is no database yet; GoClaw has not run with it")
        file.execute("BEGIN")
        for table in metadata.sorted_tables:
            names = [column.name for column in table.columns]
            file.execute(f"DELETE FROM {table.name}")  # noqa: S608  # our own names
            insert = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608  # our own names
            with connection.cursor(name=f"copy_{table.name}") as cursor:
                cursor.itersize = AT_ONCE
                cursor.execute(sql.SQL("SELECT {} FROM {}").format(_list(names), sql.Identifier(str(table.name))))
                while rows := cursor.fetchmany(AT_ONCE):
                    file.executemany(insert, [tuple(row) for row in rows])
        for name in OF_THE_STORE:
            file.execute("DELETE FROM daemon_facts WHERE name = ?", (name,))
        file.execute("COMMIT")
        file.execute("PRAGMA journal_mode=DELETE")


def replace_with_file(place: PostgresPlace, source: Path) -> None:
    """Put the rows of a SQLite file of the newest version in the place of those of the schema, all or none.

    Raises:
        StateError: a daemon uses the schema, or Postgres cannot be used.
    """
    address = f"{source.absolute().as_uri()}?mode=ro"
    # In a thread of its own: the caller may have an event loop, and waits all the same.
    with ThreadPoolExecutor(1) as apart:
        apart.submit(asyncio.run, _replace(place, address)).result()


async def _replace(place: PostgresPlace, source: str) -> None:
    database = PostgresDatabase(place, RealClock())
    try:
        await database.open()
        async with database.alone() as writer, writer.transaction():
            kept = {name: await _facts(writer, name) for name in OF_THE_STORE}
            with closing(sqlite3.connect(source, uri=True)) as file:
                for table in metadata.sorted_tables:
                    await writer.execute(f"TRUNCATE {table.name} RESTART IDENTITY".encode())
                    await _copy_table(writer, file, table)
            for name, value in kept.items():
                await writer.execute("INSERT INTO daemon_facts (name, value) VALUES (%s, %s)", (name, value))
    except psycopg.Error as error:
        raise StateError(str(store_error(error, place.shown, "written"))) from error
    finally:
        await database.close()


async def _facts(writer: psycopg.AsyncConnection[PostgresRow], name: str) -> str:
    row = await (await writer.execute(_FACT, (name,))).fetchone()
    return str(row[0]) if row else "null"


async def _copy_table(writer: psycopg.AsyncConnection[PostgresRow], file: sqlite3.Connection, table: Table) -> None:
    columns = list(table.columns)
    names = [column.name for column in columns]
    flags = [isinstance(column.type, Boolean) for column in columns]
    into = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(str(table.name)), _list(names))
    rows = file.execute(f"SELECT {', '.join(names)} FROM {table.name}")  # noqa: S608  # our own names
    async with writer.cursor() as cursor, cursor.copy(into) as copying:
        for row in rows:
            if table is daemon_facts and row[0] in OF_THE_STORE:
                continue
            await copying.write_row([_value(value, flag) for value, flag in zip(row, flags, strict=True)])
    own = table.autoincrement_column
    if own is not None:
        highest = file.execute(f"SELECT coalesce(max({own.name}), 0) FROM {table.name}").fetchone()[0]  # noqa: S608  # our own names
        if table.dialect_options["sqlite"]["autoincrement"]:
            used = file.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)).fetchone()
            highest = max(highest, used[0] if used else 0)
        sequence = "SELECT setval(pg_get_serial_sequence(%s, %s), %s)"
        if highest:
            await writer.execute(sequence, (str(table.name), own.name, highest))


def _value(value: Any, is_flag: bool) -> Any:
    if is_flag and value is not None:
        return bool(value)
    return value.replace("\0", "") if isinstance(value, str) else value


def _list(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
