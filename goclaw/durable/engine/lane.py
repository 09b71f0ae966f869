"""The lane of one session, and which sessions have their lanes in this process: all where it has the store alone, else
those that it has leases of (`engine.leased_sessions`).

A message for a session of this process is journaled under the lease's fence and goes into the lane immediately. One for
another session is journaled with the wish that the session be worked on, and taken up by its owner.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from goclaw.common.core.events import Inbound
from goclaw.common.core.fencing import Fence
from goclaw.durable.engine.base import LaneState, TurnKind
from goclaw.durable.engine.journal import JournaledTurn
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.ownership import EVERY_SESSION

Push = Callable[[JournaledTurn], None]
"""Puts a turn into its session's lane."""


class Lane:
    """The turns of one session: the one that runs, and those that wait for it."""

    def __init__(self) -> None:
        self.waiting: deque[JournaledTurn] = deque()
        self.turn: JournaledTurn | None = None
        self.work: asyncio.Task[Any] | None = None
        self.task: asyncio.Task[Any] | None = None
        """Runs it; None while it only keeps turns from beginning."""
        self.delayed = False
        """It waits for the disk."""
        self.is_lost = False
        """Another process goes on with the session."""
        self.ended = asyncio.Event()
        """Set when the turn that runs has ended, its journal included."""

    def running(self) -> list[JournaledTurn]:
        """Return the turn that can be stopped, if any; no longer once its end is being recorded."""
        return [self.turn] if self.turn and self.work and not self.work.done() else []

    def first(self) -> list[JournaledTurn]:
        """Return the waiting turns that go before the others."""
        return list(takewhile(lambda turn: turn.comes_first, self.waiting))

    def push(self, turn: JournaledTurn) -> None:
        """Let a turn wait."""
        self.waiting.insert(len(self.first()) if turn.comes_first else len(self.waiting), turn)
        turn.place.behind = self.waiting
        if self.turn is not None and self.turn.place.followed is not None:
            self.turn.place.followed()

    def stop(self, turn: JournaledTurn) -> bool:
        """Have a turn end without an answer, whether it runs or waits. False: it is ending so already."""
        if turn.stopping:
            return False
        turn.stopping = True
        if turn is self.turn and self.work is not None:
            self.work.cancel()
        return True


@dataclass(slots=True)
class Submission:
    """A message that is being taken in."""

    is_new: bool = False
    """Whether it was journaled now: it was not before."""


class Elsewhere(Protocol):
    """The part of `engine.base.Engine` for a session with its lane in another process, or with none."""

    async def submit(self, inbound: Inbound, kind: TurnKind, also: Sequence[BoundStatement]) -> bool: ...

    async def cancel(self, session: str) -> bool: ...

    async def queue(self, session: str) -> LaneState: ...

    async def is_owned(self, session: str) -> bool:
        """Whether another process works on a session."""

    def is_leaving(self, session: str) -> bool:
        """Whether another process has taken over a session that this one still has in memory."""


class LaneOwner(Protocol):
    """Says which sessions have their lanes in this process."""

    def elsewhere(self, session: str) -> Elsewhere | None:
        """Return how a session is reached that is not this process's; None: it is."""

    def acting(self, session: str) -> AbstractContextManager[Fence | None]:
        """Act in a session under its fence: this process keeps it while the block runs. None: it is not this process's.

        Raises:
            OwnershipLost: the block has; another process has the session.
        """

    def taking_in(self, inbound: Inbound, push: Push) -> AbstractAsyncContextManager[Submission | None]:
        """Accept a message after all earlier ones; None: the session no longer belongs to this process.

        The block sets `Submission.is_new`.

        Raises:
            OwnershipLost: another process has taken the session over; nothing was written.
        """

    def may_begin(self, session: str) -> bool:
        """Return whether a turn that this task accepted may start here; else its owner finds it in the journal."""

    def draining(self, session: str, lane: Lane) -> AbstractContextManager[object]:
        """Have a session count as worked on while its lane has work; `lane.is_lost` says why that ended."""


_EVERY_SESSION = nullcontext(EVERY_SESSION)


class SoleLaneOwner:
    """Implements `LaneOwner` for the only process of a store, which owns every session."""

    def elsewhere(self, session: str) -> None:
        return None

    def acting(self, session: str) -> AbstractContextManager[Fence]:
        return _EVERY_SESSION

    def taking_in(self, inbound: Inbound, push: Push) -> AbstractAsyncContextManager[Submission]:
        return nullcontext(Submission())

    def may_begin(self, session: str) -> bool:
        return True

    def draining(self, session: str, lane: Lane) -> AbstractContextManager[object]:
        return nullcontext()
