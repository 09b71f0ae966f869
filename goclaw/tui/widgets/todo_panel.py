"""The agent's to-do list, above the input while it has open items."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.widgets import Static

from goclaw.events import Todo
from goclaw.tui.text import QUIET, one_line

SIGNS = {"completed": ("✓", QUIET), "in_progress": ("▶", "bold"), "pending": ("○", "")}
"""A sign and a style for each state: the sign is enough."""
SHARE = 4
"""The panel takes one line in so many of the screen: six on a terminal of 24 lines."""
FEWEST_LINES = 2


class TodoPanel(Static):
    """A line that says how far it is, and the lines around what is being done; a click leaves the first line alone."""

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
        room = max(height // SHARE, FEWEST_LINES) - 1
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
