"""Events from turns to their subscribers: terminals, pages, a channel's live view.

Only rows of the transcript are kept forever (`MessageStored`); everything else is gone once it was shown. A client
that comes late reads the rows and the current partial answer, then listens.

For a client with a name that was cut off, what it has not acknowledged is kept for a while (`ReplayBuffer`): it
continues there. Events are numbered from 1 while the session is followed; a session without clients costs nothing.
Nothing here is durable: a client whose position is of another epoch, or too old, reads the rows of the transcript.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from goclaw.core.clock import Clock
from goclaw.core.events import (
    MessageStored,
    Notice,
    SessionNow,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.core.records import record

AWAY_SECONDS = 600.0
"""Time for which events are kept for a disconnected client. One that slept longer reads the rows."""
MAX_EVENTS = 5_000
"""Kept for one session: at a hundred pieces a second, 50 seconds of an answer."""
MAX_CHARACTERS = 1_000_000
"""Characters of their texts: results of tools are long."""


class Numbered(NamedTuple):
    """An event and its number in its session; 0: not counted."""

    number: int
    event: TurnEvent
    at: float = 0.0
    """Time of the event on the daemon's monotonic clock."""


@record
class Position:
    """The position of a client in the events of a session."""

    epoch: str = ""
    """Id of the buffer: each run of the daemon has another, and so has a session after a while without clients."""
    number: int = 0
    """Number of the last event that the client has."""


NOWHERE = Position()


@dataclass(slots=True)
class _Reader:
    known: int
    """The last event that it acknowledged."""
    visits: int = 0
    """Number of its connections; an earlier one may end after a later one began."""
    left_at: float | None = None


class ReplayBuffer:
    """The events of one session, and who knows how many of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoch = uuid.uuid4().hex
        self._last = 0
        self._kept: deque[Numbered] = deque()
        self._characters = 0
        self._readers: dict[str, _Reader] = {}

    @property
    def end(self) -> Position:
        """After everything that has happened."""
        return Position(self._epoch, self._last)

    def add(self, event: TurnEvent) -> Numbered:
        """Number an event, and keep it for clients that are away or have not shown it yet."""
        self._last += 1
        numbered = Numbered(self._last, event, self._clock.monotonic())
        self._kept.append(numbered)
        self._characters += _characters(event)
        while len(self._kept) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._drop_oldest()
        return numbered

    def since(self, position: Position) -> list[Numbered] | None:
        """Return the events after `position`; None when they are not kept (any more)."""
        first = self._kept[0].number if self._kept else self._last + 1
        if position.epoch != self._epoch or not first - 1 <= position.number <= self._last:
            return None
        return [numbered for numbered in self._kept if numbered.number > position.number]

    def enter(self, client: str, position: Position) -> int:
        """Add `client` at `position`. Returns the argument of `leave`."""
        reader = self._readers.setdefault(client, _Reader(position.number))
        reader.known, reader.left_at = position.number, None
        reader.visits += 1
        self._trim()
        return reader.visits

    def leave(self, client: str, visit: int) -> None:
        """Remove a connection of `client`."""
        reader = self._readers.get(client)
        if reader is not None and reader.visits == visit:
            reader.left_at = self._clock.monotonic()

    def acknowledge(self, client: str, number: int) -> None:
        """Record that `client` has shown everything up to `number`."""
        reader = self._readers.get(client)
        if reader is not None and reader.known < number <= self._last:
            reader.known = number
            self._trim()

    def is_over(self) -> bool:
        """Whether no client follows, and none is expected back. Clients away for too long are removed by this call."""
        long_ago = self._clock.monotonic() - AWAY_SECONDS
        for client, reader in list(self._readers.items()):
            if reader.left_at is not None and reader.left_at <= long_ago:
                del self._readers[client]
        self._trim()
        return not self._readers

    def _trim(self) -> None:
        known = min((reader.known for reader in self._readers.values()), default=self._last)
        while self._kept and self._kept[0].number <= known:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._characters -= _characters(self._kept.popleft().event)


def _characters(event: TurnEvent) -> int:
    match event:
        case TextStreamed() | ThinkingStreamed():
            return len(event.text)
        case ToolFinished():
            return len(event.content)
        case MessageStored():
            return len(getattr(event.message, "text", "")) + len(getattr(event.message, "content", ""))
        case _:
            return 0


BACKLOG = 10_000
"""Events that may wait for one subscriber. One that lags further behind is cut off and reads the rows anew."""


class _Subscription:
    def __init__(self, session: str | None) -> None:
        self.session = session
        self._events: asyncio.Queue[Numbered | None] = asyncio.Queue()

    def offer(self, numbered: Numbered) -> bool:
        """Add an event to the queue. False: the subscriber lags too far behind and is cut off."""
        if self._events.qsize() >= BACKLOG:
            self.end()
            return False
        self._events.put_nowait(numbered)
        return True

    def end(self) -> None:
        """Accept no more events; the queued ones are still delivered."""
        self._events.put_nowait(None)

    async def events(self) -> AsyncIterator[TurnEvent]:
        async for _, event, _ in self.numbered(()):
            yield event

    async def numbered(self, missed: Sequence[Numbered]) -> AsyncIterator[Numbered]:
        for numbered in missed:
            yield numbered
        while (following := await self._events.get()) is not None:
            yield following


@dataclass(frozen=True, slots=True, eq=False)
class Following:
    """A client's view of a session's events. Made by `Bus.follow`."""

    position: Position
    """After which event `events` begin; `NOWHERE` for a client without a name, whose events have no numbers."""
    goes_on: bool
    """Whether that is where the client was before: it has missed nothing then."""
    events: AsyncIterator[Numbered]
    """Ends when the client lags too far behind."""
    end: Callable[[], None]
    """No more events; those that wait are still handed out."""


@dataclass(slots=True)
class _View:
    """The state of a running turn as a new subscriber would see it."""

    turn: str
    since: float
    moved: float
    """Monotonic time of its last event."""
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)

    def keep(self, event: TextStreamed | ThinkingStreamed | MessageStored | StreamRestarted) -> None:
        match event:
            case TextStreamed():
                self.text.append(event.text)
            case ThinkingStreamed():
                self.thinking.append(event.text)
            case _:
                self.text.clear()
                self.thinking.clear()

    def now(self) -> SessionNow:
        return SessionNow(self.turn, self.since, "".join(self.text), "".join(self.thinking))


class Bus:
    """Spreads events. Publishing never waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._subscriptions: set[_Subscription] = set()
        self._views: dict[str, _View] = {}
        self._pasts: dict[str, ReplayBuffer] = {}
        """Buffers of sessions that a named client follows, or did until lately."""

    def publish(self, event: TurnEvent) -> None:
        """Send an event to all subscribers of its session."""
        self._keep(event)
        buffer = self._pasts.get(event.session)
        numbered = buffer.add(event) if buffer else Numbered(0, event, self._clock.monotonic())
        for subscription in list(self._subscriptions):
            if subscription.session in (None, event.session) and not subscription.offer(numbered):
                self._subscriptions.discard(subscription)

    def notice(self, text: str) -> None:
        """Show a line to the admins in every session that is being watched."""
        watched = {subscription.session for subscription in self._subscriptions}
        for session in filter(None, watched):
            self.publish(Notice(session, text, for_admins=True))

    def now(self, session: str) -> SessionNow:
        """Return the turn that runs in `session` and what it has streamed; questions and todos are not the bus's."""
        view = self._views.get(session)
        return view.now() if view else SessionNow()

    @asynccontextmanager
    async def subscribe(self, session: str | None) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        """Subscribe to events of one session or of all; the stream ends when the subscriber lags too far behind."""
        subscription = _Subscription(session)
        self._subscriptions.add(subscription)
        try:
            yield subscription.events()
        finally:
            self._subscriptions.discard(subscription)

    @asynccontextmanager
    async def follow(self, session: str, client: str = "", position: Position = NOWHERE) -> AsyncIterator[Following]:
        """Follow events of a session for a client that may be cut off and come back.

        Args:
            client: the client's own name, the same after every break; empty: it will not go on where it was.
            position: where it is in the events, if it knows.
        """
        self._forget_pasts()
        subscription = _Subscription(session)
        buffer = self._pasts.setdefault(session, ReplayBuffer(self._clock)) if client else None
        missed = buffer.since(position) if buffer else None
        begins = position if missed is not None else buffer.end if buffer else NOWHERE
        visit = buffer.enter(client, begins) if buffer else 0
        self._subscriptions.add(subscription)
        try:
            yield Following(begins, missed is not None, subscription.numbered(missed or ()), subscription.end)
        finally:
            self._subscriptions.discard(subscription)
            if buffer:
                buffer.leave(client, visit)

    def acknowledge(self, session: str, client: str, number: int) -> None:
        """Record that `client` has shown everything up to event `number` of the session."""
        if buffer := self._pasts.get(session):
            buffer.acknowledge(client, number)

    def _forget_pasts(self) -> None:
        """Give up what is kept for clients that do not come back."""
        for session, buffer in list(self._pasts.items()):
            if buffer.is_over():
                del self._pasts[session]

    def moved(self, session: str) -> float | None:
        """Return the monotonic time of the running turn's last event (a token, a step, a tool); None: none runs."""
        view = self._views.get(session)
        return view.moved if view else None

    def _keep(self, event: TurnEvent) -> None:
        if view := self._views.get(event.session):
            view.moved = self._clock.monotonic()
        match event:
            case TurnStarted():
                self._views[event.session] = _View(event.turn, self._clock.now(), self._clock.monotonic())
                self._forget_pasts()
            case TurnFinished():
                self._views.pop(event.session, None)
            case TextStreamed() | ThinkingStreamed() | MessageStored() | StreamRestarted():
                view = self._views.get(event.session)
                if view is not None:
                    view.keep(event)
            case _:
                pass
