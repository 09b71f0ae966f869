"""The list of sessions to choose from, above everything else. It depends only on its arguments."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from goclaw.clients.tui.text import one_line, printable
from goclaw.common.core.clock import Clock, ago
from goclaw.common.core.events import SessionInfo
from goclaw.common.core.wire import MAX_NAME

OWN_KIND = "tui:"
"""The prefix of session keys made here."""
_MAX_KEY, _MAX_TITLE = 28, 80
"""Characters that are shown."""
_KEY_SHARE = 4
"""A key takes one column in so many at most."""
_NARROW = 100
"""Columns below which words are short, so that some are left for the title."""


class SessionPicker(ModalScreen[str]):
    """Ends with the key of a session, or with nothing (Esc)."""

    DEFAULT_CSS = """
    SessionPicker { align: center middle; }
    SessionPicker > Vertical {
        width: 100%; max-width: 110; height: auto; max-height: 90%;
        padding: 0 1; margin: 0 2; border: round $accent; border-title-color: $foreground; background: $surface;
    }
    SessionPicker Input { margin: 0 0 1 0; background: $surface; }
    SessionPicker OptionList {
        height: auto; max-height: 18; border: none; padding: 0; background: $surface;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    SessionPicker .hint { color: $text-muted; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close"),
        Binding("ctrl+c", "leave", "Close", priority=True),
        Binding("up", "move(-1)", "Previous session"),
        Binding("down", "move(1)", "Next session"),
        Binding("pageup", "move(-10)", "Page up"),
        Binding("pagedown", "move(10)", "Page down"),
    ]

    def __init__(self, current: str, clock: Clock) -> None:
        super().__init__()
        self._current = current
        self._clock = clock
        self._sessions: Sequence[SessionInfo] | None = None
        self._input = Input(placeholder="Type to find a session or name a new one", compact=True)
        self._list = OptionList()
        self._list.can_focus = False

    @property
    def has_sessions(self) -> bool:
        """Return whether the list has arrived."""
        return self._sessions is not None

    def compose(self) -> ComposeResult:
        """Yield an input line, the list, and a line about the keys."""
        with Vertical() as box:
            box.border_title = "Sessions"
            yield self._input
            yield self._list
            yield Static("Enter opens · Esc closes · type a new name to start a session", classes="hint")

    def on_mount(self) -> None:
        """Type into the line."""
        self._input.focus()

    def on_resize(self) -> None:
        """Show as much as there is room for."""
        self._fill()

    def add(self, sessions: Sequence[SessionInfo]) -> None:
        """Show these sessions, too: the next ones, the latest first."""
        known = {info.key for info in sessions}
        self._sessions = [*(info for info in self._sessions or () if info.key not in known), *sessions]
        if self.is_mounted:
            self._fill()

    def on_input_changed(self) -> None:
        """Show the sessions that fit the typed text."""
        self._fill()

    def on_input_submitted(self, submitted: Input.Submitted) -> None:
        """Enter."""
        submitted.stop()
        self._choose()

    def on_option_list_option_selected(self, selected: OptionList.OptionSelected) -> None:
        """Handle a click on a line."""
        selected.stop()
        self._choose()

    def action_move(self, step: int) -> None:
        """Highlight another line."""
        if self._list.option_count:
            at = (self._list.highlighted or 0) + step
            self._list.highlighted = max(0, min(at, self._list.option_count - 1))

    def action_leave(self) -> None:
        """Close without a choice."""
        self.dismiss(None)

    def _choose(self) -> None:
        chosen = self._list.highlighted_option
        if chosen is not None and chosen.id is not None and not chosen.disabled:
            self.dismiss(chosen.id)

    def _fill(self) -> None:
        now, columns = self._clock.now(), self.size.width
        self._list.clear_options()
        self._list.add_options(options_of(self._sessions, self._input.value, self._current, now, columns))
        self._list.highlighted = 0


def options_of(
    sessions: Sequence[SessionInfo] | None, typed: str, current: str, now: float, columns: int
) -> list[Option]:
    """Return the sessions to choose from, the likeliest first; if there are none, a line that says so."""
    known = sessions or ()
    options = _lines(_search(known, typed), current, now, columns)
    key = new_key(typed)
    if key and key not in [info.key for info in known]:
        options.append(Option(Content.assemble("  new session ", (printable(key), "bold")), id=key))
    if not options:
        nothing = "Waiting for the daemon …" if sessions is None else "No messages yet."
        options.append(Option(Content.styled(nothing, "$text-muted"), disabled=True))
    return options


def new_key(typed: str) -> str:
    """Return a session's key from the typed name: `tui:` and the words joined by `-`; empty if it is invalid."""
    name = "-".join(typed.removeprefix(OWN_KIND).split())
    key = f"{OWN_KIND}{name}"
    return key if name and name.isprintable() and len(key) <= MAX_NAME else ""


def _search(known: Sequence[SessionInfo], typed: str) -> list[SessionInfo]:
    """Return those with every typed word in their key or title; an exact match comes first."""
    words = typed.casefold().split()
    found = [info for info in known if all(word in f"{info.key} {info.title}".casefold() for word in words)]
    return sorted(found, key=lambda info: info.key not in (typed.strip(), new_key(typed)))


def _lines(sessions: Sequence[SessionInfo], current: str, now: float, columns: int) -> list[Option]:
    messages = ("msg", "msgs") if columns < _NARROW else ("message", "messages")
    keys = [Content(one_line(info.key, min(_MAX_KEY, columns // _KEY_SHARE))) for info in sessions]
    times = [ago(now - info.last_at) for info in sessions]
    counts = [f"{info.messages:,} {messages[info.messages != 1]}" for info in sessions]
    widths = [max(map(len, column), default=0) for column in (times, counts)]
    key_width = max((key.cell_length for key in keys), default=0)
    return [
        Option(
            Content.assemble(
                ("● " if info.key == current else "  ", "$text-accent"),
                key.stylize("bold").pad_right(key_width - key.cell_length),
                (f"  {when:<{widths[0]}}  {count:>{widths[1]}}  ", "$text-muted"),
                one_line(info.title, _MAX_TITLE),
            ),
            id=info.key,
        )
        for info, key, when, count in zip(sessions, keys, times, counts, strict=True)
    ]
