"""The sessions of one of several processes on a store: it has a lease of each, which another may take over."""

import asyncio
from collections.abc import AsyncIterator, Container, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Inbound
from goclaw.durable.engine.base import LaneState, TurnKind
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lane import Lane, Push, Submission
from goclaw.durable.engine.statements import QUEUE
from goclaw.durable.store.database import BoundStatement, Database
from goclaw.durable.store.fencing import HELD, fenced
from goclaw.durable.store.ownership import Lease, Ownership
from goclaw.errors import OwnershipLost

ORDER_SECONDS = 10.0
"""Seconds for which a reply of the owner is waited for: those of a dead one (`STALL_SECONDS` and the next look), of the
transaction that keeps its session (three), and one to carry the order out."""
CANCEL = "cancel"
"""The order to stop a turn, by its id, if it is running."""


@dataclass(slots=True, eq=False)
class Held:
    """A session that has its state in the memory of this process."""

    lease: Lease
    active_at: float
    """When something was last done in it, by the monotonic clock."""
    known: set[str] = field(default_factory=set)
    """Turns that are in its lane, will be, or were."""
    submitting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a message is taken in: they are written in the order in which they came."""
    begun: set[str] = field(default_factory=set)
    """Ids of orders that are carried out, or were."""
    carried_out: set[asyncio.Task[None]] = field(default_factory=set)
    """The orders that are being carried out."""
    acting: int = 0
    """Number of actions in it besides its turns."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while nothing is."""

    def __post_init__(self) -> None:
        self.idle.set()

    @property
    def session(self) -> str:
        """The session's key."""
        return self.lease.session


class Leases:
    """Implements `Owner` and `Elsewhere` for a process of several: sessions that it has, from the moment when their
    state was read until they are left."""

    def __init__(
        self, database: Database, ownership: Ownership, journal: Journal, channels: Container[str], clock: Clock
    ) -> None:
        """`channels`: turns of others wait in the journal for a process that has theirs."""
        self._database = database
        self._ownership = ownership
        self._journal = journal
        self._channels = channels
        self._clock = clock
        self._held: dict[str, Held] = {}
        self.ending = False
        """The process winds down: those who wait for the end of an action are woken."""

    def of(self, session: str) -> Held | None:
        """Return a session of this process; None: it is not, or another one has taken it over."""
        held = self._held.get(session)
        return held if held and not held.lease.is_lost else None

    def is_leaving(self, session: str) -> bool:
        """Whether another process has taken over a session that this one still has in memory."""
        held = self._held.get(session)
        return held is not None and held.lease.is_lost

    def all(self) -> list[Held]:
        """Return the sessions of this process."""
        return list(self._held.values())

    @contextmanager
    def holding(self, held: Held) -> Iterator[None]:
        """Have a session count as this process's in the block."""
        self._held[held.session] = held
        try:
            yield
        finally:
            del self._held[held.session]

    @contextmanager
    def acting(self, session: str) -> Iterator[Held | None]:
        """Act in a session under its epoch, if it is this process's, which keeps it meanwhile; else None.

        Raises:
            OwnershipLost: the block has; another process has the session.
        """
        held = self.of(session)
        if held is None:
            yield None
            return
        held.acting += 1
        held.idle.clear()
        try:
            with fenced(held.lease.fence):
                yield held
        except OwnershipLost:
            # The lease is lost: start no new work.
            held.lease.is_lost = True
            held.lease.news.set()
            raise
        finally:
            held.acting -= 1
            held.active_at = self._clock.monotonic()
            if not held.acting:
                held.idle.set()
            if self.ending:
                held.lease.news.set()

    def elsewhere(self, session: str) -> "Leases | None":
        return self if self.of(session) is None else None

    @asynccontextmanager
    async def taking_in(self, inbound: Inbound, push: Push) -> AsyncIterator[Submission | None]:
        with self.acting(inbound.session) as held:
            if held is None:
                yield None
                return
            async with held.submitting:
                # What another process took in before is answered before.
                rows = await self._database.read(QUEUE(of_session=held.session))
                if any(row["id"] not in held.known for row in rows):
                    await self.take_up(held, push)
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
        held = self.of(session)
        return held is not None and held.lease.fence == HELD.get()

    @contextmanager
    def draining(self, session: str, lane: Lane) -> Iterator[None]:
        held = self.of(session)
        try:
            yield
        finally:
            if held is not None:
                held.active_at = self._clock.monotonic()
                held.lease.is_lost = held.lease.is_lost or lane.is_lost
                if lane.is_lost or self.ending:
                    held.lease.news.set()

    async def take_up(self, held: Held, push: Push) -> int:
        """Push a session's turns that are not in its lane; return how many.

        Raises:
            OwnershipLost: another process has taken the session over.
        """
        turns = await self._journal.open_turns(held.session, held.known)
        if turns and not self._ownership.is_sure_of(held.session, held.lease.fence.epoch):
            # What was read may be another process's: with what this one has in memory the model would be asked amiss.
            await self._database.write()
        # What is submitted here meanwhile is known by now.
        new = [turn for turn in turns if turn.id not in held.known and turn.inbound.address.channel in self._channels]
        for turn in new:
            held.known.add(turn.id)
            turn.resumed = turn.begun  # it may have been taken in just now, here or elsewhere
            push(turn)
        return len(new)

    async def submit(self, inbound: Inbound, kind: TurnKind, also: Sequence[BoundStatement]) -> bool:
        return await self._journal.submit(inbound, kind, also=[*also, self._ownership.wanted(inbound.session)])

    async def cancel(self, session: str) -> bool:
        if not (turn := (await self.queue(session)).running):
            return False
        return bool(await self._ownership.orders.give(session, CANCEL, turn, ORDER_SECONDS))

    async def queue(self, session: str) -> LaneState:
        # The oldest message that is not finished runs, or will be the first to.
        turns = [row["id"] for row in await self._database.read(QUEUE(of_session=session))]
        return LaneState(turns[0], len(turns) - 1) if turns else LaneState("", 0)
