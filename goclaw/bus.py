"""Events from turns to whoever watches: terminals, pages, a channel's live view.

Only rows of the transcript are kept for ever (`MessageStored`); everything else is gone once it was shown. A client
that comes late reads the rows and the current partial answer, then listens.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goclaw.events import (
    MessageStored,
    StreamRestarted,
    TextStreamed,
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


class Bus:
    """Spreads events. Publishing never waits."""

    def __init__(self) -> None:
        self._subscriptions: set[_Subscription] = set()
        self._partial: dict[str, list[str]] = {}

    def publish(self, event: TurnEvent) -> None:
        """Hand an event to everyone who watches its session."""
        self._keep_partial(event)
        for subscription in list(self._subscriptions):
            if subscription.session in (None, event.session) and not subscription.offer(event):
                self._subscriptions.discard(subscription)

    def partial(self, session: str) -> str:
        """The text of the answer that is being written."""
        return "".join(self._partial.get(session, ()))

    @asynccontextmanager
    async def subscribe(self, session: str | None) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        """Events from now on, of one session or of all; the stream ends when the subscriber lags too far behind."""
        subscription = _Subscription(session)
        self._subscriptions.add(subscription)
        try:
            yield subscription.events()
        finally:
            self._subscriptions.discard(subscription)

    def _keep_partial(self, event: TurnEvent) -> None:
        match event:
            case TextStreamed():
                self._partial.setdefault(event.session, []).append(event.text)
            case MessageStored() | StreamRestarted() | TurnFinished() | TurnStarted():
                self._partial.pop(event.session, None)
            case _:
                pass
