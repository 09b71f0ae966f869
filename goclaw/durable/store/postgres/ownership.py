"""Leases of sessions on Postgres: procrastinate's jobs, one for each session that is wanted.

`lock` and `queueing_lock` of a job are the session: one process works on it, and at most one job waits. A process that
is dead sends no heartbeat: after `STALL_SECONDS` the others take its sessions. One that was only paused finds its epoch
passed (`common.core.fencing`).
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector
from psycopg_pool import AsyncConnectionPool

from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.fencing import Fence, under_fence
from goclaw.common.core.supervise import background, cancellable, finish_despite_cancel, run_with_restarts
from goclaw.durable.store.database import BoundStatement, Database, Statement
from goclaw.durable.store.ownership import OF_CHAT, OF_WORK_BESIDE, Lease, LeasePart, Orders, Work
from goclaw.durable.store.postgres.channel_processes import PostgresProcesses
from goclaw.durable.store.postgres.connecting import SEARCH_PATH, connect, parameters, single
from goclaw.durable.store.postgres.database import PostgresDatabase, require_postgres
from goclaw.durable.store.postgres.duties import Duties
from goclaw.durable.store.postgres.exchange import PostgresExchange
from goclaw.durable.store.postgres.faults import store_error
from goclaw.durable.store.postgres.jobs import POLL_SECONDS, RECONNECT_SECONDS, Jobs
from goclaw.durable.store.postgres.orders import GIVEN, PostgresOrders
from goclaw.durable.store.postgres.ownership_schema import NEWS, QUEUE, TASK
from goclaw.durable.store.postgres.replicas import JOIN, PIN, TELL_OF_THE_ABSENT, queues, row_of
from goclaw.errors import OwnershipLost, StateError

log = logging.getLogger(__name__)

STALL_SECONDS = 4.0
"""Seconds without a heartbeat after which a process counts as dead."""
HEARTBEATS = 4
"""Heartbeats in that time: a single late one raises no alarm."""
MAX_SESSIONS = 1_000
"""Maximum sessions that one process works on at the same time, including those it only waits for."""
END_SECONDS = 15.0
"""Seconds for the work on all sessions to end when the process does; then it is cut."""
SURE = 0.75
"""The part of the time after which a process counts as dead for which it is sure to live: what it begins to send by the
end of that arrives before another process has its sessions."""
PAUSED_SECONDS = 1.0
"""Seconds since a fence was asked after which it is asked again: the process was paused meanwhile."""
EXPIRED_SECONDS = 0.01
"""Seconds behind the moment when a heartbeat becomes too old at which it is looked at: it is surely too old then."""
UNFORESEEN_SECONDS = 1.0
"""Seconds before a session is acquired again after its work failed unexpectedly."""
CONNECTIONS = 3
"""Connections of procrastinate, besides its listening connection."""
# What a job says of itself is the engine's to log; of an outage the database's writer tells.
logging.getLogger("procrastinate").setLevel(logging.ERROR)

_WANT = Statement(
    "SELECT want_session(:session)",
    behind=Statement(f"SELECT pg_notify('{NEWS}_' || md5(current_schema()), :session)"),
)
_WANT_IF_IDLE = Statement("SELECT want_session_if_idle(:session)")
_WITHDRAW = Statement("DELETE FROM procrastinate_jobs WHERE queueing_lock = :session AND status = 'todo'")
_IS_OWNED = Statement("SELECT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE lock = :session AND status = 'doing')")
_EPOCHS = Statement(
    "SELECT session, epoch FROM session_owners WHERE session = ANY(CAST(:sessions AS text[])) ORDER BY session"
)
_FORGET_OWNER = Statement(
    "DELETE FROM session_owners WHERE session = :session AND epoch = :epoch "
    "AND NOT EXISTS (SELECT 1 FROM sessions WHERE key = :session)"
)
"""Of a conversation that was forgotten, or of a chat's deliveries, nothing says who worked on it last."""
_SEE = f"""
{JOIN} ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
RETURNING extract(epoch from clock_timestamp())::float8
"""
_LOOK = "SELECT gone, next_death FROM look_for_the_dead(%s)"
_BESIDE = Statement(
    "INSERT INTO session_owners AS known (session, epoch, replica, taken_at) "
    "VALUES (:session, nextval('session_epochs'), :replica, clock_timestamp()) "
    "ON CONFLICT (session) DO UPDATE SET replica = excluded.replica RETURNING epoch"
)
_BE_GONE = "DELETE FROM replicas WHERE id = %s"
_FORGET = (
    "DELETE FROM replicas WHERE seen_at < clock_timestamp() - interval '1 day'",
    "DELETE FROM commits WHERE made_at < clock_timestamp() - interval '1 day'",
)


class PostgresOwnership:
    """Implements `store.ownership.LeaseStore`."""

    sends_all = False

    def __init__(self, database: PostgresDatabase, clock: Clock, stall_seconds: float = STALL_SECONDS) -> None:
        self._database = database
        self._clock = clock
        self._stall = stall_seconds
        self.replica = database.replica
        self.workspaces = database.settings.workspaces
        self.orders: Orders = PostgresOrders(database, database.notices, clock)
        self._leases: dict[str, Lease] = {}
        self._takes = True
        self._seen_at = -math.inf
        """When the last heartbeat was sent of those that are known to have arrived (`Clock.awake_or_not`)."""
        self._duties = Duties(database.place, database.application_name, clock, stall_seconds)

    def request(self, sessions: Iterable[str]) -> list[BoundStatement]:
        return [_WANT(session=session) for session in sessions]

    def announce(self, topic: str, words: str) -> list[BoundStatement]:
        return [self._database.notices.notice_for(topic, words)]

    def hear(self, topic: str, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        self._database.notices.subscribe(topic, heard, missed)

    def wanted(self, session: str) -> BoundStatement:
        return _WANT(session=session)

    def wanted_if_idle(self, session: str) -> BoundStatement:
        return _WANT_IF_IDLE(session=session)

    async def is_owned(self, session: str) -> bool:
        return bool((await self._database.read(_IS_OWNED(session=session)))[0][0])

    def withdrawn(self, session: str) -> BoundStatement:
        return _WITHDRAW(session=session)

    async def run(self, work: Work) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._be_gone)
            self._database.notices.subscribe(NEWS, self._notify, self._notify_all)
            self._database.notices.subscribe(GIVEN, self._notify_of_order, self._notify_all)
            parts = {"notices": self._database.notices.run, "sessions of dead processes": self._detect_dead}
            for name, part in parts.items():
                await stack.enter_async_context(background(run_with_restarts(name, part, self._clock), name))
            await run_with_restarts("work on sessions", partial(self._acquire_jobs, work), self._clock)

    def take_no_more(self) -> None:
        self._takes = False

    def fence_of(self, session: str) -> Fence | None:
        lease = self._leases.get(session)
        return lease.fence if lease and not lease.is_lost else None

    def is_sure_of(self, session: str, epoch: int | None = None) -> bool:
        lease = self._leases.get(session)
        if lease is None or lease.is_lost or epoch not in (None, lease.fence.epoch):
            return False
        return self._clock.awake_or_not() - self._seen_at < self._stall * SURE

    async def check(self, fence: Fence) -> None:
        asked = -math.inf  # the process may be paused in each wait
        while not self.is_sure_of(fence.session, fence.epoch):
            if self._clock.awake_or_not() - asked < PAUSED_SECONDS:
                return
            asked = self._clock.awake_or_not()
            with under_fence(fence):
                asking = self._database.write()
            await asking

    async def _was_seen(self, sent_at: float) -> None:
        """Note that the others see a heartbeat; after a pause, first look for sessions they took over meanwhile."""
        leases = dict(self._leases)
        if leases and sent_at - self._seen_at >= self._stall:
            try:
                async with asyncio.timeout(self._stall / HEARTBEATS):  # then the next heartbeat is due
                    rows = await self._database.read(_EPOCHS(sessions=list(leases)))
            except (StateError, TimeoutError) as error:
                log.debug("it cannot be seen what was taken over: %s", error)
                return
            epochs = {row["session"]: row["epoch"] for row in rows}
            for lease in leases.values():
                if epochs.get(lease.session) != lease.fence.epoch:
                    lease.is_lost = True
                    lease.news.set()
        self._seen_at = sent_at

    async def _be_gone(self) -> None:
        """Say that this process ends: nothing it began is alive."""
        try:
            database = self._database
            async with await connect(database.place, database.application_name) as connection:
                await connection.execute(_BE_GONE, (self._database.replica,))
        except (psycopg.Error, OSError) as error:
            log.debug("the end of this process cannot be noted: %s", error)

    async def lead(self, duty: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._duties.lead(duty, run)

    async def _acquire_jobs(self, work: Work) -> None:
        """Acquire jobs until cancelled, then wait for those that run.

        Raises:
            StateError: it has ended before.
        """

        async def run_job(session: str) -> None:
            await self._own(session, work)

        app = self._app()
        app.task(name=TASK, queue=QUEUE)(run_job)
        async with _open_pool(app):
            await app.run_worker_async(
                queues=queues(self._database.settings),
                name=self._database.replica,
                concurrency=MAX_SESSIONS,
                fetch_job_polling_interval=POLL_SECONDS,
                shutdown_graceful_timeout=END_SECONDS,
                delete_jobs="always",
                install_signal_handlers=False,
                update_heartbeat_interval=self._stall / HEARTBEATS,
                stalled_worker_timeout=self._stall,
            )
        raise StateError("procrastinate's worker has ended by itself")

    def _app(self) -> App:
        place = self._database.place

        async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
            await connection.execute(SEARCH_PATH, (f'"{place.schema}", pg_temp',))
            await connection.commit()

        def options() -> dict[str, Any]:
            return parameters(place) | {"application_name": self._database.application_name}

        connector = PsycopgConnector(
            # Without the check of each connection before each use: what a lost one fails, `Jobs` tries again.
            pool_factory=lambda **given: AsyncConnectionPool(**given | {"check": None}),
            kwargs=options,
            configure=configure,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=RECONNECT_SECONDS,
            reconnect_timeout=RECONNECT_SECONDS,
        )
        app = App(connector=connector)
        app.job_manager = Jobs(connector, self._clock, lambda: self._takes, self._was_seen)
        return app

    async def _own(self, session: str, work: Work) -> None:
        """Work on a session that a job of ours has locked."""
        is_done = False
        try:
            if before := self._leases.get(session):
                # We counted as dead, and have taken it from ourselves.
                before.is_lost = True
                before.news.set()
                await before.ended.wait()
            is_done = await self._work(session, work)
        except StateError as error:
            log.warning("a session waits for another try: %s", error, extra={"session": session})
            await self._clock.sleep(POLL_SECONDS)
        except Exception:
            await self._clock.sleep(UNFORESEEN_SECONDS)
            raise
        finally:
            if not is_done:
                await self._enqueue_again(session)

    async def _work(self, session: str, work: Work) -> bool:
        # A look that was under way may have taken it after this process was told to take no more.
        if not self._takes or await self._is_pinned_elsewhere(session):
            return False
        lease = self._leases[session] = Lease(await self._database.acquire(session))
        try:
            with under_fence(lease.fence):
                is_done = await work(lease)
            if is_done:
                await self._database.write(_FORGET_OWNER(session=session, epoch=lease.fence.epoch))
            return is_done
        except OwnershipLost as lost:
            log.info("%s", lost, extra={"session": session})
            return True  # where it goes on
        finally:
            del self._leases[session]
            lease.ended.set()

    async def _is_pinned_elsewhere(self, session: str) -> bool:
        """Whether another gateway has the files of a session; one that none has had stays here from now on."""
        settings = self._database.settings
        if settings.workspaces == "shared" or session.startswith(OF_CHAT):
            return False
        [pinned] = await self._database.write(PIN(session=session, name=settings.name))
        return bool(pinned.rows[0][0] != settings.name)

    async def beside(self, session: str) -> Fence:
        name = f"{OF_WORK_BESIDE}{session}"
        [known] = await self._database.write(_BESIDE(session=name, replica=self._database.replica))
        return Fence(name, int(known.rows[0][0]))

    async def end_beside(self, session: str) -> None:
        taken = await self._database.acquire(f"{OF_WORK_BESIDE}{session}")
        await self._database.write(_FORGET_OWNER(session=taken.session, epoch=taken.epoch))

    async def left_waiting(self) -> list[tuple[str, str]]:
        [waiting] = await self._database.write(TELL_OF_THE_ABSENT())
        return [(session, name) for session, name in waiting.rows]

    async def _enqueue_again(self, session: str) -> None:
        """Request an owner for a session with work left. Where this is cut, `wanted_if_idle` finds it."""
        backoff = Backoff(POLL_SECONDS, RECONNECT_SECONDS)
        while True:
            try:
                await finish_despite_cancel(_write(self._database, _WANT(session=session)), f"leaving {session}")
            except StateError as error:
                log.warning("a session waits to be left: %s", error, extra={"session": session})
            else:
                return
            await self._clock.sleep(backoff.next())

    def _notify(self, session: str) -> None:
        if lease := self._leases.get(session):
            lease.news.set()

    def _notify_of_order(self, session: str) -> None:
        if lease := self._leases.get(session):
            lease.has_orders = True
            lease.news.set()

    def _notify_all(self) -> None:
        for lease in self._leases.values():
            lease.has_orders = True
            lease.news.set()

    async def _detect_dead(self) -> None:
        """Be seen, and have the sessions of processes that are not seen any more worked on, until cancelled."""
        try:
            async with self._duties.one() as connection:
                row = row_of(self._database.replica, self._database.application_name, self._database.settings)
                with self._duties.watch_connection(connection):
                    for forget in _FORGET:
                        await connection.execute(forget)
                while True:
                    asked = self._clock.awake_or_not()
                    # One commit, which also shows that the duties are held.
                    with self._duties.watch_connection(connection):
                        async with connection.transaction():
                            self._database.clock.update(await single(connection, _SEE, *row), asked)
                            [(gone, next_death)] = await (await connection.execute(_LOOK, (self._stall,))).fetchall()
                    for session in gone:
                        log.warning("a process that worked on a session is gone", extra={"session": session})
                    period = self._stall / HEARTBEATS
                    # The next look comes when a heartbeat has become too old: a takeover waits no longer than it must.
                    await self._clock.sleep(min(period, next_death + EXPIRED_SECONDS))
        except (psycopg.Error, OSError) as error:
            raise store_error(error, self._database.place.shown, "written") from error


async def _write(database: PostgresDatabase, statement: BoundStatement) -> None:
    await database.write(statement)


@asynccontextmanager
async def _open_pool(app: App) -> AsyncIterator[None]:
    """Make procrastinate's connections; they are closed also where this is cut while they are made."""
    try:
        await cancellable(app.connector.open_async(), "connections of the work on sessions")
        yield
    finally:
        await app.close_async()


def _open(database: Database, clock: Clock) -> PostgresOwnership:
    postgres = require_postgres(database)
    return PostgresOwnership(postgres, clock, postgres.settings.stall_seconds)


PART = LeasePart(
    _open,
    lambda database, leases, clock: PostgresProcesses(require_postgres(database), leases, clock),
    lambda database: PostgresExchange(require_postgres(database)),
)
"""The leases that `LEASES` of the catalogue names."""
