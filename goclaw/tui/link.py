"""A session's connection to the daemon, kept through disconnects and restarts of either side."""

import asyncio
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from goclaw.errors import StateError
from goclaw.events import MessageStored
from goclaw.replay_buffer import NOWHERE, Position
from goclaw.supervise import background
from goclaw.tui.client import Client, DaemonRefusal, Received, attach
from goclaw.tui.remote import Way, person_at
from goclaw.wire import Accepted, Ack, Attached, ClientFrame, Decide

RETRY_SECONDS = 0.5
"""Between two tries to reach the daemon; on this machine a try costs next to nothing."""
REFUSED_SECONDS = 5.0
"""Between two tries to enter a session that is not open to us: users.json may change, but not because we ask."""
MISSED_ROWS = 5_000
"""Rows that are fetched after a break. Who missed more starts anew from the last ones."""
ACK_SECONDS = 1.0
"""Between two acknowledgements of events: a second of what happens, which the daemon keeps, is next to nothing."""


_Outgoing = asyncio.Queue[str | ClientFrame]


class Watcher(Protocol):
    """The receiver of a link's events, called with one after the other."""

    async def attached(self, attached: Attached, *, resumed: bool) -> None:
        """Handle a new connection; `resumed` if the rows in `attached` follow those received before."""
        ...

    async def went_on(self, attached: Attached) -> None:
        """Handle a restored connection; everything that happened meanwhile is still to be `received`."""
        ...

    async def received(self, received: Received) -> None:
        """Handle a frame of the daemon."""
        ...

    async def lost(self, reason: str) -> None:
        """Handle a connection that broke or could not be made."""
        ...

    async def refused(self, reason: str) -> None:
        """Handle a refusal: the person has no access to the session."""
        ...


class Link:
    """Attaches, listens and sends. `run` does the work; the other methods may be called at any time."""

    def __init__(self, way: Way, session: str, limit: int) -> None:
        self._way = way
        self._session = session
        self._limit = limit
        self._name = uuid.uuid4().hex
        self._last_row = 0
        self._was_attached = False
        self._position = NOWHERE
        """The position after the last event passed to the watcher."""
        self._shown = asyncio.Event()
        """There is something to acknowledge."""
        self._waiting: dict[str, str] = {}
        """Messages that the daemon has not acknowledged, by id, in order."""
        self._outgoing: _Outgoing = asyncio.Queue()
        """Ids of messages to send, and frames that are sent once or not at all."""
        self.connected = False
        self.taken = ""
        """The message that belongs to the `Accepted` being handled by the watcher."""
        self.at = 0.0
        """When the event being handled happened, on the daemon's clock in epoch seconds; 0: not known."""

    @property
    def session(self) -> str:
        """Return the requested session; the daemon may know it under another name."""
        return self._session

    @property
    def person(self) -> str:
        """Return the actor key of the person at this terminal, in this session."""
        return person_at(self._way, self._session)

    def enter(self, session: str, waiting: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """Be a link to another session from the next `run` on; the one before must be cancelled in the same breath.

        `waiting` are messages for it that no daemon has taken. Returns those of the session before, by their ids: they
        belong there and nowhere else.
        """
        left, self._waiting = self._waiting, dict(waiting)
        self._session, self._last_row, self._position = session, 0, NOWHERE
        self._outgoing = asyncio.Queue()
        self.connected = self._was_attached = False
        return left

    def submit(self, text: str) -> str:
        """Send `text` now, or as soon as there is a daemon; returns the id of the turn that it may become."""
        message_id = uuid.uuid4().hex
        self._waiting[message_id] = text
        self._outgoing.put_nowait(message_id)
        return turn_of(message_id)

    def ask(self, frame: ClientFrame) -> bool:
        """Send `frame` once; what the daemon answers comes as `received`. False: there is no connection."""
        if self.connected:
            self._outgoing.put_nowait(frame)
        return self.connected

    def decide(self, question: str, answer: str) -> str:
        """Answer a question by its id; returns the id under which the daemon confirms, empty without a connection.

        It is never sent again after a break: by then the question may be gone, or seen with other eyes. Whether it
        counted is seen from the question, which is closed or still open.
        """
        frame = Decide(uuid.uuid4().hex, question, answer)
        return frame.id if self.ask(frame) else ""

    def unsent(self) -> list[str]:
        """The texts that no daemon has taken yet."""
        return list(self._waiting.values())

    def waiting(self) -> dict[str, str]:
        """Return the same, by the ids of their messages."""
        return dict(self._waiting)

    def refused(self, message_id: str) -> str | None:
        """Give up the message with this id; returns its text, None when there is no such message."""
        return self._waiting.pop(message_id, None)

    async def run(self, watcher: Watcher) -> None:
        """Stay attached until cancelled, and pass every event to `watcher`."""
        while True:
            try:
                await self._attend(watcher)
                reason = "the daemon ended"
            except DaemonRefusal as refusal:
                await watcher.refused(str(refusal))
                await asyncio.sleep(REFUSED_SECONDS)
                continue
            except StateError as error:
                reason = str(error)
            self.connected = False
            await watcher.lost(reason)
            await asyncio.sleep(RETRY_SECONDS)

    async def _attend(self, watcher: Watcher) -> None:
        limit = MISSED_ROWS if self._was_attached else self._limit
        async with attach(
            self._way, self._session, after=self._last_row, limit=limit, name=self._name, position=self._position
        ) as client:
            attached = client.attached
            self._outgoing = asyncio.Queue()
            for message_id in self._waiting:
                self._outgoing.put_nowait(message_id)
            self.connected = True
            if attached.goes_on:
                await watcher.went_on(attached)
            else:
                resumed = self._was_attached and len(attached.history) < limit and not attached.anew
                self._saw(attached.history)
                await watcher.attached(attached, resumed=resumed)
                self._position = Position(attached.epoch, attached.seen)
                self._was_attached = True
            async with (
                background(_send(client, self._outgoing, self._waiting), "sending"),
                background(self._acknowledge(self._outgoing), "acknowledging"),
            ):
                async for received in client.received():
                    if isinstance(received, MessageStored):
                        self._saw([received])
                    elif isinstance(received, Accepted):
                        self.taken = self._waiting.pop(received.id, "")
                    self.at = client.at
                    await watcher.received(received)
                    self._went_on_to(client.seen)

    def _saw(self, rows: list[MessageStored]) -> None:
        self._last_row = max([self._last_row, *(row.row for row in rows)])

    def _went_on_to(self, number: int) -> None:
        if number > self._position.number:
            self._position = Position(self._position.epoch, number)
            self._shown.set()

    async def _acknowledge(self, outgoing: "_Outgoing") -> None:
        while True:
            await self._shown.wait()
            self._shown.clear()
            if self._position.epoch:
                outgoing.put_nowait(Ack(self._position.number))
            await asyncio.sleep(ACK_SECONDS)


async def _send(client: Client, outgoing: "_Outgoing", waiting: Mapping[str, str]) -> None:
    """Send what comes; bound to one connection, so that nothing reaches a session that it was not meant for."""
    try:
        while True:
            next_one = await outgoing.get()
            if not isinstance(next_one, str):
                await client.ask(next_one)
            elif next_one in waiting:
                await client.submit(waiting[next_one], next_one)
    except StateError:
        return  # the reader of the connection notices, too, and attaches anew


def turn_of(message_id: str) -> str:
    """Return the id of the turn that a client's message becomes (see `servers.serving`)."""
    return f"socket:{message_id}"
