"""The sessions that one of several processes has leases of, with their state in memory."""

import asyncio
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from goclaw.common.core.clock import Clock
from goclaw.common.core.fencing import under_fence
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lane import Push
from goclaw.durable.store.database import Database
from goclaw.durable.store.ownership import Lease, LeaseStore
from goclaw.errors import OwnershipLost


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


class HeldSessions:
    """Sessions of this process, from the moment when their state was read until they are left."""

    def __init__(self, database: Database, leases: LeaseStore, journal: Journal, clock: Clock) -> None:
        self.database = database
        self.leases = leases
        self.clock = clock
        self._journal = journal
        self._held: dict[str, Held] = {}
        self.channels: Collection[str] = ()
        """Turns of other channels wait in the journal for a process that has theirs."""
        self.ending_at: float | None = None
        """When this process began to wind down, by the monotonic clock: then those who wait for the end of an action
        are woken."""

    @property
    def ending(self) -> bool:
        """Whether this process winds down."""
        return self.ending_at is not None

    def begin_no_more(self) -> None:
        """Wind down: let go of sessions without work immediately, of the others when their turn has ended."""
        if self.ending_at is None:
            self.ending_at = self.clock.monotonic()
        self.leases.take_no_more()
        for held in self._held.values():
            held.lease.news.set()

    def of(self, session: str) -> Held | None:
        """Return a session of this process; None: it is not, or another one has taken it over."""
        held = self._held.get(session)
        return held if held and not held.lease.is_lost else None

    def is_leaving(self, session: str) -> bool:
        """Whether another process has taken over a session that this one still has in memory."""
        held = self._held.get(session)
        return held is not None and held.lease.is_lost

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
            with under_fence(held.lease.fence):
                yield held
        except OwnershipLost:
            # The lease is lost: start no new work.
            held.lease.is_lost = True
            held.lease.news.set()
            raise
        finally:
            held.acting -= 1
            held.active_at = self.clock.monotonic()
            if not held.acting:
                held.idle.set()
            if self.ending:
                held.lease.news.set()

    async def take_up(self, held: Held, push: Push) -> int:
        """Push a session's turns that are not in its lane yet; return how many.

        Raises:
            OwnershipLost: another process has taken the session over.
        """
        turns = await self._journal.open_turns(held.session, held.known)
        if turns and not self.leases.is_sure_of(held.session, held.lease.fence.epoch):
            # What was read may be another process's: with what this one has in memory the model would be asked amiss.
            await self.database.write()
        # What is submitted here meanwhile is known by now.
        new = [turn for turn in turns if turn.id not in held.known and turn.inbound.address.channel in self.channels]
        for turn in new:
            held.known.add(turn.id)
            turn.resumed = turn.begun  # it may have been taken in just now, here or elsewhere
            push(turn)
        return len(new)
