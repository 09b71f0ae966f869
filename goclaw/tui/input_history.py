"""The input history, kept across runs in the state folder: one JSON string a line, newest last."""

import os
from pathlib import Path

import orjson

KEPT = 1_000
"""Entries that are read back; the file is cut to these when it has grown to twice as many."""
FILE = "terminal_history"


class InputHistory:
    """A walk through what was typed before. The draft that was left behind is kept at its newer end."""

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
        kept = [text for line in lines[-KEPT:] if (text := _text(line))]
        if len(lines) > 2 * KEPT:
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
