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
from goclaw.durable.store.postgres.ownership_schema import OF_NAME, QUEUE
from goclaw.durable.store.replicas import Replica, StoreUse
from goclaw.errors import StateError

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
