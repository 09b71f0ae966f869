"""The daemon's log, live."""

import asyncio
from collections import deque
from pathlib import Path

from rich.text import Text
from textual import events, work
from textual.widgets import RichLog

from goclaw.tui.log_tail import LogLine, LogTail

LOOK_SECONDS = 0.5
KEPT = 500
NARROW = 45
"""Columns below which an event stands without its details."""
STYLES = {"warning": "yellow", "error": "bold red", "critical": "bold red", "debug": "dim"}


class LogView(RichLog):
    """Follows a log file while it is visible."""

    DEFAULT_CSS = """
    LogView {
        background: $surface; border-left: solid $surface-lighten-2; padding: 0 1;
        overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    LogView:focus { border-left: solid $accent; background-tint: $foreground 0%; }
    """

    def __init__(self, path: Path) -> None:
        super().__init__(max_lines=2 * KEPT, wrap=True, min_width=1, auto_scroll=True)
        self._tail = LogTail(path)
        self._lines: deque[LogLine] = deque(maxlen=KEPT)
        self._width = 0

    def on_mount(self) -> None:
        """Begin to follow, and keep to the end when the view becomes lower."""
        self.anchor()
        self._follow()

    def on_resize(self, event: events.Resize) -> None:
        """Break the lines anew for the new width."""
        if self.size.width != self._width and self.size.width > 0:
            self._width = self.size.width
            self.clear()
            self._show(list(self._lines))

    @work
    async def _follow(self) -> None:
        try:
            while True:
                if self.display and self.is_mounted and self.size.width > 0:
                    new = await asyncio.to_thread(self._tail.read)
                    self._lines.extend(new)
                    self._show(new[-KEPT:])
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._tail.close()

    def _show(self, lines: list[LogLine]) -> None:
        for line in lines:
            text = Text.assemble((f"{line.time} ", "dim"), (line.text, STYLES.get(line.level, "")))
            if line.details and (self.size.width >= NARROW or line.level in STYLES):
                text.append(f"  {line.details}", "dim")
            self.write(text, scroll_end=self.is_vertical_scroll_end)
