"""Tables on Postgres alone: which process works on which session, the processes, and procrastinate's jobs.

procrastinate's own tables and functions stand in the same schema, so that a session's job is deferred in the
transaction that brings the session work. They come from the installed package: `schema.sql` for a new schema, its
migrations for an older one (procrastinate.readthedocs.io, "Migrations"); a fact says which migration was the last.
Functions raise `StateError` when it is not installed, and `psycopg.Error` when Postgres refuses.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path

from goclaw import __version__
from goclaw.durable.store.dialect import IS_SEEN, REPLICA
from goclaw.durable.store.postgres.connecting import Connection
from goclaw.errors import StateError

LOST = "session_epoch"
"""The constraint that Postgres names when a transaction has an old epoch: no table has it."""
QUEUE, TASK = "sessions", "work"
"""procrastinate's names of the queue of all sessions and of its one task: to work on a session."""
NEWS = "sessions"
"""Topic of the notices that a session was brought something (`store.postgres.notices`)."""
TABLES = (
    *("session_owners", "session_watches", "replicas", "orders", "procrastinate_jobs", "procrastinate_workers"),
    *("spenders", "reservations", "vectors", "commits"),
)
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
ALTER TABLE steps ADD COLUMN {REPLICA} VARCHAR COLLATE "C" DEFAULT current_setting('goclaw.replica', true);
ALTER TABLE tasks ADD COLUMN {REPLICA} VARCHAR COLLATE "C" DEFAULT current_setting('goclaw.replica', true);
CREATE FUNCTION check_epoch(of_session VARCHAR, held BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM session_owners WHERE session = of_session AND epoch = held FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another process has taken the session over'
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = '{LOST}';
    END IF;
END $$;
CREATE FUNCTION take_session(of_session VARCHAR, by_replica VARCHAR) RETURNS BIGINT LANGUAGE sql
    SET lock_timeout = '1s' AS $$
    INSERT INTO session_owners AS known (session, epoch, replica, taken_at)
    VALUES (of_session, nextval('session_epochs'), by_replica, clock_timestamp())
    ON CONFLICT (session) DO UPDATE
        SET epoch = nextval('session_epochs'), replica = excluded.replica, taken_at = excluded.taken_at
    RETURNING known.epoch
$$;
CREATE FUNCTION end_transactions_of_owner(of_session VARCHAR) RETURNS BIGINT LANGUAGE sql AS $$
    SELECT count(pg_terminate_backend(a.pid)) FROM session_owners o
    JOIN pg_stat_activity a ON a.application_name LIKE 'goclaw ' || o.replica || ' %'
    WHERE o.session = of_session AND a.datname = current_database() AND a.usename = current_user
        AND a.pid <> pg_backend_pid()
        AND a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - interval '500 ms'
$$;
CREATE FUNCTION end_connections_of_the_dead(stall_seconds DOUBLE PRECISION) RETURNS BIGINT LANGUAGE sql AS $$
    SELECT count(pg_terminate_backend(a.pid)) FROM replicas r
    JOIN pg_stat_activity a ON a.application_name LIKE 'goclaw ' || r.id || ' %'
    WHERE r.seen_at < clock_timestamp() - make_interval(secs => $1) AND a.datname = current_database()
        AND a.usename = current_user AND a.backend_start < r.seen_at + make_interval(secs => $1)
$$;
CREATE FUNCTION want_session(of_session VARCHAR) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO procrastinate_jobs AS known (queue_name, task_name, lock, queueing_lock, args)
    VALUES ('{QUEUE}', '{TASK}', of_session, of_session, jsonb_build_object('session', of_session))
    ON CONFLICT (queueing_lock) WHERE status = 'todo' DO UPDATE SET priority = known.priority;
    PERFORM pg_notify('{NEWS}_' || md5(current_schema()), of_session);
END $$;
CREATE FUNCTION want_session_if_idle(of_session VARCHAR) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE lock = of_session AND status IN ('todo', 'doing')) THEN
        PERFORM want_session(of_session);
    END IF;
END $$;
CREATE FUNCTION want_sessions_of_the_dead(stall_seconds DOUBLE PRECISION) RETURNS SETOF VARCHAR LANGUAGE plpgsql AS $$
DECLARE
    gone VARCHAR;
BEGIN
    FOR gone IN
        DELETE FROM procrastinate_jobs AS job WHERE job.status = 'doing' AND job.queue_name = '{QUEUE}' AND NOT EXISTS (
            SELECT 1 FROM procrastinate_workers AS worker
            WHERE worker.id = job.worker_id
                AND worker.last_heartbeat > clock_timestamp() - make_interval(secs => stall_seconds)
        ) RETURNING job.lock
    LOOP
        PERFORM want_session(gone);
        RETURN NEXT gone;
    END LOOP;
END $$;
"""  # noqa: S608  # our own words
"""`FOR SHARE`: a process that takes a session over waits for the transaction that the one before has open, and that one
for the new epoch; `FOR KEY SHARE` would hold up neither. Postgres's own `idle_in_transaction_session_timeout` does not
end a transaction that came as a pipeline: the driver's last message behind it stops that clock.

Of a process that counts as dead, the connections are ended that it made before: with one that it makes since, it goes
on, and is not seen yet. Another role of the database may call its connections as it likes: it must be our own role.

A job that waits is changed, though in nothing, by a transaction that brings its session more: no worker takes it before
that transaction has ended (it skips locked rows), and would find nothing then. A job of a dead process is deleted and
deferred anew instead of retried: a retry would break the queueing lock of one that waits already, again and again, and
a process that was only paused would end the job of the one that goes on."""
MIGRATION = "procrastinate_migration"
"""Fact: the name of procrastinate's last migration that the schema has."""
PRE = "_pre_"
"""In the name of a migration that programs of before survive (procrastinate.readthedocs.io, "Migrations")."""
_OTHER_VERSIONS = f"""
SELECT DISTINCT version FROM replicas
WHERE version <> %s AND {IS_SEEN} ORDER BY version
"""  # noqa: S608  # our own words


def _scripts() -> Path:
    found = find_spec("procrastinate")
    if found is None or not found.submodule_search_locations:
        raise StateError("procrastinate is not installed: install GoClaw with its extra `postgres`")
    return Path(found.submodule_search_locations[0]) / "sql"


def migrations() -> Sequence[Path]:
    """Return procrastinate's migrations, oldest first; their names sort so."""
    return sorted((_scripts() / "migrations").glob("*.sql"))


def jobs_schema() -> bytes:
    """Return the script that makes procrastinate's tables in a new schema."""
    return (_scripts() / "schema.sql").read_bytes()


async def make_jobs(connection: Connection) -> str:
    """Make procrastinate's tables in the schema of the connection; return the migration that they are at."""
    await connection.execute(jobs_schema())
    return migrations()[-1].stem


async def migrate_jobs(connection: Connection, schema: str, version: str) -> str:
    """Bring procrastinate's tables from migration `version` towards the installed one; return the one reached.

    A migration that earlier programs do not survive ("post") waits until a gateway starts while no other version runs.

    Raises:
        StateError: they are of a newer procrastinate, or cannot be migrated while the other gateways run.
        psycopg.Error: Postgres refuses.
    """
    newest = migrations()[-1].stem
    if version > newest:
        raise StateError(
            f"the schema {schema} has jobs of a newer procrastinate ({version}; this one knows up to {newest}): "
            "install the version of GoClaw that wrote it"
        )
    wanted = [each for each in migrations() if each.stem > version]
    if wanted and (older := await _older_gateways(connection)):
        now = list(takewhile(lambda each: PRE in each.stem, wanted))
        if any(PRE in each.stem for each in wanted[len(now) :]):
            raise StateError(
                f"the schema {schema} has jobs of a much older procrastinate, which cannot be brought up to date "
                f"beside gateways of another version ({older}): end these first"
            )
        wanted = now
    for migration in wanted:
        await connection.execute(migration.read_bytes())
    return wanted[-1].stem if wanted else version


async def _older_gateways(connection: Connection) -> str:
    """Name the other versions of GoClaw that use the schema now; empty where there are none."""
    found = await (await connection.execute(_OTHER_VERSIONS, (__version__,))).fetchall()
    return ", ".join(str(row[0]) for row in found)
