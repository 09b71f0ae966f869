"""The line at the bottom: model, tokens, share of the context, cost, elapsed time, connection."""

from collections.abc import Mapping
from typing import Any

from textual.content import Content
from textual.widgets import Static

from goclaw.tui.text import count, printable, seconds

NARROW = 100
"""Columns below which the bar leaves out what is said elsewhere."""


class StatusBar(Static):
    """Shows numbers that it is given; asks nobody."""

    DEFAULT_CSS = """
    StatusBar { height: 1; padding: 0 1; background: $panel; color: $foreground; text-wrap: nowrap; }
    """

    def __init__(self, session: str) -> None:
        super().__init__()
        self._session = session
        self._numbers: Mapping[str, Any] = {}
        self._connection = "connecting"
        self._elapsed: float | None = None

    def on_mount(self) -> None:
        """Show what is known."""
        self._show()

    def on_resize(self) -> None:
        """Leave out or add what the width allows."""
        self._show()

    def numbers(self, numbers: Mapping[str, Any]) -> None:
        """The numbers of `/status`."""
        self._numbers = numbers
        self._show()

    def connection(self, state: str) -> None:
        """`connected`, or what is the matter."""
        self._connection = state
        self._show()

    def elapsed(self, duration: float | None) -> None:
        """Seconds that the turn has been running; None when none is."""
        self._elapsed = duration
        self._show()

    def _show(self) -> None:
        connected = self._connection == "connected"
        sign = ("●", "$text-success") if connected else ("○", "$text-error")
        parts = [Content.assemble(sign, f" {self._connection}")]
        if self.size.width >= NARROW or not self._numbers:
            parts.append(Content(printable(self._session)))
        if self._numbers:
            parts += map(Content, self._figures())
        if self._elapsed is not None:
            parts.append(Content.styled(seconds(self._elapsed), "$text-warning"))
        # A new layout of everything for one line that keeps its height would cost thirty times as much.
        self.update(Content(" │ ").join(parts), layout=False)

    def _figures(self) -> list[str]:
        tokens, window = int(self._numbers.get("tokens", 0)), int(self._numbers.get("context_window", 0))
        figures = [printable(str(self._numbers.get("model", "")))]
        figures.append(f"{count(tokens)} of {count(window)} tokens" if window else f"{count(tokens)} tokens")
        if window:
            figures.append(f"context {100 * tokens / window:.0f} %")
        cost = self._numbers.get("cost")
        if isinstance(cost, int | float):
            figures.append(f"${cost:.2f}")
        return figures
