"""Entries of a conversation: a person's messages, the agent's answers, and lines of GoClaw itself."""

from typing import Literal

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from goclaw.tui.markdown import Document
from goclaw.tui.text import QUIET, printable
from goclaw.tui.widgets.growing import Growing
from goclaw.tui.widgets.lined import Lined

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
        self.take_fed()
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
        """Paint what has gathered; the rest of the screen moves only when there are more lines than before."""
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
