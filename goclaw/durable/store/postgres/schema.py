"""The tables in a schema of Postgres: made whole, or brought up to date, in one transaction.

The version is a row of `daemon_facts`. A step never changes once released; a new one is appended. Steps for tables that
both stores have answer to one of SQLite's each; the others are about processes that share a schema.

A step only adds: gateways of the version before go on with the schema while they are replaced one by one. A step of a
later minor version removes parts that are no longer needed.
"""

import secrets
from collections.abc import Iterator, Sequence

import orjson
import psycopg
from psycopg import sql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.schema import CreateIndex, CreateTable

from goclaw import __version__
from goclaw.common.core.clock import Backoff, Clock, RealClock
from goclaw.common.core.records import record
from goclaw.durable.store.dialect import SETTLED_BY
from goclaw.durable.store.postgres.channel_schema import CHANNEL_FUNCTIONS, CHANNELS
from goclaw.durable.store.postgres.connecting import Connection, single
from goclaw.durable.store.postgres.orders import ORDERS
from goclaw.durable.store.postgres.ownership_schema import MIGRATION, OWNERSHIP, TABLES, make_jobs, migrate_jobs
from goclaw.durable.store.postgres.replicas import BEATS, COMMITS, REPLICAS, WANTED_QUIETLY
from goclaw.durable.store.postgres.reservations import RESERVATIONS
from goclaw.durable.store.postgres.stored_files import files_metadata
from goclaw.durable.store.postgres.vectors import VECTORS
from goclaw.durable.store.postgres.watches_schema import WATCHES
from goclaw.durable.store.schema import MATERIAL_KEY, daemon_facts, messages, metadata
from goclaw.errors import StateError

DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]  # untyped there
FIRST = 5
"""The version of the first tables on Postgres."""

FILE_LABELS = """
CREATE TABLE IF NOT EXISTS file_labels (
    folder VARCHAR COLLATE "C", path VARCHAR COLLATE "C", stamp VARCHAR COLLATE "C" NOT NULL, PRIMARY KEY (folder, path)
);
"""


@record
class SchemaStep:
    """A change of the schema from one version to the next."""

    script: str
    of_both_stores: bool = True
    """Whether SQLite has a step for it, too: a new schema gets its tables from their definitions."""
    functions: str = ""
    """The part of it that a new schema needs in addition to those tables."""

    @property
    def of_new_schema(self) -> str:
        """The script for a schema with tables made from their definitions."""
        return self.functions if self.of_both_stores else self.script


STEPS: Sequence[SchemaStep] = (
    SchemaStep(OWNERSHIP, of_both_stores=False),
    SchemaStep(WATCHES, of_both_stores=False),
    SchemaStep(REPLICAS, of_both_stores=False),
    SchemaStep(CHANNELS, functions=CHANNEL_FUNCTIONS),
    SchemaStep(RESERVATIONS, of_both_stores=False),
    SchemaStep(ORDERS, of_both_stores=False),
    SchemaStep(VECTORS, of_both_stores=False),
    SchemaStep(WANTED_QUIETLY, of_both_stores=False),
    SchemaStep(BEATS, of_both_stores=False),
    SchemaStep(COMMITS, of_both_stores=False),
    SchemaStep(f"ALTER TABLE {messages.name} ADD COLUMN denied BOOLEAN"),
    SchemaStep(FILE_LABELS),
    SchemaStep(
        "ALTER TABLE schedules DROP CONSTRAINT schedules_name, ADD CONSTRAINT schedules_name UNIQUE (person, name)"
    ),
)
"""The first brings version `FIRST` to the next one, and so on."""
NEWEST = FIRST + len(STEPS)
VERSION = "schema_version"
WRITER = "schema_writer"
"""Fact: the version of GoClaw that made the newest step."""
UPGRADE_SECONDS = 60.0
"""Seconds for which a step is tried again while others hold the tables that it changes."""
_PAUSES = (0.5, 2.0)
"""Seconds between these tries, the first and the longest: waiting transactions can finish in between."""
_SHORT_WAITS = "SELECT set_config('lock_timeout', '500ms', true)"
_CLOCK = RealClock()
REWRITER = "holder"
"""Fact: a random name of the process that had the store to itself last. A gateway that lost its connection meanwhile
would go on with what is in its memory of a store that a restore has exchanged."""
_HAS_FACTS = f"SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = '{daemon_facts.name}'"  # noqa: S608  # our own
_FIRST_TABLE = "SELECT min(tablename::text) FROM pg_tables WHERE schemaname = %s"
_COLUMNS = """
SELECT c.relname, a.attname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = %s AND c.relname = ANY(%s) AND c.relkind IN ('r', 'p')
"""
"""Of tables by their names, for which there is an index: `information_schema` looks at all of the database."""
_LEARN = """
INSERT INTO daemon_facts (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_SETTLED = f"{SETTLED_BY} xid8 NOT NULL DEFAULT pg_current_xact_id()"


def definitions() -> Iterator[str]:
    """Yield the statements that make the tables and their indexes."""
    for table in metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=DIALECT))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            condition = index.dialect_options["sqlite"]["where"]
            yield str(CreateIndex(index).compile(dialect=DIALECT)) + (
                f" WHERE {condition}" if condition is not None else ""
            )
    yield f"ALTER TABLE {messages.name} ADD COLUMN {_SETTLED}"
    yield from definitions_of_files()


def definitions_of_files() -> Iterator[str]:
    """Yield the statements that make the tables of files, where they are missing.

    They are no part of the version: SQLite has none of them, and nothing but `state_files` asks for them.
    """
    for table in files_metadata.sorted_tables:
        yield str(CreateTable(table, if_not_exists=True).compile(dialect=DIALECT))


async def prepare(
    connection: Connection, schema: str, steps: Sequence[SchemaStep] | None = None, clock: Clock = _CLOCK
) -> None:
    """Make the schema and its tables, or bring them up to the newest version; all of it or nothing.

    Others may use the schema meanwhile. A step that changes a table waits for their transactions, and all later ones
    wait for it: so it waits for a moment only, lets them pass, and is tried again. `steps`: None: `STEPS`.

    Raises:
        StateError: the schema has tables of another program, or is of a newer GoClaw, or a table is missing, or its
            tables are locked all the time.
        psycopg.Error: Postgres refuses.
    """
    deadline, pauses = clock.monotonic() + UPGRADE_SECONDS, Backoff(*_PAUSES)
    while True:
        try:
            async with connection.transaction():
                await connection.execute(_SHORT_WAITS)
                await _prepare(connection, schema, STEPS if steps is None else steps)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if clock.monotonic() >= deadline:
                raise StateError(
                    f"the schema {schema} cannot be migrated: other transactions have locked its tables for "
                    f"{UPGRADE_SECONDS:g} s (see `pg_stat_activity`). Nothing has changed; start GoClaw again"
                ) from None
        else:
            return
        await clock.sleep(pauses.next())


async def _prepare(connection: Connection, schema: str, steps: Sequence[SchemaStep]) -> None:
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (f"goclaw:{schema}",))
    found = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    if not await found.fetchone():
        await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    if await single(connection, _HAS_FACTS, schema):
        await _bring_up(connection, schema, steps)
    elif table := await single(connection, _FIRST_TABLE, schema):
        raise StateError(
            f"the schema {schema} has tables that are not GoClaw's, such as {table}: "
            "name another one with `?schema=NAME` in `store`"
        )
    else:
        await _make(connection, steps)
    for statement in definitions_of_files():
        await connection.execute(statement.encode())
    if steps is STEPS and (missing := await _missing(connection, schema)):
        raise StateError(f"the schema {schema} has no {missing}: something has changed it. `goclaw restore` a backup")


async def _make(connection: Connection, steps: Sequence[SchemaStep]) -> None:
    async with connection.pipeline():
        for statement in definitions():
            await connection.execute(statement.encode())
    await learn(connection, MIGRATION, await make_jobs(connection))
    for step in steps:
        if step.of_new_schema:
            await connection.execute(step.of_new_schema.encode())
    await learn(connection, MATERIAL_KEY, secrets.token_hex(32))
    await _learn_version(connection, FIRST + len(steps))


async def _bring_up(connection: Connection, schema: str, steps: Sequence[SchemaStep]) -> None:
    version, newest = int(str(await fact(connection, VERSION) or 0)), FIRST + len(steps)
    if version > newest:
        newer = f"GoClaw {writer}" if (writer := await fact(connection, WRITER)) else "a newer GoClaw"
        raise StateError(
            f"the schema {schema} has version {version}, but this GoClaw ({__version__}) knows only up to {newest}: "
            f"{newer} has migrated it. Install that version here, too; or downgrade all gateways and restore an older "
            "backup"
        )
    if version < FIRST:
        raise StateError(f"the schema {schema} does not say which version it has: `goclaw restore` a backup")
    before = await fact(connection, MIGRATION)
    now = await migrate_jobs(connection, schema, str(before)) if before else await make_jobs(connection)
    if now != before:
        await learn(connection, MIGRATION, now)
    for step in steps[version - FIRST :]:
        await connection.execute(step.script.encode())
    if version < newest:
        await _learn_version(connection, newest)


async def _learn_version(connection: Connection, version: int) -> None:
    await learn(connection, VERSION, version)
    await learn(connection, WRITER, __version__)


async def _missing(connection: Connection, schema: str) -> str:
    """Name a table, or a column of one, that the schema lacks; empty when it has all."""
    wanted = [(str(table.name), column.name) for table in metadata.sorted_tables for column in table.columns]
    rows = await connection.execute(_COLUMNS, (schema, sorted({name for name, _ in wanted}.union(TABLES))))
    found = {(str(row[0]), str(row[1])) for row in await rows.fetchall()}
    gone = [f"{name}.{column}" for name, column in wanted if (name, column) not in found]
    gone += [name for name in TABLES if name not in {table for table, _ in found}]
    return gone[0] if gone else ""


async def fact(connection: Connection, name: str) -> object:
    """Return a fact of the daemon, or None where it is not known."""
    found = await connection.execute("SELECT value FROM daemon_facts WHERE name = %s", (name,))
    row = await found.fetchone()
    return orjson.loads(str(row[0])) if row else None


async def learn(connection: Connection, name: str, value: object) -> None:
    """Keep a fact of the daemon."""
    await connection.execute(_LEARN, (name, orjson.dumps(value).decode()))
