"""The input: several lines, with the input history, and large pastes folded.

The history is kept across runs in the state folder: one JSON string a line, newest last.
"""

import os
import re
from pathlib import Path

import orjson
from textual import events
from textual.content import Content
from textual.message import Message as TextualMessage
from textual.widgets import TextArea

from goclaw.clients.tui.text import printable
from goclaw.clients.tui.widgets.completion import Completion

HISTORY_KEPT = 1_000
"""Entries that are read back; the file is cut to these when it has grown to twice as many."""
HISTORY_FILE = "terminal_history"

FOLDED_LINES = 10
FOLDED_CHARACTERS = 1_500
"""A paste of more is shown as one mark."""
_MARK = re.compile(r"\[pasted text \d+: \d+ (?:lines|characters)\]")


class InputHistory:
    """A walk through earlier input. The unfinished draft is kept at its newer end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[str] = []
        self._place = 0
        self._draft = ""

    def load(self) -> None:
        """Read the file; a line that is no JSON string is passed over. Blocks: call it in a thread."""
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return  # first run, or not readable: there is nothing to recall
        kept = [text for line in lines[-HISTORY_KEPT:] if (text := _text(line))]
        if len(lines) > 2 * HISTORY_KEPT:
            self._write(b"".join(orjson.dumps(text) + b"\n" for text in kept), os.O_TRUNC)
        self._entries = [*kept, *self._entries]
        self._place = len(self._entries)

    def add(self, text: str) -> bool:
        """Remember `text`. False when it is blank or was the last one anyway."""
        self._draft = ""
        new = bool(text.strip()) and (not self._entries or self._entries[-1] != text)
        if new:
            self._entries.append(text)
        self._place = len(self._entries)
        return new

    def save(self, text: str) -> None:
        """Append `text` to the file. Blocks: call it in a thread."""
        self._write(orjson.dumps(text) + b"\n", os.O_APPEND)

    def older(self, current: str) -> str | None:
        """Return the previous entry; None at the oldest. `current` is the present input."""
        if self._place == 0:
            return None
        if self._place == len(self._entries):
            self._draft = current
        self._place -= 1
        return self._entries[self._place]

    def newer(self) -> str | None:
        """Return the next entry, after the last one the draft; None if the draft is shown already."""
        if self._place == len(self._entries):
            return None
        self._place += 1
        return self._draft if self._place == len(self._entries) else self._entries[self._place]

    def _write(self, data: bytes, how: int) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
        except OSError:
            return  # a full disk or a folder that went away must not end the conversation
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)


def _text(line: bytes) -> str:
    try:
        text = orjson.loads(line)
    except orjson.JSONDecodeError:
        return ""
    return text if isinstance(text, str) else ""


class Prompt(TextArea):
    """Enter sends; Shift+Enter, Ctrl+J and Alt+Enter break the line; Up and Down at the edges recall."""

    DEFAULT_CSS = """
    Prompt { height: auto; min-height: 3; max-height: 10; border: round $surface-lighten-2; padding: 0 1; }
    Prompt:focus { border: round $accent; }
    """

    class Submitted(TextualMessage):
        """The person sends `text`; `is_new`: it did not come from the history."""

        def __init__(self, text: str, *, is_new: bool) -> None:
            super().__init__()
            self.text = text
            self.is_new = is_new

    class Begun(TextualMessage):
        """A first letter is being typed into the empty input."""

        def __init__(self, letter: str) -> None:
            super().__init__()
            self.letter = letter

    class EndWanted(TextualMessage):
        """`End` in an empty input: go to the end of the conversation."""

    def __init__(self, recall: InputHistory, completion: Completion) -> None:
        super().__init__(
            tab_behavior="focus",
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder=Content.styled("Write a message, / for commands, @ for files", "$text-disabled"),
        )
        self._recall = recall
        self._completion = completion
        self._pastes: dict[str, str] = {}
        """Folded pastes, by their marks."""

    @property
    def whole_text(self) -> str:
        """Return the text with every paste unfolded."""
        return _MARK.sub(lambda mark: self._pastes.get(mark[0], mark[0]), self.text)

    def pop_text(self) -> str:
        """Empty the input and return what stood in it; Up brings it back."""
        text = self.whole_text
        self.put("")
        self._pastes.clear()
        return text

    def put(self, text: str) -> None:
        """Replace the text of the input."""
        self.text = text
        self.move_cursor(self.document.end)

    def put_back(self, text: str) -> None:
        """Replace the text of the input by one that was not sent, folded as a paste."""
        self.put(self._fold(text))

    def apply_edit(self, before: str, after: str) -> None:
        """`before` was edited elsewhere and is `after` now; what came into the input meanwhile stays, below it."""
        if after == before:
            return
        meanwhile = "" if self.whole_text == before else self.whole_text
        self._pastes.clear()
        self.put(f"{after}\n{meanwhile}" if meanwhile else after)

    def complete(self) -> None:
        """Put the highlighted entry of the list in place of the text begun."""
        self._offer()
        row, column = self.cursor_location
        begun, choice = self._completion.begun, self._completion.choice
        if self.document.get_line(row)[column : column + 1].isspace():
            choice = choice.removesuffix(" ")
        self.replace(choice, (row, column - len(begun)), (row, column), maintain_selection_offset=False)

    def on_text_area_changed(self) -> None:
        """Offer commands and files."""
        self._offer()

    def on_text_area_selection_changed(self) -> None:
        """Offer what fits where the cursor is now."""
        self._offer()

    def _offer(self) -> None:
        row, column = self.cursor_location
        self._completion.offer(self.text, self.document.get_line(row)[:column])

    async def _on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character and not self.text:
            self.post_message(self.Begun(event.character))
        if self._own(event.key):
            event.stop()
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        text = printable(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        self.insert(self._fold(text))

    def _own(self, key: str) -> bool:
        """Handle a key that has a meaning here; False leaves it to the text area and to the program."""
        # Keys of a burst (a slow line, a script) come before the news of what they changed.
        self._offer()
        if self._completion.is_open and self._complete(key):
            return True
        match key:
            case "enter":
                self._submit()
            case "tab" if self._completion.is_asking:
                pass  # it was meant for the list that is just coming
            case "shift+enter" | "ctrl+j" | "alt+enter":
                self.insert("\n")
            case "up" if self.navigator.is_first_wrapped_line(self.cursor_location):
                self._show(self._recall.older(self.text))
            case "down" if self.navigator.is_last_wrapped_line(self.cursor_location):
                self._show(self._recall.newer())
            case "end" if not self.text:
                self.post_message(self.EndWanted())
            case _:
                return False
        return True

    def _complete(self, key: str) -> bool:
        completion = self._completion
        match key:
            case "up" | "down":
                completion.move(1 if key == "down" else -1)
            case "tab":
                self.complete()
            case "enter" if completion.choice.rstrip() != completion.begun:
                self.complete()
            case "escape":
                completion.close()
            case _:
                return False
        return True

    def _submit(self) -> None:
        if self.text.strip():
            text = self.whole_text.strip()
            self.post_message(self.Submitted(text, is_new=self._recall.add(text)))
            self.pop_text()

    def _show(self, text: str | None) -> None:
        if text is not None:
            self.put(text)
            self._offer()
            self._completion.close()  # Up and Down go on through what was typed

    def _fold(self, text: str) -> str:
        lines = text.count("\n") + 1
        if lines <= FOLDED_LINES and len(text) <= FOLDED_CHARACTERS:
            return text
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        mark = f"[pasted text {len(self._pastes) + 1}: {size}]"
        self._pastes[mark] = text
        return mark
