"""The seam between turns and whatever makes them durable.

Embedded (`lanes`): one SQLite journal and one asyncio task per session. Every session is a lane: one turn at a time, in
order of arrival. A turn that is cut (kill -9, power, an upgrade) is run again from its journal: what a step recorded is
read back instead of being done a second time.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Generic, Literal, Protocol, TypeVar

from goclaw.codec import Codec
from goclaw.events import Delivery, Inbound
from goclaw.records import record
from goclaw.store.database import BoundStatement

T = TypeVar("T")

TurnKind = Literal["message", "compact"]
"""What a lane is asked to do: answer a message, or compact the session's context."""


@record
class Step(Generic[T]):
    """What a step yielded."""

    value: T
    rows: tuple[int, ...] = ()
    """Row ids of what was written with it, in order; empty when it was read back."""
    replayed: bool = False
    """The journal had it: its rows were written by an earlier run."""


def continues(later: Inbound, earlier: Inbound) -> bool:
    """Whether two messages are of one person, rights included, and their answers go to one place."""
    sender, address = replace(later.actor, name=earlier.actor.name), later.address
    there = earlier.address
    return sender == earlier.actor and (address.channel, address.chat, address.thread) == (
        there.channel,
        there.chat,
        there.thread,
    )


@record
class RunningTurn:
    """A turn that runs, seen from outside."""

    session: str
    turn: str
    parked: bool
    """It waits for a person, who was told, or for the disk."""
    doing: tuple[str, ...]
    """Its steps that are being done: `model:2`, `tool:2:<call id>`."""


class Turn(Protocol):
    """One piece of a lane's work, as its handler sees it."""

    @property
    def id(self) -> str:
        """The inbound message's id."""
        ...

    @property
    def kind(self) -> TurnKind: ...

    @property
    def inbound(self) -> Inbound: ...

    @property
    def stopping(self) -> bool:
        """/stop was said: the handler is being cancelled, or was before a crash, or before it could begin.

        In the last two cases it is called all the same, to record what was said; it must not begin anything.
        """
        ...

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]] = ...,
        kept: Callable[[Step[T]], None] = ...,
        unknown: Callable[[], T] | None = None,
    ) -> Step[T]:
        """Do `run` unless the journal has its outcome, and record the outcome together with `rows(outcome)`.

        A cancellation while the outcome is being recorded is raised when that is done: what is on disk is known.

        Args:
            name: the step's key within the turn: `model:2`, `tool:2:<call id>`. Never a running count of calls, which
                parallel tools would reorder.
            run: does the work.
            codec: turns the outcome into JSON and back.
            rows: statements for the same transaction.
            kept: told of the step as soon as it is recorded or read back, also when the turn is being cancelled.
            unknown: makes the step run at most once: `run` calls `intend` before what must not happen twice, and if
                a crash cut it after that, this is the outcome.
        """
        ...

    def recorded(self, name: str) -> bool:
        """Whether an earlier run of the daemon has recorded the step: it will be read back."""
        ...

    async def intend(self, name: str) -> None:
        """Put on disk that the step `name` is about to do what must not happen twice."""
        ...

    def followers(self, *, past_others: bool) -> Sequence[Inbound]:
        """What waits behind this turn and may join it: of the same person and from the same place, in order.

        Args:
            past_others: also what waits behind other people's messages, which it then overtakes.
        """
        ...

    def watch(self, told: Callable[[], None] | None) -> None:
        """Have `told` called whenever a message comes to wait behind this turn; None: no longer."""
        ...

    async def join(
        self,
        name: str,
        inbound: Inbound,
        run: Callable[[Inbound], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]],
        kept: Callable[[Step[T]], None],
        at: float,
    ) -> Step[T]:
        """A step that takes one of the followers into this turn: the transaction that records it settles the message.

        A message of which that was not recorded, whatever the reason, waits on and has a turn of its own. One that was
        edited while `run` was at work joins as it is now.
        """
        ...

    async def park(self, name: str, question: str, ask: Callable[[str], Awaitable[None]]) -> str:
        """Wait for `Engine.signal`, for days and over restarts if need be; returns the answer. The lane stays taken.

        Args:
            name: the step's key within the turn.
            question: kept with it; after a restart the first one holds.
            ask: called with the question that holds, once it is on disk.
        """
        ...


Handler = Callable[[Turn], Awaitable[Sequence[Delivery]]]
"""Does a turn's work and returns what is to be delivered at its end."""


class Engine(Protocol):
    """Durable turns."""

    async def submit(self, inbound: Inbound, kind: TurnKind = "message", *, interrupt: bool = False) -> bool:
        """Journal a message and put it into its session's lane; durable when this returns. False: it was there.

        With `interrupt` it takes the place of the turn that runs, if that is of the same person and from the same
        place: that turn is stopped, and the message comes before whatever waits. The stop is as durable as the message.
        """
        ...

    async def replace(self, inbound: Inbound) -> bool:
        """Put an edited message in the place of its older version (same `ref`, person and place) that still waits.

        Durable when this returns; the turn keeps its id and its place. Of several edits the last one holds, also when
        an earlier one is redelivered. False: nothing that was not begun waits under that `ref`.
        """
        ...

    async def cancel(self, session: str, patience: float | None = None, by: Inbound | None = None) -> bool:
        """Stop the turn that runs; returns when it has ended and the lane is free. False: none ran.

        `by` is the message that orders it: known as soon as the stop is on disk, so that it stops nothing else when it
        is delivered again.

        With `patience` it returns after so many seconds though the turn has not ended (`running` tells). The lane is
        free only when it has, whatever that takes: two turns of one session never overlap.
        """
        ...

    async def signal(self, turn: str, name: str, answer: str) -> bool:
        """Answer a parked turn. False: it does not wait under that name (any more)."""
        ...

    def running(self, session: str) -> str | None:
        """The id of the turn that runs in the session's lane."""
        ...

    def waiting(self, session: str) -> int:
        """How many messages wait behind it."""
        ...

    def alone(self, session: str) -> AbstractContextManager[bool]:
        """Keep turns of a session from beginning until the block ends; what comes in waits. False: it is at work."""
        ...
