"""Panels next to the conversation: the daemon's log, live, and the agent's to-do list while it has open items."""

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text
from textual import events, work
from textual.content import Content
from textual.widgets import RichLog, Static

from goclaw.clients.tui.log_tail import LogLine, LogTail
from goclaw.clients.tui.text import QUIET, one_line
from goclaw.common.core.events import Todo

LOG_LOOK_SECONDS = 0.5
LOG_LINES = 500
NARROW_LOG = 45
"""Columns below which an event stands without its details."""
LEVEL_STYLES = {"warning": "yellow", "error": "bold red", "critical": "bold red", "debug": "dim"}

SIGNS = {"completed": ("✓", QUIET), "in_progress": ("▶", "bold"), "pending": ("○", "")}
"""A sign and a style for each state: the sign is enough."""
TODO_SHARE = 4
"""The panel takes one line in so many of the screen: six on a terminal of 24 lines."""
FEWEST_TODO_LINES = 2


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
        super().__init__(max_lines=2 * LOG_LINES, wrap=True, min_width=1, auto_scroll=True)
        self._tail = LogTail(path)
        self._lines: deque[LogLine] = deque(maxlen=LOG_LINES)
        self._width = 0

    def on_mount(self) -> None:
        """Begin to follow, and keep to the end when the view becomes lower."""
        self.anchor()
        self._follow()

    def on_resize(self, event: events.Resize) -> None:
        """Break the lines again for the new width."""
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
                    self._show(new[-LOG_LINES:])
                await asyncio.sleep(LOG_LOOK_SECONDS)
        finally:
            self._tail.close()

    def _show(self, lines: list[LogLine]) -> None:
        for line in lines:
            text = Text.assemble((f"{line.time} ", "dim"), (line.text, LEVEL_STYLES.get(line.level, "")))
            if line.details and (self.size.width >= NARROW_LOG or line.level in LEVEL_STYLES):
                text.append(f"  {line.details}", "dim")
            self.write(text, scroll_end=self.is_vertical_scroll_end)


class TodoPanel(Static):
    """A line with the progress, and the lines around the item in progress; a click leaves the first line alone."""

    DEFAULT_CSS = """
    TodoPanel { display: none; height: auto; padding: 0 1; background: $surface; }
    TodoPanel.-shown { display: block; }
    TodoPanel:hover { background: $boost; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._todos: Sequence[Todo] = ()
        self._turn_runs = False
        self._open = True

    def show(self, todos: Sequence[Todo]) -> None:
        """Show the present list."""
        self._todos = todos
        self._redraw()

    def turn(self, *, running: bool) -> None:
        """Hide a list without open items when the turn ends."""
        if running != self._turn_runs:
            self._turn_runs = running
            self._redraw()

    def fold(self) -> None:
        """Leave the first line alone, or show the others again."""
        self._open = not self._open
        self._redraw()

    def on_click(self, event: events.Click) -> None:
        """Do the same on a click."""
        event.stop()
        self.fold()

    def on_resize(self) -> None:
        """More lines on a larger screen."""
        self._redraw()

    def lines(self, width: int, height: int) -> list[Content]:
        """Return the lines for a screen of this size; empty if there is nothing to do."""
        done = sum(todo.status == "completed" for todo in self._todos)
        if not self._todos or (done == len(self._todos) and not self._turn_runs):
            return []
        return [self._headline(done, width), *(self._body(width, height) if self._open else [])]

    def _redraw(self) -> None:
        if self.is_attached:
            lines = self.lines(self.size.width, self.app.size.height)
            self.set_class(bool(lines), "-shown")
            if lines:
                self.update(Content("\n").join(lines))

    def _headline(self, done: int, width: int) -> Content:
        doing = next((todo.content for todo in self._todos if todo.status == "in_progress"), "")
        folded = "" if self._open or not doing else f"  ▶ {one_line(doing, max(width - 24, 10))}"
        words = f"{'▾' if self._open else '▸'} {done} of {len(self._todos)} done"
        return Content.assemble((words, QUIET), folded)

    def _body(self, width: int, height: int) -> list[Content]:
        room = max(height // TODO_SHARE, FEWEST_TODO_LINES) - 1
        first, more = _window(self._todos, room)
        shown = self._todos[first : first + room - bool(more)]
        lines = [_line(todo, max(width - 4, 10)) for todo in shown]
        return [*lines, Content.styled(f"  +{more} more", QUIET)] if more else lines


def _window(todos: Sequence[Todo], room: int) -> tuple[int, int]:
    """Return where to begin so that the current item is visible with the next ones; and how many are left out."""
    if len(todos) <= room:
        return 0, 0
    now = next((at for at, todo in enumerate(todos) if todo.status != "completed"), 0)
    first = max(0, min(now - 1, len(todos) - (room - 1)))
    return first, len(todos) - (room - 1)


def _line(todo: Todo, width: int) -> Content:
    sign, style = SIGNS[todo.status]
    return Content.styled(f"  {sign} {one_line(todo.content, width)}", style)
