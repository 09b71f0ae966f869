"""Entries of a conversation: a person's messages, the agent's answers, and lines of GoClaw itself.

An answer comes in many small pieces (`Growing`), and only its lines in view are drawn, each once (`Lined`).
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Literal

from textual.content import Content
from textual.geometry import Size
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual
from textual.widget import Widget
from textual.widgets import Static

from goclaw.clients.tui.markdown import Document
from goclaw.clients.tui.text import QUIET, printable


class Lined(Widget):
    """Textual redraws a whole text for each change of it: a long answer that grows would cost more with every word.

    A line that is the same object as before, in the same place, is taken to be unchanged.
    """

    def __init__(self) -> None:
        super().__init__()
        self._strips: dict[int, tuple[Content, int, Style, Strip]] = {}
        """The drawn lines, by place: the line, the width and the style, and the result."""

    def lines(self, width: int) -> Sequence[Content]:
        """The text, no line wider than `width`."""
        raise NotImplementedError

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines of the text at this width."""
        return len(self.lines(width))

    def render(self) -> Content:
        """Return the whole text, from which selections are taken."""
        return Content("\n").join(self.lines(self.content_size.width))

    def render_line(self, y: int) -> Strip:
        """Return one line."""
        width, style = self.content_size.width, self.visual_style
        lines = self.lines(width)
        if y >= len(lines):
            return Strip.blank(width, style.rich_style)
        line, selection = lines[y], self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            start, end = span
            chosen = Style.from_styles(self.screen.get_component_styles("screen--selection"))
            return self._draw_line(line.stylize(chosen, start, len(line) if end == -1 else end), y, width, style)
        known = self._strips.get(y)
        if known is None or known[0] is not line or known[1:3] != (width, style):
            known = self._strips[y] = (line, width, style, self._draw_line(line, y, width, style))
        return known[3]

    def _draw_line(self, line: Content, y: int, width: int, style: Style) -> Strip:
        strips = Visual.to_strips(self, line, width, 1, style, apply_selection=False)
        # The mouse finds the letters that it selects by these offsets.
        return strips[0].apply_offsets(0, y) if strips else Strip.blank(width, style.rich_style)


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
        """Take the gathered text, and paint."""
        raise NotImplementedError

    def feed(self, text: str) -> None:
        """Let the text grow. Costs nothing: the gathered text is painted at intervals."""
        self._fed.append(text)
        self._due.set()
        if self._painting is None:
            self._painting = asyncio.create_task(self._paint(), name="painting a growing text")

    def finish_painting(self) -> str:
        """End the painting; returns the text gathered since the last one."""
        if self._painting is not None:
            self._painting.cancel()
            self._painting = None
        text, self._fed = "".join(self._fed), []
        return text

    def on_unmount(self) -> None:
        """End with the widget."""
        self.finish_painting()

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


Entry = Widget
"""Anything that stands in a conversation: these, cards of tools and questions, thoughts."""


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
        name = Content.styled(f"{printable(sender)}\n", QUIET) if sender else Content("")
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


class AnswerEntry(Lined, Growing):
    """An answer of the agent, whole or growing."""

    DEFAULT_CSS = """
    AnswerEntry { width: 1fr; height: auto; margin: 1 0 0 0; padding: 0 1 0 2; }
    """

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._document = Document()
        self._document.append(printable(text))
        self._wrapped: tuple[int, list[Content]] | None = None
        """A width and the lines for it."""
        self._height = 0

    @property
    def source(self) -> str:
        """Return the text painted so far, as Markdown."""
        return self._document.text

    def finish(self, text: str) -> None:
        """Show `text` as the whole answer, whatever was streamed."""
        self.finish_painting()
        whole = printable(text)
        if not whole.startswith(self.source):
            self._document = Document()
        self.grow(whole[len(self.source) :])

    def lines(self, width: int) -> list[Content]:
        """The text as lines; those of finished blocks stay the same objects while it grows."""
        if self._wrapped is None or self._wrapped[0] != width:
            self._wrapped = (width, self._document.lines(width))
        return self._wrapped[1]

    def grow(self, text: str) -> None:
        """Paint the gathered text; the rest of the screen moves only when there are more lines than before."""
        if text:
            self._document.append(printable(text))
        self._wrapped = None
        height = len(self.lines(self.content_size.width))
        self.refresh(layout=height != self._height)
        self._height = height


class PageEntry(AnswerEntry):
    """A command's answer with headings and tables."""

    DEFAULT_CSS = """
    PageEntry { margin: 1 0 0 0; padding: 0 1; border-left: solid $secondary; }
    """
