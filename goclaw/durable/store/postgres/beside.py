"""Access to a schema while a daemon uses it: queries, and a check.

Everything here blocks, and raises `StateError` when Postgres cannot be used.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from goclaw.common.config.values import PostgresPlace
from goclaw.durable.store.database import BoundStatement, Examined, Row
from goclaw.durable.store.postgres.connecting import HOLDERS_OF, PostgresRow, make_rows, off_this_machine, parameters
from goclaw.durable.store.postgres.faults import store_error
from goclaw.durable.store.postgres.replicas import ALL, SEEN_SECONDS, SERVER, use_of
from goclaw.durable.store.postgres.schema import NEWEST, VERSION
from goclaw.durable.store.postgres.sending import bind
from goclaw.durable.store.replicas import StoreUse
from goclaw.errors import StateError

_ABOUT = """
SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync, pg_backend_pid() AS pid,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
  (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS is_encrypted
"""
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r'
"""
FULL_NOTICES = 0.5
"""Share of the notification queue at which the operator is warned; it has 8 GB (postgresql.org, "NOTIFY")."""
MANY_CONNECTIONS = 0.85
"""Share of `max_connections` at which the operator is warned: a gateway uses at most twelve."""
SCHEMA = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'daemon_facts'"
"""Finds a row where the schema has the tables of GoClaw."""
_SHORT_WAITS = "SELECT set_config('lock_timeout', '8s', false)"
_FACT = "SELECT value FROM daemon_facts WHERE name = %s"


@contextmanager
def connect(place: PostgresPlace, *, writes: bool = False) -> Iterator[psycopg.Connection[PostgresRow]]:
    """Connect for reading, at one moment of the database; or with `writes` in autocommit.

    Raises:
        DiskError: Postgres cannot be used, or a query fails.
    """
    options = parameters(place) | {"application_name": "goclaw beside", "autocommit": writes}
    try:
        with psycopg.connect(**options, row_factory=make_rows) as connection:
            if writes:
                connection.execute(_SHORT_WAITS)
            else:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
            connection.execute("SELECT set_config('search_path', %s, false)", (f'"{place.schema}", pg_temp',))
            yield connection
    except psycopg.Error as error:
        raise store_error(error, place.shown, "written" if writes else "read") from error


def read_rows(place: PostgresPlace, statements: Sequence[BoundStatement]) -> list[Sequence[Row]]:
    """Return the rows of each query, all of one moment; none where the schema was never used."""
    with connect(place) as connection:
        if connection.execute(SCHEMA, (place.schema,)).fetchone() is None:
            return [[] for _ in statements]
        return [connection.execute(*bind(statement)).fetchall() for statement in statements]


def exists(place: PostgresPlace) -> bool:
    """Whether the schema has the tables of GoClaw."""
    with connect(place) as connection:
        return connection.execute(SCHEMA, (place.schema,)).fetchone() is not None


def examine(place: PostgresPlace) -> Examined:
    """Look at the server, the role and the schema."""
    with connect(place) as connection:
        (about,) = connection.execute(_ABOUT).fetchall()
        weak = []
        if about["is_superuser"]:
            weak.append(("the role is a superuser with unlimited rights", "create a separate role for GoClaw"))
        if about["fsync"] == "off":
            weak.append(("`fsync` is off: a power cut destroys the whole database", "switch it on"))
        if not about["is_encrypted"] and off_this_machine(place):
            weak.append(("conversations cross the network unencrypted", "`?sslmode=verify-full` in `store`"))
        if connection.info.backend_pid != about["pid"]:
            pooler = "there is a connection pooler in front of Postgres"
            weak.append((pooler, "PgBouncer works in session mode only (`pool_mode=session`)"))
        words = f"Postgres {about['version']}, {place.shown}"
        if connection.execute(SCHEMA, (place.schema,)).fetchone() is None:
            return Examined(f"{words}: will be created at the first start", weak)
        version = int(connection.execute(_FACT, (VERSION,)).fetchall()[0][0])
        if version > NEWEST:
            raise StateError(f"a newer GoClaw wrote {place.shown} (schema {version}): install that version")
        (size,) = connection.execute(_SIZE, (place.schema,)).fetchall()[0]
        holders = [row["application_name"] for row in connection.execute(HOLDERS_OF, (place.schema,)).fetchall()]
        used = f"used by {len(holders)}: {', '.join(holders)}" if holders else "used by no gateway"
        if version == NEWEST:
            [server] = connection.execute(*bind(SERVER())).fetchall()
            use = use_of(connection.execute(*bind(ALL())).fetchall(), server)
            weak += _of_the_use(use)
            gateways = f"; gateways: {', '.join(map(str, use.replicas))}" if use.replicas else ""
            used += f", {use.connections} of {use.max_connections} connections{gateways}"
        return Examined(f"{words}: schema {version}, {size / 1e6:,.1f} MB, {used}", weak)


def _of_the_use(use: StoreUse) -> list[tuple[str, str]]:
    """Return the problems of the gateways together, each with its remedy."""
    weak = []
    if gone := [each.name for each in use.replicas if not each.lives]:
        words = f"disappeared without a shutdown in the last {SEEN_SECONDS // 60} minutes: {', '.join(gone)}"
        weak.append((words, "the others continue their conversations; check the log there"))
    if len(versions := sorted({each.version for each in use.replicas if each.lives})) > 1:
        weak.append(
            (f"gateways of several versions: {', '.join(versions)}", "upgrade all of them to the newest version")
        )
    if use.notices > FULL_NOTICES:
        words = f"Postgres's notification queue is {use.notices:.0%} full; when it is full, transactions fail"
        weak.append((words, "stop the program that listens but stays in a transaction (`pg_stat_activity`)"))
    if use.all_connections > MANY_CONNECTIONS * use.max_connections:
        words = f"{use.all_connections} of {use.max_connections} Postgres connections are in use"
        weak.append((words, "raise `max_connections`: a gateway uses at most twelve"))
    return weak
