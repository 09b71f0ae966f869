"""Events from turns to their subscribers: terminals, pages, a channel's live view.

Only rows of the transcript are kept forever (`MessageStored`); everything else is gone once it was shown. A client
that comes late reads the rows and the current partial answer, then listens.

For a client with a name that was cut off, its unacknowledged events are kept for a while (`replay_buffer`): it
continues there.

Where several processes share the store, `OtherProcesses` carries events between them.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import (
    MessageStored,
    Notice,
    SessionNow,
    StreamRestarted,
    TextStreamed,
    ThinkingStreamed,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.replay_buffer import NOWHERE, Numbered, Position, ReplayBuffer

log = logging.getLogger(__name__)

EventT = TypeVar("EventT", bound=TurnEvent)

BACKLOG = 10_000
"""Maximum events waiting for one subscriber. A slower one is cut off and reads the rows again."""


class _Subscription:
    def __init__(self, session: str | None) -> None:
        self.session = session
        self._events: asyncio.Queue[Numbered | None] = asyncio.Queue()

    def offer(self, numbered: Numbered) -> bool:
        """Add an event to the queue. False: the subscriber lags too far and is cut off."""
        if self._events.qsize() >= BACKLOG:
            self.end()
            return False
        self._events.put_nowait(numbered)
        return True

    def end(self) -> None:
        """Accept no more events; the queued ones are still delivered."""
        self._events.put_nowait(None)

    async def events(self) -> AsyncIterator[TurnEvent]:
        async with aclosing(self.numbered(())) as numbered:
            async for _, event, _ in numbered:
                yield event

    async def numbered(self, missed: Sequence[Numbered]) -> AsyncGenerator[Numbered, None]:
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
    missed: Sequence[Numbered] = ()
    """The first of `events`: those that happened while the client was away."""


@dataclass(slots=True)
class _View:
    """The state of a running turn as a new subscriber would see it."""

    turn: str
    since: float
    moved: float
    """Monotonic time of its last event."""
    text: list[str] = field(default_factory=list)
    thinking: list[str] = field(default_factory=list)

    def record(self, event: TextStreamed | ThinkingStreamed | MessageStored | StreamRestarted) -> None:
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


class OtherProcesses(Protocol):
    """The processes that share the store, which follow sessions of this one and own sessions that are followed here."""

    def publish(self, event: TurnEvent) -> None:
        """Send an event, which was shown here, to the processes that follow its session."""
        ...

    def send_notice(self, text: str, code: str) -> None:
        """Have a line shown to the admins in every session that is being watched elsewhere."""
        ...

    def reading(self, session: str) -> AbstractAsyncContextManager[None]:
        """Have the owner of a session send its events while the block runs.

        Raises:
            DiskError: the store cannot be read.
        """
        ...

    async def state(self, session: str) -> SessionNow | None:
        """See `Bus.state`."""
        ...


class Bus:
    """Spreads events. Publishing never waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._others: OtherProcesses | None = None
        self._subscriptions: set[_Subscription] = set()
        self._watchers: dict[type, list[Callable[[Any], None]]] = {}
        self._views: dict[str, _View] = {}
        self._pasts: dict[str, ReplayBuffer] = {}
        """Buffers of sessions that a named client follows, or did until lately."""

    @contextmanager
    def connected_to(self, others: OtherProcesses) -> Iterator[None]:
        """Exchange events with other processes while the block runs."""
        self._others = others
        try:
            yield
        finally:
            self._others = None

    def publish(self, event: TurnEvent) -> None:
        """Send an event to all subscribers of its session, in every process."""
        self.publish_here(event)
        if self._others is not None:
            self._others.publish(event)

    def publish_here(self, event: TurnEvent) -> None:
        """Send an event to the subscribers in this process only."""
        self._record(event)
        for watcher in self._watchers.get(type(event), ()):
            try:
                watcher(event)
            except Exception:  # no turn fails because of what merely watches it
                log.exception("a watcher of events failed")
        self._offer(event, None, event.session)

    def show(self, event: TurnEvent, since: float = 0.0) -> None:
        """Send an event of a turn that another process runs to the subscribers of its session, and to no others.

        Args:
            event: what happened.
            since: of a `TurnStarted`: when the turn began, in epoch seconds; 0: now.
        """
        self._record(event)
        if since and (view := self._views.get(event.session)):
            view.since = since
        self._offer(event, event.session)

    def _offer(self, event: TurnEvent, *sessions: str | None) -> None:
        buffer = self._pasts.get(event.session)
        numbered = buffer.add(event) if buffer else Numbered(0, event, self._clock.monotonic())
        for subscription in list(self._subscriptions):
            if subscription.session in sessions and not subscription.offer(numbered):
                self._subscriptions.discard(subscription)

    def watch(self, kind: type[EventT], watcher: Callable[[EventT], None]) -> None:
        """Call `watcher` with each event of this kind of any session, from now on, while it is published.

        For what counts and never waits; nothing is queued, and other kinds of events cost nothing.
        """
        self._watchers.setdefault(kind, []).append(watcher)

    def notice(self, text: str, *, code: str = "") -> None:
        """Show a line to the admins in every session that is being watched. `code`: see `Notice`."""
        for session in self.subscribed_sessions():
            self.publish_here(Notice(session, text, for_admins=True, code=code))
        if self._others is not None:
            self._others.send_notice(text, code)

    def subscribed_sessions(self) -> set[str]:
        """Return the sessions that have a subscriber of their own in this process."""
        return {subscription.session for subscription in self._subscriptions if subscription.session is not None}

    def now(self, session: str) -> SessionNow:
        """Return the turn that runs in `session` and its streamed text; questions and todos are not the bus's."""
        view = self._views.get(session)
        return view.now() if view else SessionNow()

    async def state(self, session: str) -> SessionNow | None:
        """Return the state of a session for a client that follows it next, wherever its turns run.

        None: they run here, and `now` is right.

        Raises:
            DiskError: it has to be asked for, and the store cannot be reached.
        """
        return await self._others.state(session) if self._others is not None else None

    @asynccontextmanager
    async def subscribe(self, session: str | None) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        """Subscribe to events of one session or of all; the stream ends when the subscriber lags too far.

        Raises:
            DiskError: the session may be another process's, and the store cannot be read.
        """
        subscription = _Subscription(session)
        async with self._reading(session):
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

        Raises:
            DiskError: the session may be another process's, and the store cannot be read.
        """
        # Waits for nothing where `state` was asked for before: no event comes between the two.
        async with self._reading(session):
            self.forget_pasts()
            subscription = _Subscription(session)
            buffer = self._pasts.setdefault(session, ReplayBuffer(self._clock)) if client else None
            missed = buffer.since(position) if buffer else None
            begins = position if missed is not None else buffer.end if buffer else NOWHERE
            visit = buffer.enter(client, begins) if buffer else 0
            self._subscriptions.add(subscription)
            try:
                past = missed or ()
                yield Following(begins, missed is not None, subscription.numbered(past), subscription.end, past)
            finally:
                self._subscriptions.discard(subscription)
                if buffer:
                    buffer.leave(client, visit)

    def _reading(self, session: str | None) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self._others is None or session is None else self._others.reading(session)

    def acknowledge(self, session: str, client: str, number: int) -> None:
        """Record that `client` has shown everything up to event `number` of the session."""
        if buffer := self._pasts.get(session):
            buffer.acknowledge(client, number)

    def has_past(self, session: str) -> bool:
        """Return whether events of a session are kept for a client that was cut off."""
        return session in self._pasts

    def forget(self, session: str) -> None:
        """Drop the data on a session that this process neither owns nor follows."""
        self._views.pop(session, None)
        self._pasts.pop(session, None)

    def forget_pasts(self) -> None:
        """Drop the events kept for clients that do not come back."""
        for session, buffer in list(self._pasts.items()):
            if buffer.is_over():
                del self._pasts[session]

    def last_event_time(self, session: str) -> float | None:
        """Return the monotonic time of the running turn's last event (a token, a step, a tool); None: none runs."""
        view = self._views.get(session)
        return view.moved if view else None

    def _record(self, event: TurnEvent) -> None:
        if view := self._views.get(event.session):
            view.moved = self._clock.monotonic()
        match event:
            case TurnStarted():
                self._views[event.session] = _View(event.turn, self._clock.now(), self._clock.monotonic())
                self.forget_pasts()
            case TurnFinished():
                self._views.pop(event.session, None)
            case TextStreamed() | ThinkingStreamed() | MessageStored() | StreamRestarted():
                view = self._views.get(event.session)
                if view is not None:
                    view.record(event)
