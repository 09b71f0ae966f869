"""A widget whose text comes in many small pieces."""

import asyncio
import time

from textual.widget import Widget

SHORTEST_PAUSE, MAX_PAUSE = 0.08, 1.0
"""Seconds between two paintings of a growing text."""
IDLE_SHARE = 20
"""For each second of CPU that painting costs, this many are left to everything else: five pictures a second or so."""


class Growing(Widget):
    """Gathers pieces, and passes them on to `grow` so seldom that painting takes a small share of the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self._fed: list[str] = []
        self._due = asyncio.Event()
        self._painting: asyncio.Task[None] | None = None

    def grow(self, text: str) -> None:
        """Take what has gathered, and paint."""
        raise NotImplementedError

    def feed(self, text: str) -> None:
        """Let the text grow. Costs nothing: what has gathered is painted at intervals."""
        self._fed.append(text)
        self._due.set()
        if self._painting is None:
            self._painting = asyncio.create_task(self._paint(), name="painting a growing text")

    def take_fed(self) -> str:
        """End the painting; returns what has gathered since the last one."""
        if self._painting is not None:
            self._painting.cancel()
            self._painting = None
        text, self._fed = "".join(self._fed), []
        return text

    def on_unmount(self) -> None:
        """End with the widget."""
        self.take_fed()

    async def _paint(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            text, self._fed = "".join(self._fed), []
            began = time.process_time()
            self.grow(text)
            await asyncio.sleep(SHORTEST_PAUSE)
            spent = time.process_time() - began
            await asyncio.sleep(min(IDLE_SHARE * spent, MAX_PAUSE))
