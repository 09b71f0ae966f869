"""The sessions of one of several processes on a store: it has a lease of each, which another may take over.

A session is taken when it is wanted, worked on (`session_work`), and left when nothing has come for a while. What
another process wants of it meanwhile comes as an order.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial

from goclaw.channels.processes import Processes
from goclaw.common.core import catalog
from goclaw.common.core.bus import Bus
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import LOCAL, Delivery, Inbound, Notice
from goclaw.common.core.fencing import AUTHORITY, Fence
from goclaw.common.core.plugins import load
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.engine.base import LaneState, TurnHandler, TurnKind
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lane import Lane, Push, Submission
from goclaw.durable.engine.lanes import Lanes
from goclaw.durable.engine.leases import HeldSessions
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.engine.session_work import CANCEL, SessionWork
from goclaw.durable.engine.sessions import ORDER_SECONDS, CarryOut, SessionMemory, SessionsPart
from goclaw.durable.engine.statements import OPEN_SESSIONS, QUEUE
from goclaw.durable.engine.views.remote_sessions import RemoteSessions
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.ownership import LeasePart, LeaseStore
from goclaw.durable.store.reading import TranscriptFeed

SWEEP_SECONDS = 60.0
"""Seconds between two looks for sessions that have work and that no process works on: none should be found."""

ABSENT_SECONDS = 5.0
"""Seconds between two looks for gateways that are gone: one counts so after `replica.stall_seconds`."""
ABSENT = (
    "The gateway {name}, which has the files of this conversation, is away. Your message waits for it and is answered "
    "when it is back."
)


class LeasedSessions:
    """Implements `OwnedSessions` and `Elsewhere`."""

    def __init__(
        self,
        database: Database,
        leases: LeaseStore,
        journal: Journal,
        processes: Processes,
        remote: RemoteSessions,
        bus: Bus,
        clock: Clock,
    ) -> None:
        """`remote`: exchanges the events of sessions with the other processes, through `bus`."""
        self.ownership = leases
        self.processes = processes
        self.feed = TranscriptFeed(database)
        self.held = HeldSessions(database, leases, journal, clock)
        self._database = database
        self._journal = journal
        self._remote = remote
        self._bus = bus
        self._clock = clock
        self._orders: asyncio.Future[Mapping[str, CarryOut]] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def open(
        self, lanes: Lanes, outbox: Outbox, turns: TurnHandler, memory: SessionMemory, channels: Collection[str]
    ) -> AsyncIterator[None]:
        """Work on sessions while the block runs; then their lanes end, and others may take them."""
        self.held.channels = channels
        work = SessionWork(self.held, lanes, outbox, memory, self.processes, self._remote, self._orders)
        lanes.start(turns)
        async with AsyncExitStack() as stack:

            async def keep(name: str, run: Callable[[], Awaitable[None]]) -> None:
                await stack.enter_async_context(background(run_with_restarts(name, run, self._clock), name))

            await stack.enter_async_context(self._remote.open(memory.inspect))
            await keep("sweeping sessions", partial(self._sweep, outbox))
            await stack.enter_async_context(background(work.run(), "sessions of this process"))
            stack.push_async_callback(lanes.close)
            stack.callback(self.begin_no_more)
            if self.ownership.workspaces == "shared":
                await keep("comparing folders", memory.compare_folders)
            else:
                await keep("telling of gateways that are gone", partial(self._tell_of_the_absent, outbox))
            yield

    async def _sweep(self, outbox: Outbox) -> None:
        """Keep getting abandoned sessions worked on: at the start those of one process alone."""
        while True:
            await self._journal.forget_loose()
            await self.ownership.orders.sweep()
            begun = [row["session"] for row in await self._database.read(OPEN_SESSIONS())]
            sessions = {*begun, *await outbox.open_sessions()}
            for session in sorted(sessions):
                if self.held.of(session) is None:
                    await self._database.write(self.ownership.wanted_if_idle(session))
            await self._clock.sleep(SWEEP_SECONDS)

    async def _tell_of_the_absent(self, outbox: Outbox) -> None:
        """Keep telling people whose conversation waits for a gateway that is gone and that alone has its files.

        The first gateway to notice an absence announces it, once.

        Raises:
            StateError: the store cannot be reached.
        """
        while True:
            for session, name in await self.ownership.left_waiting():
                words = ABSENT.format(name=name)
                self._bus.publish(Notice(session, words))
                waiting = await self._journal.open_turns(session)
                if waiting and waiting[-1].inbound.address.channel != LOCAL:
                    last = waiting[-1].inbound
                    # Of no session: the gateway that is gone would send it.
                    await outbox.promise(Delivery(f"{last.id}:absent", last.address, words))
            await self._clock.sleep(ABSENT_SECONDS)

    def serve(self, orders: Mapping[str, CarryOut]) -> None:
        self._orders.set_result(orders)

    def begin_no_more(self) -> None:
        self.held.begin_no_more()

    def elsewhere(self, session: str) -> "LeasedSessions | None":
        return self if self.held.of(session) is None else None

    @contextmanager
    def acting(self, session: str) -> Iterator[Fence | None]:
        with self.held.acting(session) as held:
            yield held.lease.fence if held else None

    @asynccontextmanager
    async def taking_in(self, inbound: Inbound, push: Push) -> AsyncIterator[Submission | None]:
        with self.held.acting(inbound.session) as held:
            if held is None:
                yield None
                return
            async with held.submitting:
                # What another process took in before is answered before.
                rows = await self._database.read(QUEUE(of_session=held.session))
                if any(row["id"] not in held.known for row in rows):
                    await self.held.take_up(held, push)
                is_ours, submission = inbound.id not in held.known, Submission()
                # Before it is committed: a look for what others submitted finds it as soon as it is.
                held.known.add(inbound.id)
                try:
                    yield submission
                finally:
                    if is_ours and not submission.is_new:
                        held.known.discard(inbound.id)
                        held.lease.news.set()  # another one may have submitted it, and a look has passed it over

    def may_begin(self, session: str) -> bool:
        held = self.held.of(session)
        return held is not None and held.lease.fence == AUTHORITY.get().fence

    @contextmanager
    def draining(self, session: str, lane: Lane) -> Iterator[None]:
        held = self.held.of(session)
        try:
            yield
        finally:
            if held is not None:
                held.active_at = self._clock.monotonic()
                held.lease.is_lost = held.lease.is_lost or lane.is_lost
                if lane.is_lost or self.held.ending:
                    held.lease.news.set()

    async def submit(self, inbound: Inbound, kind: TurnKind, also: Sequence[BoundStatement]) -> bool:
        return await self._journal.submit(inbound, kind, also=[*also, self.ownership.wanted(inbound.session)])

    async def cancel(self, session: str) -> bool:
        if not (turn := (await self.queue(session)).running):
            return False
        return bool(await self.ownership.orders.request(session, CANCEL, turn, ORDER_SECONDS))

    async def queue(self, session: str) -> LaneState:
        # The oldest message that is not finished runs, or will be the first to.
        turns = [row["id"] for row in await self._database.read(QUEUE(of_session=session))]
        return LaneState(turns[0], len(turns) - 1) if turns else LaneState("", 0)

    async def ask(self, session: str, name: str, body: str, seconds: float = ORDER_SECONDS) -> str:
        return await self.ownership.orders.request(session, name, body, seconds)

    async def is_owned(self, session: str) -> bool:
        return await self.ownership.is_owned(session)

    def is_leaving(self, session: str) -> bool:
        return self.held.is_leaving(session)


def _open(database: Database, journal: Journal, bus: Bus, clock: Clock) -> LeasedSessions:
    part = load(catalog.LEASES[database.kind], LeasePart)
    leases = part.open(database, clock)
    remote = RemoteSessions(bus, database, part.exchange(database), leases.wanted_if_idle, clock)
    return LeasedSessions(database, leases, journal, part.processes(database, leases, clock), remote, bus, clock)


LEASED = SessionsPart(_open)
"""The part that `OWNERSHIPS` of the catalogue names for Postgres."""
