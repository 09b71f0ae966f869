"""Messages for a session that the terminal no longer shows: they are still sent there."""

import asyncio
from collections.abc import Callable, Mapping

from goclaw.events import AcceptKind
from goclaw.supervise import background
from goclaw.tui.client import Received
from goclaw.tui.link import Link
from goclaw.tui.remote import Way
from goclaw.tui.text import one_line
from goclaw.wire import Accepted, Attached, Refused

SHOWN = 200
"""Characters shown of a message, or of an answer to it."""


class UnsentMessages:
    """A `link.Watcher` that shows no conversation, only a sentence on each of these messages."""

    def __init__(self, way: Way, session: str, waiting: Mapping[str, str], tell: Callable[[str], None]) -> None:
        """`waiting`: texts by the ids of their messages."""
        self.link = Link(way, session, limit=1)
        self.link.enter(session, waiting)
        self._tell = tell
        self._told = False
        self._taken = asyncio.Event()

    async def deliver(self) -> None:
        """Return when every message was taken, or given back in words."""
        async with background(self.link.run(self), f"sending what is left for {self.link.session}"):
            await self._taken.wait()

    async def attached(self, attached: Attached, *, resumed: bool) -> None:
        """Do nothing: the link sends what is waiting."""

    async def went_on(self, attached: Attached) -> None:
        """Do nothing: the link sends what is waiting, as after `attached`."""

    async def received(self, received: Received) -> None:
        """Handle a frame of the daemon: a message was accepted, or refused."""
        match received:
            case Accepted() if received.acceptance.kind is AcceptKind.IGNORED:
                self._say("you may not write there")
            case Accepted() if received.acceptance.text:
                self._say(received.acceptance.text)
            case Refused() if (text := self.link.refused(received.id)) is not None:
                self._say(f"not taken: {received.reason} It was: {text}")
            case _:
                pass
        if not self.link.unsent():
            self._taken.set()

    async def lost(self, reason: str) -> None:
        """Do nothing: the link tries again."""

    async def refused(self, reason: str) -> None:
        """Do nothing: the link tries again, and access may come back."""
        if not self._told:
            self._told = True
            self._say(f"{len(self.link.unsent())} message(s) cannot be sent now: {reason}")

    def _say(self, sentence: str) -> None:
        self._tell(f"{self.link.session}: {one_line(sentence, SHOWN)}")
