"""Events from turns to whoever watches: terminals, pages, a channel's live view.

Only rows of the transcript are kept for ever (`MessageStored`); everything else is gone once it was shown. A client
that comes late reads the rows and the current partial answer, then listens.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from goclaw.clock import Clock
from goclaw.events import (
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

BACKLOG = 10_000
"""Events that may wait for one subscriber. One that lags further behind is cut off and reads the rows anew."""


class _Subscription:
    def __init__(self, session: str | None) -> None:
        self.session = session
        self._events: asyncio.Queue[TurnEvent | None] = asyncio.Queue()

    def offer(self, event: TurnEvent) -> bool:
        """Hand an event over. False: the subscriber lags too far behind and is cut off."""
        if self._events.qsize() >= BACKLOG:
            self._events.put_nowait(None)
            return False
        self._events.put_nowait(event)
        return True

    async def events(self) -> AsyncIterator[TurnEvent]:
        while (event := await self._events.get()) is not None:
            yield event


@dataclass(slots=True)
class _View:
    """A turn as somebody would see it who looked now."""

    turn: str
    since: float
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

    def publish(self, event: TurnEvent) -> None:
        """Hand an event to everyone who watches its session."""
        self._keep(event)
        for subscription in list(self._subscriptions):
            if subscription.session in (None, event.session) and not subscription.offer(event):
                self._subscriptions.discard(subscription)

    def notice(self, text: str) -> None:
        """Show a line in every session that somebody watches."""
        watched = {subscription.session for subscription in self._subscriptions}
        for session in filter(None, watched):
            self.publish(Notice(session, text))

    def now(self, session: str) -> SessionNow:
        """The turn that runs in `session` and what it has streamed; questions and todos are not the bus's."""
        view = self._views.get(session)
        return view.now() if view else SessionNow()

    @asynccontextmanager
    async def subscribe(self, session: str | None) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        """Events from now on, of one session or of all; the stream ends when the subscriber lags too far behind."""
        subscription = _Subscription(session)
        self._subscriptions.add(subscription)
        try:
            yield subscription.events()
        finally:
            self._subscriptions.discard(subscription)

    def _keep(self, event: TurnEvent) -> None:
        match event:
            case TurnStarted():
                self._views[event.session] = _View(event.turn, self._clock.now())
            case TurnFinished():
                self._views.pop(event.session, None)
            case TextStreamed() | ThinkingStreamed() | MessageStored() | StreamRestarted():
                view = self._views.get(event.session)
                if view is not None:
                    view.keep(event)
            case _:
                pass
