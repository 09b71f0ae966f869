"""The list above the input: slash commands after `/`, paths of the workspace after `@`."""

import re
from collections.abc import Callable, Sequence

from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from goclaw.clients.tui.text import printable
from goclaw.common.core.events import CommandInfo
from goclaw.common.core.records import record

_MENTION = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|([^\s"]*))$')
_SPACE = re.compile(r"\s")
_MAX_MENTION = 256
"""Characters; typed paths are shorter, but a whole line may be pasted."""


@record
class Mention:
    """A mention that ends at the cursor."""

    written: str
    """The typed text from the `@` on."""
    begun: str
    """The path that is being typed."""
    is_quoted: bool

    def complete(self, path: str) -> str:
        """Return the text once `path` is chosen; a folder stays open for further typing."""
        quoted = self.is_quoted or bool(_SPACE.search(path))
        start = f'@"{path}' if quoted else f"@{path}"
        if path.endswith("/"):
            return start
        return f'{start}" ' if quoted else f"{start} "


def mention_before(text: str) -> Mention | None:
    """Return the mention at the end of `text`, a line up to its cursor."""
    found = _MENTION.search(text)
    if found is None or len(found[0]) > _MAX_MENTION:
        return None
    quoted, plain = found.groups()
    return Mention(found[0], plain if quoted is None else quoted, quoted is not None)


def can_be_written(path: str) -> bool:
    """Return whether a message can name `path`: with white space and a quotation mark its end is ambiguous."""
    return '"' not in path


_COMMAND = re.compile(r"/(\w*)")


class Completion(OptionList, can_focus=False):
    """Offers completions of the typed text; the input keeps the keys.

    Commands are known; paths are asked for, one question at a time, and an answer counts only for its own question.
    Until it comes, the paths that are known are narrowed down to those that still fit.
    """

    DEFAULT_CSS = """
    Completion {
        display: none; height: auto; max-height: 8; border: none; padding: 0 1; background: $surface-lighten-1;
        text-wrap: nowrap; text-overflow: ellipsis;
        scrollbar-background: $surface-lighten-1; scrollbar-color: $surface-lighten-2;
    }
    """

    def __init__(self, want_files: Callable[[str], bool]) -> None:
        """`want_files` asks for the paths for the text begun, which come by `answer`; False: there is no connection."""
        super().__init__()
        self._want_files = want_files
        self._commands: Sequence[CommandInfo] = ()
        self._offered_for: tuple[str, str] | None = None
        self._closed_at: int | None = None
        """Where the word begins in its line for which the list was closed."""
        self._mention: Mention | None = None
        self._asked: str | None = None
        """For what paths were asked, while the answer is under way."""
        self._paths: Sequence[str] = ()

    @property
    def is_open(self) -> bool:
        """Return whether there is anything to choose."""
        return bool(self.display)

    @property
    def is_asking(self) -> bool:
        """Return whether an answer is under way, so that there may be entries in a moment."""
        return self._asked is not None

    @property
    def begun(self) -> str:
        """Return the text before the cursor that `choice` replaces."""
        return self._mention.written if self._mention else (self._offered_for or ("", ""))[1]

    @property
    def choice(self) -> str:
        """Return the text of the highlighted line, with its suffix."""
        chosen = self.highlighted_option
        if chosen is None or chosen.id is None:
            return self.begun
        return self._mention.complete(chosen.id) if self._mention else f"/{chosen.id} "

    def know(self, commands: Sequence[CommandInfo]) -> None:
        """There is a connection, and these commands may be used."""
        self._commands = sorted(commands, key=lambda command: command.name)
        self._offered_for = self._asked = None

    def offer(self, text: str, before: str) -> None:
        """Open for the beginning of a command or path, close for all else; repeated calls change nothing."""
        if (text, before) == self._offered_for:
            return
        self._offered_for = (text, before)
        command = _COMMAND.fullmatch(text) if text == before else None
        mention = mention_before(before)
        if self._closed_at is not None:
            if (command or mention) and self._closed_at == _start(before, mention):
                return
            self._closed_at = None
        self._mention = mention
        if mention:
            self._narrow(mention.begun)
            self._request(mention.begun)
        else:
            self._asked, self._paths = None, ()
            self._show([_command(found) for found in self._matching(command[1].lower())] if command else [])

    def answer(self, begun: str, paths: Sequence[str]) -> None:
        """Show the paths for `begun`, in order."""
        if self._mention is None or begun != self._asked:
            return  # what is typed has gone on, or the list is closed
        self._asked = None
        if begun == self._mention.begun:
            self._paths = [path for path in paths if can_be_written(path)]
            self._show([_path(path) for path in self._paths])
        else:
            self._request(self._mention.begun)

    def expect_no_answer(self) -> None:
        """Expect no answer: there is no connection."""
        self._asked = None

    def close(self) -> None:
        """Close, and stay closed while the same word is typed."""
        if self._offered_for is not None:
            self._closed_at = _start(self._offered_for[1], self._mention)
        self._mention = self._asked = None
        self.display = False

    def move(self, step: int) -> None:
        """Highlight the next (1) or the previous (-1) line."""
        if self.option_count:
            self.highlighted = ((self.highlighted or 0) + step) % self.option_count

    def _matching(self, begun: str) -> list[CommandInfo]:
        first = [command for command in self._commands if command.name.startswith(begun)]
        return first + [command for command in self._commands if begun in command.name and command not in first]

    def _request(self, begun: str) -> None:
        if self._asked is None and self._want_files(begun):
            self._asked = begun

    def _narrow(self, begun: str) -> None:
        """Limit the list to matches of the typed text immediately: Enter may come before the daemon's answer."""
        self._paths = [path for path in self._paths if _has_in_order(path.casefold(), begun.casefold())]
        self._show([_path(path) for path in self._paths])

    def _show(self, options: Sequence[Option]) -> None:
        self.clear_options()
        self.add_options(options)
        self.highlighted = 0 if options else None
        self.display = bool(options)


def _has_in_order(text: str, letters: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


def _start(before: str, mention: Mention | None) -> int:
    """Return where the word begins that ends at the cursor."""
    return len(before) - len(mention.written) if mention else 0


def _command(command: CommandInfo) -> Option:
    return Option(Content.assemble((f"/{command.name:<12}", "bold"), f" {command.summary}"), id=command.name)


def _path(path: str) -> Option:
    folder, slash, name = path.removesuffix("/").rpartition("/")
    end = "/" if path.endswith("/") else ""
    return Option(Content.assemble((f"{printable(folder)}{slash}", "$text-muted"), f"{printable(name)}{end}"), id=path)
