"""The application as its non-visual parts use it: background work, notifications, the session list, quitting."""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

from goclaw.tui.widgets.picker import SessionPicker


class BackgroundWork(Protocol):
    """Something that goes on beside everything else, and ends with the program."""

    def cancel(self) -> object:
        """End it now."""
        ...


class Host(Protocol):
    """The program around: a `textual.app.App`."""

    def run_worker(self, work: Callable[[], Awaitable[None]], *, name: str) -> BackgroundWork:
        """Begin `work`; an error in it ends the program.

        It is no coroutine yet: Textual leaves that of a worker that is cancelled before it began, and Python warns.
        """
        ...

    def notify(self, message: str, *, severity: Literal["information", "warning", "error"] = "information") -> None:
        """Show a temporary notification to the person."""
        ...

    def push_screen(self, screen: SessionPicker, callback: Callable[[str | None], None]) -> object:
        """Show the list of sessions until one is chosen, or none."""
        ...

    def exit(self) -> None:
        """End the program."""
        ...
