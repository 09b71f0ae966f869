"""The list of slash commands that opens above the input."""

import re
from collections.abc import Sequence

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from goclaw.events import CommandInfo

_BEGUN = re.compile(r"/(\w*)")


class Completion(OptionList, can_focus=False):
    """Offers commands that begin with what was typed; the input keeps the keys."""

    DEFAULT_CSS = """
    Completion { display: none; height: auto; max-height: 8; border: none; padding: 0 1; background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._commands: Sequence[CommandInfo] = ()
        self._offered_for: str | None = None
        self._closed_at: str | None = None
        """A text for which somebody closed the list."""

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self.display)

    @property
    def choice(self) -> str:
        """The highlighted command, with its slash."""
        return f"/{self.highlighted_option.id}" if self.highlighted_option else ""

    def know(self, commands: Sequence[CommandInfo]) -> None:
        """The commands that may be used."""
        self._commands = sorted(commands, key=lambda command: command.name)
        self._offered_for = None

    def offer(self, text: str) -> None:
        """Open for a begun command, close for everything else; told the same text again, stay as it is."""
        if text == self._offered_for:
            return
        self._offered_for = text
        begun = _BEGUN.fullmatch(text)
        found = self._matching(begun[1].lower()) if begun and text != self._closed_at else []
        if not begun:
            self._closed_at = None
        self.clear_options()
        self.add_options([_option(command) for command in found])
        self.highlighted = 0 if found else None
        self.display = bool(found)

    def close(self, text: str) -> None:
        """Close, and stay closed while the input is `text`."""
        self._closed_at = text
        self.display = False

    def move(self, step: int) -> None:
        """Highlight the next (1) or the previous (-1) command."""
        if self.option_count:
            self.highlighted = ((self.highlighted or 0) + step) % self.option_count

    def _matching(self, begun: str) -> list[CommandInfo]:
        first = [command for command in self._commands if command.name.startswith(begun)]
        return first + [command for command in self._commands if begun in command.name and command not in first]


def _option(command: CommandInfo) -> Option:
    return Option(Content.assemble((f"/{command.name:<12}", "bold"), f" {command.summary}"), id=command.name)
