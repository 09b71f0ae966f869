"""What stands in a conversation: what a person said, what the agent answers, and lines of GoClaw itself."""

import asyncio
import time
from typing import Literal

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from goclaw.tui.markdown import Document
from goclaw.tui.text import printable

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


class Answer(Widget):
    """An answer of the agent, whole or growing."""

    DEFAULT_CSS = """
    Answer { width: 1fr; height: auto; margin: 1 0 0 0; padding: 0 1 0 2; }
    """

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._document = Document()
        self._document.append(printable(text))
        self._fed: list[str] = []
        self._due = asyncio.Event()
        self._painting: asyncio.Task[None] | None = None
        self._drawn: tuple[int, list[Content]] | None = None
        """A width and the lines for it."""

    @property
    def source(self) -> str:
        """What is painted so far, as Markdown."""
        return self._document.text

    def feed(self, text: str) -> None:
        """Let the answer grow by `text`. Costs nothing: what has gathered is painted at intervals."""
        self._fed.append(text)
        self._due.set()
        if self._painting is None:
            self._painting = asyncio.create_task(self._paint(), name="painting an answer")

    def finish(self, text: str) -> None:
        """The whole answer is `text`, whatever was fed."""
        self.on_unmount()
        whole = printable(text)
        if not whole.startswith(self.source):
            self._document = Document()
        self._grow(whole[len(self.source) :])

    def on_unmount(self) -> None:
        """End with the widget."""
        if self._painting is not None:
            self._painting.cancel()
            self._painting = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the text has at this width."""
        return len(self._lines(width))

    def render(self) -> Content:
        """The lines."""
        return Content("\n").join(self._lines(self.content_size.width))

    async def _paint(self) -> None:
        """Paint what has gathered, so seldom that painting takes a small share of the CPU."""
        while True:
            await self._due.wait()
            self._due.clear()
            text, self._fed = "".join(self._fed), []
            began = time.process_time()
            self._grow(printable(text))
            await asyncio.sleep(SHORTEST_PAUSE)
            spent = time.process_time() - began
            await asyncio.sleep(min(IDLE_SHARE * spent, LONGEST_PAUSE))

    def _grow(self, text: str) -> None:
        if text:
            self._document.append(text)
        self._drawn = None
        self.refresh(layout=True)

    def _lines(self, width: int) -> list[Content]:
        if self._drawn is None or self._drawn[0] != width:
            self._drawn = (width, self._document.lines(width))
        return self._drawn[1]
