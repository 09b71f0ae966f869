"""The gateways that share a schema: what each says of itself, and what can be seen of all of them.

Also which of them a conversation is pinned to, where each has a workspace of its own: its jobs go into a queue that
only the gateway of that name takes from.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from goclaw import __version__
from goclaw.common.config.policies import ReplicaSettings
from goclaw.common.core.clock import Clock
from goclaw.durable.store.database import Row, Statement
from goclaw.durable.store.postgres.connecting import LOCK_SECONDS, LOOK_SECONDS, Connection, machine
from goclaw.durable.store.postgres.ownership_schema import NEWS, QUEUE, TASK
from goclaw.durable.store.replicas import Replica, StoreUse
from goclaw.errors import StateError

OF_NAME = f"{QUEUE}:"
"""Beginning of the name of the queue of a gateway's pinned sessions; its name follows."""
REPLICAS = f"""
ALTER TABLE replicas ADD COLUMN name VARCHAR COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN stall_seconds DOUBLE PRECISION NOT NULL DEFAULT 4,
    ADD COLUMN workspaces VARCHAR COLLATE "C" NOT NULL DEFAULT 'shared';
ALTER TABLE session_owners ADD COLUMN pinned VARCHAR COLLATE "C", ADD COLUMN told_at TIMESTAMPTZ;
CREATE FUNCTION queue_of(of_session VARCHAR) RETURNS VARCHAR LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT '{OF_NAME}' || pinned FROM session_owners WHERE session = of_session), '{QUEUE}')
$$;
CREATE OR REPLACE FUNCTION want_session(of_session VARCHAR) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO procrastinate_jobs AS known (queue_name, task_name, lock, queueing_lock, args) VALUES (
        queue_of(of_session), '{TASK}', of_session, of_session, jsonb_build_object('session', of_session)
    ) ON CONFLICT (queueing_lock) WHERE status = 'todo' DO UPDATE SET queue_name = excluded.queue_name;
    PERFORM pg_notify('{NEWS}_' || md5(current_schema()), of_session);
END $$;
CREATE OR REPLACE FUNCTION want_sessions_of_the_dead(stall_seconds DOUBLE PRECISION)
    RETURNS SETOF VARCHAR LANGUAGE plpgsql AS $$
DECLARE
    gone VARCHAR;
BEGIN
    FOR gone IN
        DELETE FROM procrastinate_jobs AS job
        WHERE job.status = 'doing' AND (job.queue_name = '{QUEUE}' OR job.queue_name LIKE '{OF_NAME}%') AND NOT EXISTS (
            SELECT 1 FROM procrastinate_workers AS worker
            WHERE worker.id = job.worker_id
                AND worker.last_heartbeat > clock_timestamp() - make_interval(secs => stall_seconds)
        ) RETURNING job.lock
    LOOP
        PERFORM want_session(gone);
        RETURN NEXT gone;
    END LOOP;
END $$;
CREATE FUNCTION pin_session(of_session VARCHAR, to_name VARCHAR) RETURNS VARCHAR LANGUAGE sql AS $$
    INSERT INTO session_owners AS known (session, epoch, replica, taken_at, pinned)
    VALUES (of_session, nextval('session_epochs'), '', clock_timestamp(), to_name)
    ON CONFLICT (session) DO UPDATE SET pinned = coalesce(known.pinned, excluded.pinned),
        told_at = CASE WHEN coalesce(known.pinned, to_name) = to_name THEN NULL ELSE known.told_at END
    RETURNING known.pinned
$$;
CREATE FUNCTION tell_of_the_absent() RETURNS TABLE (waiting VARCHAR, absent VARCHAR) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY UPDATE session_owners AS o SET told_at = clock_timestamp() FROM procrastinate_jobs j
    WHERE j.lock = o.session AND j.status = 'todo' AND o.pinned IS NOT NULL AND o.told_at IS NULL AND NOT EXISTS (
        SELECT 1 FROM replicas r WHERE r.name = o.pinned
            AND r.seen_at > clock_timestamp() - make_interval(secs => r.stall_seconds)
    ) RETURNING o.session, o.pinned;
END $$;
"""  # noqa: S608  # our own words
"""A change of `want_session` that a job waits for: its queue is the one of now, as its session may be pinned since."""
WANTED_QUIETLY = f"""
CREATE OR REPLACE FUNCTION want_session(of_session VARCHAR) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO procrastinate_jobs AS known (queue_name, task_name, lock, queueing_lock, args) VALUES (
        queue_of(of_session), '{TASK}', of_session, of_session, jsonb_build_object('session', of_session)
    ) ON CONFLICT (queueing_lock) WHERE status = 'todo' DO UPDATE SET queue_name = excluded.queue_name;
END $$;
"""  # noqa: S608  # our own words
"""The session's owner is told behind the commit (`ownership`); where there is none, procrastinate tells of the job."""
BEATS = f"""
CREATE OR REPLACE FUNCTION want_sessions_of_the_dead(stall_seconds DOUBLE PRECISION)
    RETURNS SETOF VARCHAR LANGUAGE plpgsql AS $$
DECLARE
    gone VARCHAR;
BEGIN
    FOR gone IN
        DELETE FROM procrastinate_jobs WHERE id IN (
            SELECT job.id FROM procrastinate_jobs AS job
            WHERE job.status = 'doing' AND (job.queue_name = '{QUEUE}' OR job.queue_name LIKE '{OF_NAME}%')
                AND NOT EXISTS (
                    SELECT 1 FROM procrastinate_workers AS worker
                    WHERE worker.id = job.worker_id
                        AND worker.last_heartbeat > clock_timestamp() - make_interval(secs => stall_seconds)
                )
            FOR UPDATE OF job SKIP LOCKED
        ) RETURNING lock
    LOOP
        PERFORM want_session(gone);
        RETURN NEXT gone;
    END LOOP;
END $$;
CREATE FUNCTION look_for_the_dead(stall_seconds DOUBLE PRECISION)
    RETURNS TABLE (gone VARCHAR[], next_death DOUBLE PRECISION) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM end_connections_of_the_dead(stall_seconds);
    gone := ARRAY(SELECT want_sessions_of_the_dead(stall_seconds));
    next_death := (
        SELECT coalesce(min(extract(epoch FROM worker.last_heartbeat - clock_timestamp())), 0) + stall_seconds
        FROM procrastinate_workers AS worker
        WHERE worker.last_heartbeat > clock_timestamp() - make_interval(secs => stall_seconds)
    );
    RETURN NEXT;
END $$;
CREATE FUNCTION tell_of_free_lock() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(
        'procrastinate_queue_v1#' || OLD.queue_name, json_build_object('type', 'job_inserted', 'job_id', OLD.id)::text
    );
    RETURN NULL;
END $$;
CREATE TRIGGER tell_of_free_lock AFTER DELETE ON procrastinate_jobs
    FOR EACH ROW WHEN (OLD.status = 'doing') EXECUTE FUNCTION tell_of_free_lock();
"""  # noqa: S608  # our own words
"""A look for the dead first ends their connections, and skips jobs that are locked: one that was paused within a
transaction would hold up those that look, and with them their being seen. It says in how many seconds the next
heartbeat becomes too old. The notice of a lock that has become free is one of procrastinate's own kind
(`procrastinate_notify_queue_job_inserted_v1`): a job may wait for it, which was told of before."""
COMMITS = """
CREATE TABLE commits (
    replica VARCHAR COLLATE "C" PRIMARY KEY, number BIGINT NOT NULL, made_at TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);
"""
"""The last commit of each process, by a number that it counts itself (`database`). Half of a page is left free, so that
a row's next version stands beside the last one and no index is touched (postgresql.org, "Heap-Only Tuples")."""
PIN = Statement("SELECT pin_session(:session, :name)")
TELL_OF_THE_ABSENT = Statement("SELECT waiting, absent FROM tell_of_the_absent()")
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('goclaw:' || current_schema(), 3))"
_OTHERS = """
SELECT r.name, r.address, r.stall_seconds, r.workspaces FROM replicas r
WHERE r.id <> %s AND EXISTS (
    SELECT 1 FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.application_name LIKE 'goclaw ' || r.id || ' %%'
) ORDER BY r.began_at
"""
"""By their connections: a gateway that was killed is not among them, though it was seen a moment ago."""
JOIN = """
INSERT INTO replicas (id, address, version, name, stall_seconds, workspaces, began_at, seen_at)
VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp())
"""
_UNPIN = f"""
WITH freed AS (UPDATE session_owners SET pinned = NULL, told_at = NULL WHERE pinned IS NOT NULL)
UPDATE procrastinate_jobs SET queue_name = '{QUEUE}' WHERE queue_name LIKE '{OF_NAME}%'
"""  # noqa: S608  # our own words
SEEN_SECONDS = 600
"""Seconds for which a gateway is shown that was killed."""
ALL = Statement(
    f"""
SELECT r.id, r.name, r.address, r.version, r.workspaces, r.stall_seconds,
    extract(epoch FROM clock_timestamp() - r.began_at)::float8 AS age,
    extract(epoch FROM clock_timestamp() - r.seen_at)::float8 AS silent,
    (SELECT count(*) FROM session_owners o JOIN procrastinate_jobs j ON j.lock = o.session AND j.status = 'doing'
        WHERE o.replica = r.id) AS sessions
FROM replicas r WHERE r.seen_at > clock_timestamp() - make_interval(secs => {SEEN_SECONDS}) AND NOT EXISTS (
    SELECT 1 FROM replicas again WHERE again.name = r.name AND again.name <> '' AND again.began_at > r.seen_at
        AND r.seen_at < clock_timestamp() - make_interval(secs => r.stall_seconds)
) ORDER BY r.began_at, r.id
"""  # noqa: S608  # our own words
)
SERVER = Statement(
    """
SELECT pg_notification_queue_usage() AS notices, current_setting('max_connections')::int AS most,
    (SELECT coalesce(sum(numbackends), 0)::int FROM pg_stat_database) AS connections,
    (SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'goclaw %') AS ours
"""
)


async def join(connection: Connection, replica: str, address: str, settings: ReplicaSettings, clock: Clock) -> None:
    """Be one of the gateways of the schema.

    Raises:
        StateError: another one is set otherwise, or has the same name where that must be its alone.
        psycopg.Error: Postgres cannot be reached or refuses.
    """
    deadline = clock.monotonic() + LOCK_SECONDS
    while True:
        async with connection.transaction():
            await connection.execute(_LOCK)
            others = await (await connection.execute(_OTHERS, (replica,))).fetchall()
            problem = next(_contradictions(settings, others), None)
            if problem is None:
                await connection.execute(JOIN, row_of(replica, address, settings))
                if settings.workspaces == "shared":
                    await connection.execute(_UNPIN.encode())
                return
        if clock.monotonic() >= deadline:
            raise StateError(problem)
        await clock.sleep(LOOK_SECONDS)


def row_of(replica: str, address: str, settings: ReplicaSettings) -> tuple[object, ...]:
    """Return the values of `JOIN`."""
    name = settings.name or machine()
    return replica, address, __version__, name, settings.stall_seconds, settings.workspaces


def _contradictions(settings: ReplicaSettings, others: Sequence[Row]) -> Iterator[str]:
    for other in others:
        who = f"the gateway {other['name']} ({other['address']})"
        for key in ("stall_seconds", "workspaces"):
            if other[key] != getattr(settings, key):
                yield (
                    f"replica.{key} is {_format(getattr(settings, key))} here but {_format(other[key])} at {who}: all "
                    "gateways of one store need the same value; stop them all to change it"
                )
        if settings.workspaces == "own" and other["name"] == settings.name:
            yield (
                f"replica.name: {who} already has this name, and conversations belong to a name: choose another name "
                "here"
            )


def _format(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def use_of(replicas: Sequence[Row], server: Row, own: str = "") -> StoreUse:
    """Combine the results of the queries `ALL` and `SERVER`; `own`: this process, if it is one of them."""
    names = Counter(str(row["name"]) for row in replicas)
    seen = [
        Replica(
            name=_name(row) if names[row["name"]] == 1 else f"{_name(row)} ({_pid(row)})",
            version=str(row["version"]),
            workspaces=str(row["workspaces"]),
            age=float(row["age"]),
            silent=max(0.0, float(row["silent"])),
            lives=float(row["silent"]) <= float(row["stall_seconds"]),
            sessions=int(row["sessions"]),
            is_own=row["id"] == own,
            id=str(row["id"]),
        )
        for row in replicas
    ]
    return StoreUse(
        seen, float(server["notices"]), int(server["ours"]), int(server["connections"]), int(server["most"])
    )


def _name(row: Row) -> str:
    return str(row["name"]) or str(row["address"])


def _pid(row: Row) -> str:
    found = re.search(r"pid \d+", str(row["address"]))
    return found[0] if found else str(row["id"])


def queues(settings: ReplicaSettings) -> list[str]:
    """Return the queues from which a gateway takes sessions."""
    return [QUEUE, f"{OF_NAME}{settings.name}"] if settings.workspaces == "own" else [QUEUE]
