"""Tables on Postgres alone: which process works on which session, the processes, and procrastinate's jobs.

procrastinate's own tables and functions stand in the same schema, so that a session's job is deferred in the transaction
that brings the session work. They come from the installed package: `schema.sql` for a new schema, its migrations for an
older one (procrastinate.readthedocs.io, "Migrations"); a fact says which migration was the last.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from goclaw.errors import StateError
from goclaw.store.postgres.connecting import Connection

LOST = "session_epoch"
"""The constraint that Postgres names when a transaction has an old epoch: no table has it."""
TABLES = ("session_owners", "replicas", "procrastinate_jobs", "procrastinate_workers")
"""Tables that no copy has: they are about processes that run."""
OWNERSHIP = f"""
CREATE SEQUENCE session_epochs;
CREATE TABLE session_owners (
    session VARCHAR COLLATE "C" PRIMARY KEY, epoch BIGINT NOT NULL, replica VARCHAR COLLATE "C" NOT NULL,
    taken_at TIMESTAMPTZ NOT NULL
);
CREATE TABLE replicas (
    id VARCHAR COLLATE "C" PRIMARY KEY, address TEXT COLLATE "C" NOT NULL, version VARCHAR COLLATE "C" NOT NULL,
    began_at TIMESTAMPTZ NOT NULL, seen_at TIMESTAMPTZ NOT NULL
);
CREATE FUNCTION check_epoch(of_session VARCHAR, held BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM session_owners WHERE session = of_session AND epoch = held FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another process has taken the session over'
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = '{LOST}';
    END IF;
END $$;
CREATE FUNCTION take_session(of_session VARCHAR, by_replica VARCHAR) RETURNS BIGINT LANGUAGE sql AS $$
    INSERT INTO session_owners AS known (session, epoch, replica, taken_at)
    VALUES (of_session, nextval('session_epochs'), by_replica, clock_timestamp())
    ON CONFLICT (session) DO UPDATE
        SET epoch = nextval('session_epochs'), replica = excluded.replica, taken_at = excluded.taken_at
    RETURNING known.epoch
$$;
"""
"""`FOR SHARE`: a process that takes a session over waits for the transaction that the one before has open, and that one
for the new epoch; `FOR KEY SHARE` would hold up neither."""
MIGRATION = "procrastinate_migration"
"""Fact: the name of procrastinate's last migration that the schema has."""


def _scripts() -> Path:
    found = find_spec("procrastinate")
    if found is None or not found.submodule_search_locations:
        raise StateError("procrastinate is not installed: install GoClaw with its extra `postgres`")
    return Path(found.submodule_search_locations[0]) / "sql"


def migrations() -> Sequence[Path]:
    """Return procrastinate's migrations, oldest first; their names sort so.

    Raises:
        StateError: procrastinate is not installed.
    """
    return sorted((_scripts() / "migrations").glob("*.sql"))


async def make_jobs(connection: Connection) -> str:
    """Make procrastinate's tables in the schema of the connection; return the migration that they are at.

    Raises:
        StateError: procrastinate is not installed.
        psycopg.Error: Postgres refuses.
    """
    await connection.execute((_scripts() / "schema.sql").read_bytes())
    return migrations()[-1].stem


async def migrate_jobs(connection: Connection, schema: str, version: str) -> str:
    """Bring procrastinate's tables from migration `version` to the installed one, which is returned.

    Raises:
        StateError: they are of a newer procrastinate.
        psycopg.Error: Postgres refuses.
    """
    newest = migrations()[-1].stem
    if version > newest:
        raise StateError(
            f"the schema {schema} has jobs of a newer procrastinate ({version}; this one knows up to {newest}): "
            "install the version of GoClaw that wrote it"
        )
    for migration in migrations():
        if migration.stem > version:
            await connection.execute(migration.read_bytes())
    return newest
