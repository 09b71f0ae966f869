"""The line at the bottom: model, tokens, share of the context, cost, elapsed time, connection."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from textual.content import Content
from textual.widgets import Static

from goclaw.clients.tui.text import bar, count, one_line, printable, seconds

LONG_BAR, SHORT_BAR = 12, 6
"""Characters that show how full the context is."""
FEW_LETTERS = 24
"""Of a model's name, where there is little room."""


class Detail(IntEnum):
    """The amount of detail in the bar: as much as fits, and the time always."""

    ALL = 0
    NO_SESSION = 1
    SHORT = 2
    FEW = 3


class StatusBar(Static):
    """Shows numbers that it is given, and asks for none."""

    DEFAULT_CSS = """
    StatusBar { height: 1; padding: 0 1; background: $surface-lighten-1; color: $foreground; text-wrap: nowrap; }
    """

    def __init__(self, session: str) -> None:
        super().__init__()
        self._session = session
        self._numbers: Mapping[str, Any] = {}
        self._connection = "connecting"
        self._elapsed: float | None = None

    def on_mount(self) -> None:
        """Show the known values."""
        self._show()

    def on_resize(self) -> None:
        """Leave out or add parts as the width allows."""
        self._show()

    def enter(self, session: str) -> None:
        """Another session; its numbers come later."""
        self._session, self._numbers = session, {}
        self._show()

    def numbers(self, numbers: Mapping[str, Any]) -> None:
        """Show the numbers of `/status`."""
        self._numbers = numbers
        self._show()

    def connection(self, state: str) -> None:
        """`connected`, or the problem."""
        self._connection = state
        self._show()

    def elapsed(self, duration: float | None) -> None:
        """Seconds that the turn has been running; None when none is."""
        self._elapsed = duration
        self._show()

    def line(self, width: int) -> Content:
        """Return as much as fits into `width` columns."""
        shorter = (self._line(detail) for detail in Detail)
        return next((line for line in shorter if line.cell_length <= width), self._line(Detail.FEW))

    def _show(self) -> None:
        # A new layout of everything for one line that keeps its height would cost thirty times as much.
        self.update(self.line(self.content_size.width), layout=False)

    def _line(self, detail: Detail) -> Content:
        connected = self._connection == "connected"
        sign = ("●", "$text-success") if connected else ("○", "$text-error")
        parts = [Content.assemble(sign, f" {self._connection}")]
        if detail is Detail.ALL or not self._numbers:
            parts.append(Content(printable(self._session)))
        if self._numbers:
            parts += map(Content, self._figures(detail))
        if self._elapsed is not None:
            parts.append(Content.styled(seconds(self._elapsed), "bold"))
        return Content(" │ ").join(parts)

    def _figures(self, detail: Detail) -> list[str]:
        tokens, window = int(self._numbers.get("tokens", 0)), int(self._numbers.get("context_window", 0))
        model = printable(str(self._numbers.get("model", "")))
        share = f"{100 * tokens / window:.0f} %" if window else ""
        if not window:
            figures = [f"{count(tokens)} tokens"]
        elif detail is Detail.FEW:
            figures = [f"{count(tokens)} of {count(window)} ({share})"]
        else:
            cells = SHORT_BAR if detail is Detail.SHORT else LONG_BAR
            filled = bar(tokens, int(self._numbers.get("reserve", 0)), window, cells)
            unit = "" if detail is Detail.SHORT else " tokens"
            figures = [f"{count(tokens)} of {count(window)}{unit} {filled} {share}"]
        if detail is Detail.FEW:
            taken = sum(len(f"{mode} │ ") for mode in self._mode())
            model = one_line(model.rpartition(":")[2], FEW_LETTERS - taken)
        return [*self._mode(), model, *figures, *self._cost()]

    def _mode(self) -> list[str]:
        """A permission mode that is not the usual one."""
        mode = printable(str(self._numbers.get("mode", "default")))
        return [] if mode == "default" else [mode]

    def _cost(self) -> list[str]:
        """Return the cost of the session, with a `+` when the price of some answers is unknown."""
        cost, spent = self._numbers.get("cost"), self._numbers.get("spent") or {}
        return [f"${cost:.2f}{'+' if spent.get('unpriced') else ''}"] if isinstance(cost, int | float) else []
