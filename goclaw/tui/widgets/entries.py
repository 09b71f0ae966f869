"""What stands in a conversation: what a person said, what the agent answers, and lines of GoClaw itself."""

import asyncio
import time
from typing import Literal

from textual.content import Content
from textual.widgets import Markdown, Static

from goclaw.tui.text import markdown_parser, printable

SHORTEST_PAUSE, LONGEST_PAUSE = 0.06, 1.0
"""Seconds between two paintings of a growing answer."""
IDLE_SHARE = 10
"""For each second of CPU that painting costs, this many are left to everything else."""


class Said(Static):
    """A person's message."""

    DEFAULT_CSS = """
    Said {
        height: auto; margin: 1 0 0 0; padding: 0 1;
        border-left: thick $accent; background: $boost;
    }
    Said.-waiting { color: $text-muted; border-left: thick $surface-lighten-2; }
    """

    def __init__(self, text: str, *, sender: str = "", waiting: bool = False) -> None:
        name = Content.styled(f"{printable(sender)}\n", "$text-muted") if sender else Content("")
        super().__init__(name + Content(printable(text)))
        self.set_class(waiting, "-waiting")


class Note(Static):
    """A line that neither a person nor the agent wrote: a command's answer, a notice, an error."""

    DEFAULT_CSS = """
    Note { height: auto; margin: 1 0 0 0; padding: 0 1 0 2; color: $text-muted; }
    Note.-reply { padding: 0 1; color: $foreground; border-left: solid $secondary; }
    Note.-error { padding: 0 1; color: $text-error; border-left: solid $error; }
    """

    def __init__(self, text: str, kind: Literal["notice", "reply", "error"] = "notice") -> None:
        super().__init__(Content(printable(text)), classes=f"-{kind}")


class Answer(Markdown):
    """An answer of the agent, whole or growing."""

    DEFAULT_CSS = """
    Answer { margin: 1 0 0 0; padding: 0 1 0 2; }
    Answer > MarkdownParagraph:last-child { margin-bottom: 0; }
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(printable(text) or None, parser_factory=markdown_parser)
        self._fed: list[str] = []
        self._due = asyncio.Event()
        self._painting: asyncio.Task[None] | None = None
        self._appending: asyncio.Future[None] | None = None

    def feed(self, text: str) -> None:
        """Let the answer grow by `text`. Costs nothing: what has gathered is painted at intervals."""
        self._fed.append(text)
        self._due.set()
        if self._painting is None:
            self._painting = asyncio.create_task(self._paint(), name="painting an answer")

    async def finish(self, text: str) -> None:
        """The whole answer is `text`, whatever was fed."""
        await self._rest()
        fed, self._fed = printable("".join(self._fed)), []
        whole = printable(text)
        if self.source + fed != whole:
            await self.update(whole)
        elif fed:
            await self.append(fed)

    async def _paint(self) -> None:
        """Append in order, never two at a time, and so slowly that painting takes a small share of the CPU."""
        while True:
            await self._due.wait()
            self._due.clear()
            text, self._fed = printable("".join(self._fed)), []
            began = time.process_time()
            self._appending = asyncio.ensure_future(self._append(text))
            # Cut in the middle, an append would leave half of its text behind.
            await asyncio.shield(self._appending)
            await asyncio.sleep(SHORTEST_PAUSE)
            spent = time.process_time() - began
            await asyncio.sleep(min(IDLE_SHARE * spent, LONGEST_PAUSE))

    async def _append(self, text: str) -> None:
        await self.append(text)

    async def _rest(self) -> None:
        if self._painting is not None:
            self._painting.cancel()
            await asyncio.gather(self._painting, return_exceptions=True)
            self._painting = None
        if self._appending is not None:
            await self._appending

    def on_unmount(self) -> None:
        """End with the widget."""
        if self._painting is not None:
            self._painting.cancel()
