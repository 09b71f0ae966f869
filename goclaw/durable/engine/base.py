"""The interface between turns and the engine that makes them durable.

Embedded (`lanes`): one SQLite journal and one asyncio task per session. Every session is a lane: one turn at a time, in
order of arrival. A turn that is cut (kill -9, power, an upgrade) is run again from its journal: the recorded outcome of
a step is read back instead of repeating the step.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Generic, Literal, Protocol, TypeVar

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Delivery, Inbound
from goclaw.common.core.records import record
from goclaw.durable.store.database import BoundStatement

T = TypeVar("T")

TurnKind = Literal["message", "compact", "say"]
"""The kinds of turns: answer a message, compact the session's context, or say a text word for word without a model."""


@record
class Step(Generic[T]):
    """The outcome of a step."""

    value: T
    rows: tuple[int, ...] = ()
    """Ids of the rows written with it, in order; empty when it was read back."""
    replayed: bool = False
    """The journal had it: its rows were written by an earlier run."""
    held: bool = False
    """It is in memory only, to be recorded together with what comes next: its rows have no ids yet."""


@record
class PreparedStep(Generic[T]):
    """The first step of a turn; its outcome was known on arrival, so it is recorded with the message."""

    name: str
    value: T
    output: str
    """The outcome as its codec writes it."""
    rows: Sequence[BoundStatement]


Prepare = Callable[[Inbound], PreparedStep[Any] | None]
"""Returns the first step of a message's turn; None: its outcome is not known before the turn begins.

Asked only for a message that begins a turn at once, and must not wait for anything.
"""


def never(_: object) -> bool:
    """Return False, for a step that is recorded as soon as its outcome is known."""
    return False


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
    """It waits for a person, who was notified, or for the disk."""
    doing: tuple[str, ...]
    """Its steps that are being done: `model:2`, `tool:2:<call id>`."""


@record
class LaneState:
    """How far a session is with its messages, whichever process works on it."""

    running: str
    """Id of the turn that runs, or is about to; empty: none."""
    waiting: int
    """Messages that wait for it."""


class Turn(Protocol):
    """One piece of a lane's work, as its handler sees it."""

    @property
    def id(self) -> str:
        """The inbound message's id."""

    @property
    def kind(self) -> TurnKind: ...

    @property
    def inbound(self) -> Inbound: ...

    @property
    def stopping(self) -> bool:
        """/stop was said: the handler is being cancelled, or was before a crash, or before it could begin.

        In the last two cases it is called all the same, to record the message; it must not begin anything.
        """

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        codec: Codec[T],
        *,
        rows: Callable[[T], Sequence[BoundStatement]] = ...,
        kept: Callable[[Step[T]], None] = ...,
        unknown: Callable[[], T] | None = None,
        hold: Callable[[T], bool] = ...,
    ) -> Step[T]:
        """Do `run` unless the journal has its outcome, and record the outcome together with `rows(outcome)`.

        A cancellation while the outcome is being recorded is raised afterwards: the caller knows the state of the disk.

        Args:
            name: the step's key within the turn: `model:2`, `tool:2:<call id>`. Never a running count of calls, which
                parallel tools would reorder.
            run: does the work.
            codec: turns the outcome into JSON and back.
            rows: statements for the same transaction.
            kept: called with the step as soon as it is recorded or read back, also when the turn is being cancelled;
                with one that is `held` besides, as soon as it is done.
            unknown: makes the step run at most once: `run` calls `intend` before what must not happen twice, and if
                a crash cut it after that, this is the outcome.
            hold: whether an outcome may stay in memory until the turn's next step, `flush` or its end, and be recorded
                in one transaction with the end. A crash before loses it, as one while it was made would have.
        """

    async def flush(self) -> None:
        """Record the step that is held, if there is one: before anything that counts on its rows."""

    async def end(self, deliveries: Sequence[Delivery]) -> None:
        """Record the end of the turn, the step that is held and the deliveries, in one transaction.

        For a handler with work to do after that; otherwise its return value is delivered. Retried until the disk
        accepts it, and no longer stoppable.
        """

    def has_record(self, name: str) -> bool:
        """Whether an earlier run of the daemon has recorded the step: it will be read back."""

    async def intend(self, name: str) -> None:
        """Put on disk that the step `name` is about to do what must not happen twice."""

    def followers(self, *, past_others: bool) -> Sequence[Inbound]:
        """Return the waiting messages that may join this turn: of the same person and from the same place, in order.

        Args:
            past_others: also those after other people's messages, which they then overtake.
        """

    def watch(self, told: Callable[[], None] | None) -> None:
        """Call `told` whenever a message is queued after this turn; None stops that."""

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
        """Run a step that takes a follower into this turn: the transaction that records it settles the message.

        If the step is not recorded, for any reason, the message waits on and gets a turn of its own. One that was
        edited while `run` was at work joins in its latest version.
        """

    async def park(self, name: str, question: str, ask: Callable[[str], Awaitable[None]]) -> str:
        """Wait for `Engine.signal`, for days and over restarts if need be; returns the answer. The lane stays taken.

        Args:
            name: the step's key within the turn.
            question: kept with it; after a restart the first one holds.
            ask: called with the question that holds, once it is on disk.
        """


Handler = Callable[[Turn], Awaitable[Sequence[Delivery]]]
"""Does a turn's work and returns the deliveries at its end, unless it has ended the turn itself (`Turn.end`)."""


@record
class TurnHandler:
    """Does turns for the engine."""

    run: Handler
    failed: Callable[[Turn, Exception], Awaitable[Sequence[Delivery]]]
    """Returns the words for the person where `run` failed in an unforeseen way."""
    prepare: Prepare = lambda _: None


class Engine(Protocol):
    """Durable turns."""

    async def submit(
        self,
        inbound: Inbound,
        kind: TurnKind = "message",
        *,
        interrupt: bool = False,
        also: Sequence[BoundStatement] = (),
    ) -> bool:
        """Journal a message and queue it in its session's lane; durable when this returns. False: it was known.

        `also` is written in the same transaction, whether the message was known or not; not together with `interrupt`.

        With `interrupt` it replaces the running turn, if that is of the same person and from the same
        place: that turn is stopped, and the message goes to the front of the queue. The stop is as durable as the
        message.
        """

    async def replace(self, inbound: Inbound) -> bool:
        """Put an edited message in the place of its older version (same `ref`, person and place) that still waits.

        Durable when this returns; the turn keeps its id and its place. Of several edits the last one holds, also when
        an earlier one is redelivered. False: nothing that was not begun waits under that `ref`.
        """

    async def cancel(self, session: str, patience: float | None = None, by: Inbound | None = None) -> bool:
        """Stop the running turn; returns when it has ended and the lane is free. False: no turn ran.

        `by` is the message that orders it: known as soon as the stop is on disk, so that it stops nothing else when it
        is delivered again.

        With `patience` it returns after so many seconds even if the turn has not ended (see `running`). The lane is
        free only when it has, however long that takes: two turns of one session never overlap.
        """

    async def signal(self, turn: str, name: str, answer: str) -> bool:
        """Answer a parked turn. False: it does not wait under that name (any more)."""

    async def queue(self, session: str) -> LaneState:
        """Return how far a session is, whichever process works on it."""

    def running(self, session: str) -> str | None:
        """Return the id of the turn that runs in the session's lane, in this process."""

    def received_at(self, session: str) -> float | None:
        """Return when the message of the turn that runs in the session's lane came in, in epoch seconds.

        None: none runs, or it was begun before a restart and taken up again.
        """

    def waiting(self, session: str) -> int:
        """Return the number of messages waiting in a session of this process."""

    def alone(self, session: str) -> AbstractContextManager[bool]:
        """Keep turns of a session from beginning until the block ends; new messages wait. False: it is at work."""
