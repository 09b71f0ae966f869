"""A terminal client whose connection breaks again and again: it must see everything once."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from goclaw.clients.tui.client import Received
from goclaw.clients.tui.link import Link
from goclaw.common.auth.users import login_name
from goclaw.common.core.events import MessageStored
from goclaw.common.core.messages import AssistantMessage
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import Attached
from tests.acceptance.model import END
from tests.acceptance.waiting import clock

PAUSE = 6.0
"""Seconds between two messages."""


@dataclass
class Terminal:
    """What one person at the machine says and sees."""

    socket: Path
    said: list[str] = field(default_factory=list)
    rows: Counter[int] = field(default_factory=Counter)
    """How often each row of the transcript was shown."""
    answers: Counter[str] = field(default_factory=Counter)
    losses: int = 0
    _link: Link = field(init=False)

    def __post_init__(self) -> None:
        self._link = Link(self.socket, f"tui:{login_name()}", 500)

    async def run(self, breaks: Iterable[tuple[float, float]], began: float) -> None:
        """Stay attached but for the breaks, until cancelled."""
        async with background(self._talk(), "words at the terminal"):
            for at, lasts in breaks:
                async with background(self._link.run(self), "terminal"):
                    await clock.sleep(max(0.0, began + at - clock.monotonic()))
                self._link.connected = False
                self.losses += 1
                await clock.sleep(lasts)
            await self._link.run(self)

    def open_ones(self) -> list[str]:
        """Messages without an answer."""
        return [name for name in self.said if not self.answers[name]]

    async def _talk(self) -> None:
        while True:
            name = f"m{len(self.said)}t"
            self.said.append(name)
            self._link.submit(f"{name} plain")
            with suppress(TimeoutError):
                async with asyncio.timeout(20 * PAUSE):
                    await self._answered(name)
            await clock.sleep(PAUSE)

    async def _answered(self, name: str) -> None:
        while not self.answers[name]:
            await clock.sleep(0.1)

    def _saw(self, row: MessageStored) -> None:
        self.rows[row.row] += 1
        message = row.message
        if isinstance(message, AssistantMessage) and message.text.startswith("answer ") and message.text.endswith(END):
            self.answers[message.text.split()[1]] += 1

    async def on_attach(self, attached: Attached, *, resumed: bool) -> None:
        for row in attached.history:
            self._saw(row)

    async def went_on(self, attached: Attached) -> None:
        """Everything that was missed follows."""

    async def on_frame(self, received: Received) -> None:
        if isinstance(received, MessageStored):
            self._saw(received)

    async def on_disconnect(self, reason: str) -> None:
        """It comes back by itself."""

    async def on_refusal(self, reason: str) -> None:
        raise RuntimeError(f"the terminal was refused: {reason}")
