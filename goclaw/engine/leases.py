"""The sessions that this process works on, of a store that several share, as everything that acts on one sees them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from goclaw.core.clock import Clock
from goclaw.errors import OwnershipLost
from goclaw.store.fencing import fenced
from goclaw.store.ownership import Lease


@dataclass(slots=True, eq=False)
class Held:
    """A session whose state is in the memory of this process."""

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
    """Number of actions in it beside its turns."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while nothing is."""

    def __post_init__(self) -> None:
        self.idle.set()

    @property
    def session(self) -> str:
        """The session's key."""
        return self.lease.session


class Leases:
    """Sessions by key, from the moment when their state was read until they are left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[str, Held] = {}
        self.ending = False
        """The process winds down: who waits for the end of what is done has to hear of it."""

    def of(self, session: str) -> Held | None:
        """Return a session of this process; None: it is not, or another one has taken it over."""
        held = self._held.get(session)
        return held if held and not held.lease.is_lost else None

    def is_leaving(self, session: str) -> bool:
        """Whether another process has taken over a session of which the state is still in the memory of this one."""
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
            # What is read or taken up from here on is for naught: it may begin nothing more.
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
