"""Messages about sessions between processes that share a store, and the queue that sends them.

Texts are joined: a model that streams a hundred pieces a second makes ten messages of them. Everything else goes
immediately, with what waited before it: the order of a session's events is kept.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from goclaw.common.core.clock import Clock
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Address, MessageStored, SessionNow, TextStreamed, ThinkingStreamed, TurnEvent
from goclaw.common.core.fencing import Fence
from goclaw.common.core.records import record
from goclaw.common.core.supervise import set_within
from goclaw.common.core.wire import Happened, event_frame, event_of
from goclaw.durable.store.replicas import EVERYONE, Exchange
from goclaw.errors import StateError

log = logging.getLogger(__name__)

FLUSH_SECONDS = 0.1
"""Seconds between two messages with texts of a model: a person sees no difference to each piece at once."""
RETRY_SECONDS = 0.5
"""Seconds between two tries to send, while the store cannot be reached."""
MAX_CHARACTERS = 4_000_000
"""Maximum waiting characters. Beyond that, readers elsewhere get the whole state of their session again."""

WATCH, UNWATCH = "watch", "unwatch"
"""To everyone: a process has readers of a session, or none any more."""
NOW = "now"
"""To a process that watches: the state of a session, up to which it has missed nothing that follows."""
EVENT = "event"
"""To all that watch: something happened in a session, as its owner has published it."""
ROW = "row"
"""The same for a row of the transcript, which is read from the store."""
BESIDE = "beside"
"""To everyone: something happened in a session, published by a process that does not own it."""
NOTICE = "notice"
"""To everyone: a line for the admins who watch any session."""


@record
class Parcel:
    """A message of one process to others. Fields that a newer version adds are passed over."""

    kind: str
    sender: str
    """Name of the process."""
    number: int = 0
    """Grows with each message of the process."""
    session: str = ""
    epoch: int = 0
    """Epoch of the sender's lease of the session; 0: it says nothing as its owner."""
    lease: str = ""
    """With `NOW`: the session of that lease; another one where an agent works under its person's."""
    row: int = 0
    """With `NOW` the last row that was published, with `ROW` the one that is."""
    happened: Happened | None = None
    now: SessionNow | None = None
    address: Address | None = None
    """Where the running turn's answer goes."""
    text: str = ""
    code: str = ""
    """With `NOTICE`: see `Notice`."""

    @property
    def event(self) -> TurnEvent | None:
        """The event in it; None: none, or one that only a newer version knows."""
        return event_of(self.happened) if self.happened else None


PARCEL: Codec[Parcel] = Codec(Parcel)


@dataclass(slots=True)
class _Waiting:
    to: frozenset[str]
    kind: str
    session: str
    epoch: int = 0
    event: TurnEvent | None = None
    texts: list[str] = field(default_factory=list)
    """Of a streamed text: all its pieces."""
    more: dict[str, Any] = field(default_factory=dict)

    def takes(self, other: "_Waiting") -> bool:
        """Whether another streamed text is joined to this one."""
        mine, its = self.event, other.event
        if not isinstance(mine, TextStreamed | ThinkingStreamed) or type(mine) is not type(its):
            return False
        return mine.turn == its.turn and self.to == other.to and self.epoch == other.epoch

    def parcel(self, sender: str, number: int) -> Parcel:
        event = self.event
        if isinstance(event, TextStreamed | ThinkingStreamed):
            event = type(event)(event.turn, event.session, "".join(self.texts))
        frame = event_frame(event) if event is not None else None
        return Parcel(self.kind, sender, number, self.session, self.epoch, happened=frame, **self.more)


class ParcelQueue:
    """The events that wait to be sent by this process. Adding never waits; sending holds no one up."""

    def __init__(self, exchange: Exchange, clock: Clock, missed: Callable[[str, frozenset[str]], None]) -> None:
        """`missed`: called with a session and the processes that did not get what happened in it."""
        self._exchange = exchange
        self._clock = clock
        self._missed = missed
        self._waiting: list[_Waiting] = []
        self._last: dict[str, _Waiting] = {}
        """The last event added, by session."""
        self._characters = 0
        self._numbers = count(1)
        self._some = asyncio.Event()
        self._urgent = asyncio.Event()
        self._sent_at = -FLUSH_SECONDS
        self._sending = asyncio.Lock()

    def add(self, to: frozenset[str], session: str, epoch: int, event: TurnEvent) -> None:
        """Send an event of a session that this process owns."""
        match event:
            case TextStreamed() | ThinkingStreamed():
                self._put(_Waiting(to, EVENT, session, epoch, event, [event.text]))
            case MessageStored():
                self._put(_Waiting(to, ROW, session, epoch, more={"row": event.row}))
            case _:
                self._put(_Waiting(to, EVENT, session, epoch, event))

    def introduce(
        self, to: str, session: str, fence: Fence, now: SessionNow, row: int, address: Address | None
    ) -> None:
        """Send the state of a session; after it, a process has missed nothing."""
        more = {"lease": fence.session, "row": row, "now": now, "address": address}
        self._put(_Waiting(frozenset({to}), NOW, session, fence.epoch, more=more))

    def broadcast(
        self, kind: str, session: str = "", event: TurnEvent | None = None, text: str = "", code: str = ""
    ) -> None:
        """Send something to all other processes."""
        self._put(_Waiting(frozenset({EVERYONE}), kind, session, event=event, more={"text": text, "code": code}))

    def _put(self, waiting: _Waiting) -> None:
        self._characters += sum(map(len, waiting.texts)) or 100
        if (last := self._last.get(waiting.session)) and last.takes(waiting):
            last.texts += waiting.texts
        else:
            self._waiting.append(waiting)
            self._last[waiting.session] = waiting
        if self._characters > MAX_CHARACTERS:
            self._resend_state(self._pop_all())
        if not waiting.texts:
            self._urgent.set()
        self._some.set()

    async def run(self) -> None:
        """Send everything that is added, until cancelled."""
        while True:
            await self._some.wait()
            left = self._sent_at + FLUSH_SECONDS - self._clock.monotonic()
            if left > 0 and not self._urgent.is_set():
                await set_within(self._urgent, self._clock, left)
            if not await self.flush():
                await self._clock.sleep(RETRY_SECONDS)

    async def flush(self) -> bool:
        """Send what waits now. False: the store cannot be reached."""
        async with self._sending:
            if not (taken := self._pop_all()):
                return True
            self._sent_at = self._clock.monotonic()
            is_sent = False
            try:
                await self._exchange.send([*self._messages(taken)])
                is_sent = True
            except StateError as error:
                log.debug("processes that share the store are not told: %s", error)
            finally:
                if not is_sent:
                    self._resend_state(taken)
        return is_sent

    def _messages(self, taken: Iterable[_Waiting]) -> Iterable[tuple[str, str]]:
        for waiting in taken:
            text = PARCEL.to_json(waiting.parcel(self._exchange.replica, next(self._numbers)))
            for to in sorted(waiting.to):
                yield to, text

    def _pop_all(self) -> list[_Waiting]:
        taken, self._waiting = self._waiting, []
        self._last.clear()
        self._characters = 0
        self._some.clear()
        self._urgent.clear()
        return taken

    def _resend_state(self, taken: Iterable[_Waiting]) -> None:
        """Resend the state of sessions that readers miss something of; retry messages for everyone."""
        again, missed = list[_Waiting](), dict[str, set[str]]()
        for waiting in taken:
            if EVERYONE in waiting.to:
                again.append(waiting)
            else:
                missed.setdefault(waiting.session, set()).update(waiting.to)
        self._waiting = [*again, *self._waiting]
        if self._waiting:
            self._some.set()
        for session, replicas in missed.items():
            self._missed(session, frozenset(replicas))
