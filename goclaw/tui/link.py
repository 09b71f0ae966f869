"""A conversation's connection to the daemon, kept through breaks and restarts of either side.

After a break it attaches again from the last row that was seen, and sends again what was not acknowledged; messages
carry ids, so the daemon takes none twice.
"""

import asyncio
import uuid
from pathlib import Path
from typing import Protocol

from goclaw.errors import StateError
from goclaw.events import MessageStored
from goclaw.supervise import background
from goclaw.tui.client import Client, Received, attach
from goclaw.wire import Accepted, Attached

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
        self._outgoing: asyncio.Queue[str | None] = asyncio.Queue()
        """Ids of messages to send; None asks for the status."""
        self.connected = False

    def submit(self, text: str) -> str:
        """Send `text` now, or as soon as there is a daemon; returns the id of the turn that it may become."""
        message_id = uuid.uuid4().hex
        self._waiting[message_id] = text
        self._outgoing.put_nowait(message_id)
        return turn_of(message_id)

    def ask_status(self) -> None:
        """Ask for the session's numbers; nothing happens without a connection."""
        if self.connected:
            self._outgoing.put_nowait(None)

    def unsent(self) -> list[str]:
        """The texts that no daemon has taken yet."""
        return list(self._waiting.values())

    def refused(self) -> tuple[str, str] | None:
        """Give up the oldest message that was not acknowledged; returns its turn and text, None when none waits."""
        if not self._waiting:
            return None
        message_id = next(iter(self._waiting))
        return turn_of(message_id), self._waiting.pop(message_id)

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

    async def older(self, limit: int) -> list[MessageStored]:
        """The last `limit` rows of the session, over a connection of their own.

        Raises:
            StateError: no daemon answers.
        """
        async with attach(self._socket, self._session, limit=limit) as client:
            return client.attached.history

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
                    elif isinstance(received, Accepted):
                        self._waiting.pop(received.id, None)
                    await watcher.received(received)

    def _saw(self, rows: list[MessageStored]) -> None:
        self._last_row = max([self._last_row, *(row.row for row in rows)])

    async def _send(self, client: Client) -> None:
        try:
            while True:
                message_id = await self._outgoing.get()
                if message_id is None:
                    await client.ask_status()
                elif message_id in self._waiting:
                    await client.submit(self._waiting[message_id], message_id)
        except StateError:
            return  # whoever reads the connection notices, too, and attaches anew


def turn_of(message_id: str) -> str:
    """The id of the turn that a client's message becomes (see `servers.socket`)."""
    return f"socket:{message_id}"
