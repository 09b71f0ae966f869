"""A conversation's connection to the daemon, kept through breaks and restarts of either side.

After a break it attaches again from the last row that was seen, and sends again what was not acknowledged; messages
carry ids, so the daemon takes none twice.
"""

import asyncio
import uuid
from pathlib import Path
from typing import Protocol

from goclaw.errors import StateError
from goclaw.events import MessageStored, SessionForgotten
from goclaw.supervise import background
from goclaw.tui.client import Client, Received, attach
from goclaw.users import login_name
from goclaw.wire import Accepted, Attached, ClientFrame, Decide

RETRY_SECONDS = 0.5
"""Between two tries to reach the daemon; on this machine a try costs next to nothing."""
MISSED_ROWS = 5_000
"""Rows that are fetched after a break. Who missed more starts anew from the last ones."""


class Watcher(Protocol):
    """Who is told what happens, one thing after the other."""

    async def attached(self, attached: Attached, *, resumed: bool) -> None:
        """The connection stands; `resumed` when the rows in `attached` follow those that were seen before."""
        ...

    async def received(self, received: Received) -> None:
        """Something came."""
        ...

    async def lost(self, reason: str) -> None:
        """The connection broke or could not be made."""
        ...


class Link:
    """Attaches, listens and sends. `run` does the work; the other methods may be called at any time."""

    def __init__(self, socket: Path, session: str, limit: int) -> None:
        self._socket = socket
        self._session = session
        self._limit = limit
        self._last_row = 0
        self._waiting: dict[str, str] = {}
        """Messages that the daemon has not acknowledged, by id, in order."""
        self._outgoing: asyncio.Queue[str | ClientFrame] = asyncio.Queue()
        """Ids of messages to send, and frames that are sent once or not at all."""
        self.connected = False

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

        It is never sent again after a break: by then the question may be gone, or seen with other eyes.
        """
        frame = Decide(uuid.uuid4().hex, question, answer)
        return frame.id if self.ask(frame) else ""

    def unsent(self) -> list[str]:
        """The texts that no daemon has taken yet."""
        return list(self._waiting.values())

    def refused(self, message_id: str) -> str | None:
        """Give up the message with this id; returns its text, None when there is no such message."""
        return self._waiting.pop(message_id, None)

    async def run(self, watcher: Watcher) -> None:
        """Stay attached until cancelled, and tell `watcher` everything."""
        while True:
            try:
                await self._attend(watcher)
                reason = "the daemon ended"
            except StateError as error:
                reason = str(error)
            self.connected = False
            await watcher.lost(reason)
            await asyncio.sleep(RETRY_SECONDS)

    async def _attend(self, watcher: Watcher) -> None:
        limit = MISSED_ROWS if self._last_row else self._limit
        async with attach(self._socket, self._session, after=self._last_row, limit=limit) as client:
            history = client.attached.history
            resumed = self._last_row > 0 and len(history) < limit and not client.attached.anew
            self._saw(history)
            self._outgoing = asyncio.Queue()
            for message_id in self._waiting:
                self._outgoing.put_nowait(message_id)
            self.connected = True
            await watcher.attached(client.attached, resumed=resumed)
            async with background(self._send(client), "sending"):
                async for received in client.received():
                    if isinstance(received, MessageStored):
                        self._saw([received])
                    elif isinstance(received, SessionForgotten):
                        self._last_row = 0
                    elif isinstance(received, Accepted):
                        self._waiting.pop(received.id, None)
                    await watcher.received(received)

    def _saw(self, rows: list[MessageStored]) -> None:
        self._last_row = max([self._last_row, *(row.row for row in rows)])

    async def _send(self, client: Client) -> None:
        try:
            while True:
                outgoing = await self._outgoing.get()
                if not isinstance(outgoing, str):
                    await client.ask(outgoing)
                elif outgoing in self._waiting:
                    await client.submit(self._waiting[outgoing], outgoing)
        except StateError:
            return  # whoever reads the connection notices, too, and attaches anew


def turn_of(message_id: str) -> str:
    """The id of the turn that a client's message becomes (see `servers.socket`)."""
    return f"socket:{message_id}"


def person_in(session: str) -> str:
    """The actor key of the person at this terminal (see `servers.socket`, which decides it)."""
    return session if session.startswith("tui:") else f"tui:{login_name()}"
