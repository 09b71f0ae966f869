"""One schema of Postgres: a writer and some readers.

A group is one transaction, sent in one round trip; its COMMIT is a second one, so that the number of the transaction is
known when the connection is lost in it. By that number it is seen whether the transaction still runs, and by one of our
own, which it stores, whether it was committed: after a crash Postgres reuses its numbers. A transaction that fails
by its own fault fails the group: then each is committed alone.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import psycopg
from psycopg import pq

from goclaw.common.config.policies import ReplicaSettings
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.fencing import AUTHORITY, Fence
from goclaw.durable.store.database import (
    BoundStatement,
    Database,
    Outcome,
    Row,
    StatementResult,
    Transaction,
)
from goclaw.durable.store.postgres.clock import DatabaseClock
from goclaw.durable.store.postgres.connecting import (
    Connection,
    Readers,
    application_name,
    connect,
    lock,
    single,
)
from goclaw.durable.store.postgres.faults import OPENED, OWN_FAULT, fault_of, in_our_words, is_own_fault, store_error
from goclaw.durable.store.postgres.notices import Notices
from goclaw.durable.store.postgres.replicas import ALL, SERVER, join, use_of
from goclaw.durable.store.postgres.schema import REWRITER, fact, learn, prepare
from goclaw.durable.store.postgres.sending import behind, bind, result_of, send
from goclaw.durable.store.postgres.silence import Silence, Unanswered
from goclaw.durable.store.postgres.stored_files import files_metadata
from goclaw.durable.store.postgres.vectors import DELETED, VECTORS_TABLE, PostgresVectors
from goclaw.durable.store.replicas import StoreUse
from goclaw.durable.store.schema import metadata
from goclaw.errors import DiskError, DiskFault, StateError

log = logging.getLogger(__name__)

READERS = 4
"""Connections that read, at most."""
LOOK_SECONDS, LONGEST_LOOK = 0.2, 5.0
"""Seconds between two looks at a commit whose outcome is not known."""
_NAME_REPLICA = "SELECT set_config('goclaw.replica', %s, false)"
_TAKE = "SELECT take_session(%s, %s)"
_END_HOLDERS = "SELECT end_transactions_of_owner(%s)"
TAKES = 3
"""Tries to take a session over: at each one it waits a second for the transaction of the process that has it."""
_TIME = "SELECT extract(epoch from clock_timestamp())::float8"
_NUMBER = """
INSERT INTO commits (replica, number, made_at) VALUES (%s, %s, clock_timestamp())
ON CONFLICT (replica) DO UPDATE SET number = excluded.number, made_at = excluded.made_at
RETURNING pg_current_xact_id()::text
"""
OF_TEXTS = (VECTORS_TABLE, "orders")
"""Tables that exist only on Postgres and contain conversation text for a while."""
_RUNS = "SELECT pg_xact_status(%s::text::xid8) = 'in progress'"
_LAST = "SELECT number FROM commits WHERE replica = %s"


class PostgresDatabase(Database):
    """The open schema. Made by `open_schema`."""

    name = "Postgres"
    kind = "postgres"
    is_shared = True
    kept_elsewhere = (
        "Postgres's write-ahead log, with its archives and standbys, and dumps of the database keep what was said as "
        "long as their operator lets them."
    )

    def __init__(self, place: PostgresPlace, clock: Clock, *, alone: bool = False) -> None:
        super().__init__()
        self._is_exclusive = alone
        """Whether no other process may use the schema meanwhile."""
        self.place = place
        self._clock = clock
        self._writer: Connection | None = None
        self._writing = asyncio.Lock()
        """Held while the writer's connection is used."""
        self.replica = secrets.token_hex(4)
        """The name of this process among those that share the schema; another one at each start."""
        self.application_name = application_name(self.replica)
        """The name under which Postgres shows the connections of this process."""
        self.settings = ReplicaSettings.model_construct()
        """The settings that this process and the others have agreed upon."""
        self._rewriter: object = None
        """The process that had the schema to itself last, when this one opened it."""
        self._silence = Silence()
        self._readers = Readers(
            partial(self._silence.connect, place, self.application_name), self._silence.refuse, READERS
        )
        self.clock = DatabaseClock(clock)
        self.notices = Notices(place, self.application_name)
        """Those of the processes that share the schema; heard while `Ownership.run` runs."""
        self.notices.subscribe(DELETED, lambda _: self.deleted(), lambda: self.deleted())
        self._number = 0
        """Of the last commit that was begun."""
        self._untold: dict[tuple[object, ...], BoundStatement] = {}
        """Notifications that could not be sent after a commit; by statement and values."""
        self.counts: Counter[str] = Counter()
        """Groups that were committed, connections that were lost, commits that had to be looked up."""

    async def open(self) -> None:
        """Bring the schema up to date, or make it.

        Raises:
            StateError: others use it who may not, it is of a newer GoClaw, or Postgres cannot be used.
        """
        try:
            self._writer = await self._claim()
            await prepare(self._writer, self.place.schema, clock=self._clock)
            if self._is_exclusive:
                await learn(self._writer, REWRITER, self.replica)
            self._rewriter = await fact(self._writer, REWRITER)
        except psycopg.Error as error:
            raise StateError(str(store_error(error, self.place.shown, OPENED))) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._readers.close()
        await self._drop()

    def clock_of(self, clock: Clock) -> Clock:
        return self.clock

    @property
    def vectors(self) -> PostgresVectors:
        return PostgresVectors(self)

    async def join(self, settings: ReplicaSettings) -> None:
        try:
            async with await connect(self.place, self.application_name) as connection:
                await join(connection, self.replica, self.application_name, settings, self._clock)
        except (psycopg.Error, OSError) as error:
            raise StateError(str(store_error(error, self.place.shown, OPENED))) from error
        self.settings = settings

    async def use(self) -> StoreUse:
        [server] = await self.read(SERVER())
        return use_of(await self.read(ALL()), server, self.replica)

    def write(self, *statements: BoundStatement, durable: bool = False) -> Awaitable[list[StatementResult]]:
        done: asyncio.Future[list[StatementResult]] = asyncio.get_running_loop().create_future()
        authority = AUTHORITY.get()
        self._waiting.put_nowait(Transaction(statements, durable, done, authority.fence or authority.alongside))
        return done

    async def acquire(self, session: str) -> Fence:
        """Take a session over; what another process writes for it from here on is refused there.

        When this returns, all that one has written is committed or never will be.

        Raises:
            DiskError: Postgres cannot be reached, or a transaction of the other process is not ended yet.
        """
        try:
            async with self._readers.one() as (connection, _):
                with self._silence.watch(connection):
                    return Fence(session, await self._acquire(connection, session))
        except (psycopg.Error, OSError) as error:
            raise store_error(error, self.place.shown, "written") from error

    async def _acquire(self, connection: Connection, session: str) -> int:
        """Take a session over and return the new epoch.

        A process that is paused between its statements and its COMMIT would keep the session: the connection on which
        it stands still is ended. It makes a new one when it goes on.
        """
        for _ in range(TAKES - 1):
            try:
                return int(await single(connection, _TAKE, session, self.replica))
            except psycopg.errors.LockNotAvailable:
                await single(connection, _END_HOLDERS, session)
        return int(await single(connection, _TAKE, session, self.replica))

    async def read(self, statement: BoundStatement) -> Sequence[Row]:
        text, values = bind(statement)
        while True:
            known = False
            try:
                async with self._readers.one() as (reader, known):
                    with self._silence.watch(reader):
                        return await (await reader.execute(text, values)).fetchall()
            except (psycopg.Error, OSError) as error:
                if is_own_fault(error):
                    raise
                # After a restart of Postgres each connection that was made before is found dead once.
                is_lost = not isinstance(error, psycopg.Error) or fault_of(error) is DiskFault.UNREACHABLE
                if not (known and is_lost) or isinstance(error, Unanswered):
                    raise store_error(error, self.place.shown, "read") from error

    @asynccontextmanager
    async def pause_writes(self) -> AsyncIterator[Connection]:
        """Lend the writer's connection while no transaction of this process begins.

        Raises:
            DiskError: Postgres cannot be reached, or another process has, or has had, the schema for itself.
        """
        async with self._writing:
            yield await self._connect()

    async def rewrite(self) -> bool:
        """Rewrite the tables: nothing that was deleted is in their files any more.

        What Postgres wrote to its log before, and copies of that, still have it. Writes wait meanwhile.
        """
        try:
            async with self.pause_writes() as writer:
                known = (*metadata.sorted_tables, *files_metadata.sorted_tables)
                for name in (*(table.name for table in known), *OF_TEXTS):
                    await writer.execute(f"VACUUM (FULL) {name}".encode())
        except (psycopg.Error, DiskError) as error:
            log.warning("the database could not be written anew: %s", error)
            return False
        return True

    async def commit_group(self, group: Sequence[Transaction]) -> Sequence[Outcome]:
        if not self._untold and not any(transaction.statements or transaction.fence for transaction in group):
            return [[] for _ in group]
        async with self._writing:
            try:
                return await self._twice_at_most(group)
            except OWN_FAULT as error:
                if not is_own_fault(error):
                    raise self._record_loss(error) from error
                if len(group) == 1:
                    return [in_our_words(error)]
            except (psycopg.Error, OSError) as error:
                # Two groups that bring several sessions work may wait for each other; alone, none does.
                if len(group) == 1 or not isinstance(error, psycopg.errors.DeadlockDetected):
                    raise self._record_loss(error) from error
            finally:
                await self._clean()
            return [await self._alone(transaction) for transaction in group]

    async def _alone(self, transaction: Transaction) -> Outcome:
        """Commit one transaction of a group after one of them has failed; return its results or its error."""
        try:
            return (await self._twice_at_most([transaction]))[0]
        except DiskError as error:
            return error
        except (psycopg.Error, *OWN_FAULT, OSError) as error:
            return in_our_words(error) if is_own_fault(error) else self._record_loss(error)
        finally:
            await self._clean()

    async def _twice_at_most(self, group: Sequence[Transaction]) -> list[list[StatementResult]]:
        """Run and commit a group, once more where its connection was lost: one that was idle may have been closed.

        Nothing was committed then. Raises as `_at_once` does.
        """
        try:
            return await self._at_once(group)
        except psycopg.Error as error:
            if is_own_fault(error) or fault_of(error) is not DiskFault.UNREACHABLE or isinstance(error, Unanswered):
                raise
            self.counts["connections lost"] += 1
        await self._drop()
        return await self._at_once(group)

    async def _at_once(self, group: Sequence[Transaction]) -> list[list[StatementResult]]:
        """Run and commit the transactions of a group as one.

        Raises:
            DiskError: Postgres cannot be reached, or another process has, or has had, the schema for itself.
            psycopg.Error: nothing of the group is kept.
        """
        self._silence.refuse()
        writer = await self._connect()
        with self._silence.watch(writer):
            async with writer.pipeline():
                await writer.execute("BEGIN")
                cursors = [await send(writer, each) for each in group]
                self._number += 1
                number = await writer.execute(_NUMBER, (self.replica, self._number))
            results = [[await result_of(cursor) for cursor in each] for each in cursors]
            [(own,)] = await number.fetchall()
            try:
                await writer.execute("COMMIT")
            except psycopg.OperationalError as error:
                if writer.pgconn.status == pq.ConnStatus.OK or not await self._was_committed(own, error):
                    raise
        self.counts["commits"] += 1
        await self._send_notices(group)
        return results

    async def _send_notices(self, group: Sequence[Transaction]) -> None:
        """Send the notices due after a commit; unsent ones go after the next one, which is made immediately.

        A NOTIFY in the transaction itself would hold Postgres's one lock of all commits that notify while its disk
        works: the commits of all processes would wait for each other.
        """
        untold = self._untold | {(each.statement, *each.values.values()): each for each in behind(group)}
        self._untold = {}
        if not untold or self._writer is None:
            return
        try:
            with self._silence.watch(self._writer):
                async with self._writer.pipeline():
                    for each in untold.values():
                        await self._writer.execute(*bind(each))
        except (psycopg.Error, OSError) as error:
            log.warning("other processes are told a moment later: %s", self._record_loss(error))
            self._untold = untold
            await self._drop()
            if not isinstance(error, psycopg.Error) or fault_of(error) is DiskFault.UNREACHABLE:
                ignored: asyncio.Future[list[StatementResult]] = asyncio.get_running_loop().create_future()
                ignored.cancel()
                self._waiting.put_nowait(Transaction((), durable=False, done=ignored))

    async def _was_committed(self, number: str, error: psycopg.Error) -> bool:
        """Look up the outcome of a commit that lost its connection; other writes are refused meanwhile.

        `number`: the one that Postgres gave the transaction.
        """
        self.counts["commits looked up"] += 1
        trouble, backoff = self._record_loss(error), Backoff(LOOK_SECONDS, LONGEST_LOOK)
        await self._drop()
        while True:
            try:
                async with await self._silence.connect(self.place, self.application_name) as asking:
                    if not await single(asking, _RUNS, number):
                        return bool(await single(asking, _LAST, self.replica) == self._number)
            except psycopg.errors.InvalidParameterValue:
                return False  # a transaction of the future: this is an older copy of the database
            except (psycopg.Error, OSError) as again:
                trouble = store_error(again, self.place.shown, "written")
            await self._notice(trouble)
            waiting = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
            self._queue_outcomes(waiting, [DiskError(str(trouble), trouble.fault) for _ in waiting])
            await self._clock.sleep(backoff.next())

    async def _claim(self) -> Connection:
        """Return a new connection that holds the lock of the schema.

        Raises:
            StateError: others hold it.
            psycopg.Error: Postgres cannot be reached or refuses.
        """
        writer = await self._silence.connect(self.place, self.application_name)
        try:
            await lock(writer, self.place, self._clock, alone=self._is_exclusive)
            await single(writer, _NAME_REPLICA, self.replica)
            asked = self._clock.awake_or_not()
            self.clock.update(await single(writer, _TIME), asked)
        except BaseException:
            await writer.close()
            raise
        return writer

    async def _connect(self) -> Connection:
        """Return the writer's connection, made again after it was lost.

        Raises:
            DiskError: Postgres cannot be reached, or another process has, or has had, the schema for itself.
        """
        if self._writer is not None and not self._writer.closed:
            return self._writer
        try:
            writer = await self._claim()
        except StateError as error:
            raise DiskError(str(error), DiskFault.REFUSED) from error
        except (psycopg.Error, OSError) as error:
            raise store_error(error, self.place.shown, "written") from error
        try:
            rewriter = await fact(writer, REWRITER)
        except psycopg.Error as error:
            await writer.close()
            raise store_error(error, self.place.shown, "written") from error
        if rewriter != self._rewriter:
            await writer.close()
            again = f"{daemon_command('restart')} continues with the present data"
            raise DiskError(
                f"another GoClaw had exclusive use of {self.place.shown} in the meantime: {again}", DiskFault.GONE
            )
        self._writer = writer
        return writer

    def _record_loss(self, error: BaseException) -> DiskError:
        """Return the words for an error that is not a transaction's own."""
        self.counts["connections lost"] += 1
        known = error if isinstance(error, psycopg.Error | OSError) else psycopg.OperationalError(str(error))
        return store_error(known, self.place.shown, "written")

    async def _clean(self) -> None:
        """Bring the writer back to where a transaction can begin; let it go where that is not possible.

        Of a pipeline that fails, psycopg counts as prepared what Postgres never got to, until it sees the outcome of a
        ROLLBACK. It looks at that of a text which it has not had before.
        """
        writer = self._writer
        if writer is None or writer.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            return
        try:
            with self._silence.watch(writer):
                self.counts["rollbacks"] += 1
                await writer.execute(f"ROLLBACK /* {self.counts['rollbacks']} */".encode())
        except psycopg.Error:
            await self._drop()

    async def _drop(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()


def require_postgres(database: Database) -> PostgresDatabase:
    """Return an open store on Postgres as what it is; raises TypeError where it is another one."""
    if not isinstance(database, PostgresDatabase):
        raise TypeError(f"{database.name} is not shared by Postgres")
    return database


@asynccontextmanager
async def open_schema(place: PostgresPlace, clock: Clock, alone: bool = False) -> AsyncIterator[PostgresDatabase]:
    """Open (and bring up to date, or make) the schema at `place`; `alone`: refused while others use it.

    Raises:
        StateError: Postgres cannot be used, others use the schema who may not, or it is of a newer GoClaw.
    """
    database = PostgresDatabase(place, clock, alone=alone)
    try:
        await database.open()
        async with database.writing(clock):
            yield database
    finally:
        await database.close()
