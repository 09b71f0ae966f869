"""A tool call as a card that folds."""

from collections.abc import Mapping
from typing import Any

import orjson
from textual import events
from textual.content import Content
from textual.widgets import Static

from goclaw.clock import Clock
from goclaw.tui.text import hint, one_line, printable, seconds, whole_seconds

HINT_LENGTH = 60
SHOWN_LINES = 200
"""Lines of a result in an open card; the transcript has all of it."""
LINE_LENGTH = 2_000


class ToolCard(Static):
    """One call: a line with its state, its name, a hint of its input and its time; open, input and result too."""

    DEFAULT_CSS = """
    ToolCard { height: auto; margin: 1 0 0 0; padding: 0 1; color: $text-muted; border-left: solid $surface-lighten-2; }
    ToolCard.-failed { border-left: solid $error; }
    ToolCard:hover { background: $boost; }
    """

    def __init__(self, name: str, given: Mapping[str, Any], clock: Clock, *, is_open: bool) -> None:
        super().__init__()
        self._tool = name
        self._given = given
        self._open = is_open
        self._content: str | None = None
        self._is_error = False
        self._took = ""
        self._clock = clock
        self._began: float | None = None
        """None: it was asked for and may still wait, for others or for a person."""

    def on_mount(self) -> None:
        """Show what is known."""
        self._show()

    @property
    def is_running(self) -> bool:
        """Whether the result is still to come."""
        return self._content is None

    def begin(self, age: float = 0.0) -> None:
        """The tool runs, since `age` seconds."""
        self._began = self._clock.monotonic() - age

    def finish(self, content: str, *, is_error: bool, took: float | None = None, about: float = 0.0) -> None:
        """The result; `took` in seconds where it is known, else `about`, of which parts of a second say nothing."""
        self._content, self._is_error = content, is_error
        if took is not None:
            self._took = seconds(took)
        elif not self._took and about >= 1:
            self._took = f"~{whole_seconds(about)}"
        self.set_class(is_error, "-failed")
        self._show()

    def tick(self) -> None:
        """Show how long it has been running."""
        if self.is_running:
            self._show()

    def fold(self, *, is_open: bool) -> None:
        """Open or close the card."""
        self._open = is_open
        self._show()

    def on_click(self, event: events.Click) -> None:
        """A click folds this one card; selecting text does not."""
        if not self.screen.get_selected_text():
            event.stop()
            self.fold(is_open=not self._open)

    def _show(self) -> None:
        self.update(Content("\n").join([self._headline(), *(self._inside() if self._open else self._folded())]))

    def _headline(self) -> Content:
        took = self._running_for() if self.is_running else self._took
        sign, style = ("●", "$warning") if self.is_running else ("✗", "$error") if self._is_error else ("✓", "$success")
        return Content.assemble(
            (f"{sign} ", style),
            (printable(self._tool), "bold $foreground"),
            f"  {hint(self._given, HINT_LENGTH)}" if self._given else "",
            f"  {took}" if took else "",
        )

    def _running_for(self) -> str:
        spent = 0.0 if self._began is None else self._clock.monotonic() - self._began
        return whole_seconds(spent) if spent >= 1 else ""

    def _folded(self) -> list[Content]:
        if self._content is None:
            return []
        lines = self._content.strip().splitlines()
        if not lines:
            return [Content("  (no output)")]
        more = f"  … {len(lines) - 1} more lines" if len(lines) > 2 else "  … 1 more line" if len(lines) == 2 else ""
        return [Content(f"  {one_line(lines[0], 100)}{more}")]

    def _inside(self) -> list[Content]:
        given = [
            Content.assemble((f"  {printable(name)}: ", "$text-accent"), _indented(_text_of(value)))
            for name, value in self._given.items()
        ]
        if self._content is None:
            return given
        lines = self._content.rstrip().splitlines() or ["(no output)"]
        shown = [Content(f"  {printable(line[:LINE_LENGTH]).expandtabs(4)}") for line in lines[:SHOWN_LINES]]
        if len(lines) > SHOWN_LINES:
            shown.append(Content(f"  … {len(lines) - SHOWN_LINES} more lines"))
        return [*given, Content.styled("  ─ result", "$text-accent"), *shown]


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _indented(text: str) -> str:
    first, *rest = printable(text[: SHOWN_LINES * 100]).splitlines() or [""]
    return "\n".join([first, *(f"    {line}" for line in rest)])
