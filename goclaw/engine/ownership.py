"""The sessions that this process works on: all of them where it has the store alone, else those that it has leases of.

What comes in for a session of this process is journaled under the lease's fence and goes into the session's lane at
once. What comes in elsewhere is journaled with the wish that its session be worked on, and taken up by its owner.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from goclaw.core.events import Inbound
from goclaw.engine.base import LaneState, TurnKind
from goclaw.engine.journal import JournaledTurn
from goclaw.engine.lane import Lane
from goclaw.store.database import BoundStatement

Push = Callable[[JournaledTurn], None]
"""Puts a turn into its session's lane."""


@dataclass(slots=True)
class Submission:
    """A message that is being taken in."""

    is_new: bool = False
    """Whether it was journaled now: it was not before."""


class Elsewhere(Protocol):
    """What `engine.base.Engine` does with a session whose lane is in another process, or in none."""

    async def submit(self, inbound: Inbound, kind: TurnKind, also: Sequence[BoundStatement]) -> bool: ...

    async def cancel(self, session: str) -> bool: ...

    async def queue(self, session: str) -> LaneState: ...


class Owner(Protocol):
    """Says which sessions have their lanes in this process."""

    def elsewhere(self, session: str) -> Elsewhere | None:
        """Return how a session is reached that is not this process's; None: it is."""
        ...

    def acting(self, session: str) -> AbstractContextManager[object]:
        """Act in a session: if it is this process's, this process keeps it while the block runs.

        Raises:
            OwnershipLost: the block has; another process has the session.
        """
        ...

    def taking_in(self, inbound: Inbound, push: Push) -> AbstractAsyncContextManager[Submission | None]:
        """Take a message in behind all that came before it; None: the session is not this process's any more.

        The block sets `Submission.is_new`.

        Raises:
            OwnershipLost: another process has taken the session over; nothing was written.
        """
        ...

    def may_begin(self, session: str) -> bool:
        """Whether a turn that this task took in may begin here; else the session's owner finds it in the journal."""
        ...

    def draining(self, session: str, lane: Lane) -> AbstractContextManager[object]:
        """Have a session count as worked on while its lane has work; `lane.is_lost` says why that ended."""
        ...


class SoleOwner:
    """Implements `Owner` for the only process of a store: every session is its own, for ever."""

    def elsewhere(self, session: str) -> None:
        return None

    def acting(self, session: str) -> AbstractContextManager[object]:
        return nullcontext()

    def taking_in(self, inbound: Inbound, push: Push) -> AbstractAsyncContextManager[Submission]:
        return nullcontext(Submission())

    def may_begin(self, session: str) -> bool:
        return True

    def draining(self, session: str, lane: Lane) -> AbstractContextManager[object]:
        return nullcontext()
