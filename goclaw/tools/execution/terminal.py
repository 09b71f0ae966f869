"""Render an output as a terminal shows it: progress bars at their end, cursor movements done, colours dropped.

A command writes into a pipe, and some write for a terminal all the same: `\\r` to draw a line again, sequences that
move the cursor up, erase, or colour. Shown as bytes, that is a thousand states of one bar, and a text that reads
differently from its content. Only the last rows can change; rows that have scrolled out are finished. An output with
a NUL is no text, and stays as it is.
"""

import asyncio
import codecs
import re

ROWS = 50
"""Rows that a program can still reach by moving the cursor up: a tall terminal."""
MAX_ROW = 16_384
"""Characters of a row that can still be drawn again; the beginning of a longer one is finished."""
MAX_COLUMN = 1_000
"""The furthest that the cursor moves by a sequence, so that a few bytes make no long row."""
MAX_PENDING = 4_096
"""Characters of a sequence without an end that wait for the rest."""
LARGE = 4_096
"""Bytes with control characters that are drawn in a thread: some 4 ms."""

_SPECIAL = (b"\x1b", b"\r", b"\x08")
_TOKEN = re.compile(
    r"\x1b\[(?P<given>[0-?]*)[ -/]*(?P<csi>[@-~])"
    r"|\x1b[\]PX^_](?:[^\x07\x1b]|\x1b(?!\\))*?(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
    r"|(?P<move>[\r\n\x08])"
    r"|(?P<text>[^\x1b\r\n\x08]+)"
    r"|\x1b"
)
"""ECMA-48: control sequences (5.4), control strings (5.6), other escapes (5.3)."""
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z")


class Screen:
    """The rows of an output that may still change."""

    def __init__(self, *, eager: bool = False) -> None:
        """`eager`: every whole line is finished until the output first uses a control character."""
        self._kept_rows = 1 if eager else ROWS
        self._plain = b""
        """The last rows, while the cursor is at their end."""
        self._rows: list[list[str]] = []
        """The same while it is not; none: see `_plain`."""
        self._row = self._column = 0
        self._pending = ""
        """The beginning of a sequence."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._is_binary = False

    async def write(self, chunk: bytes) -> bytes:
        """Draw output of a command; return the text that can change no more."""
        if self._is_binary:
            return chunk
        if b"\0" in chunk:
            finished, self._plain, self._rows, self._is_binary = self.rest() + chunk, b"", [], True
            return finished
        if not self._rows and not any(map(chunk.__contains__, _SPECIAL)):
            self._plain += chunk
            return self._scroll_plain()
        return await asyncio.to_thread(self._draw, chunk) if len(chunk) > LARGE else self._draw(chunk)

    def rest(self) -> bytes:
        """Return the rows that may still change, as they stand."""
        if not self._rows:
            return self._plain
        *above, last = ("".join(row) for row in self._rows)
        return "".join([*(f"{row.rstrip(' ')}\n" for row in above), last]).encode()

    def _scroll_plain(self) -> bytes:
        """Remove text that has scrolled away, or makes the last row too long."""
        start = len(self._plain)
        for _ in range(self._kept_rows):
            start = self._plain.rfind(b"\n", 0, start)
            if start < 0:
                break
        start += 1
        if len(self._plain) - start > ROWS * MAX_ROW:
            start = len(self._plain) - MAX_ROW
        finished, self._plain = self._plain[:start], self._plain[start:]
        return finished

    def _draw(self, chunk: bytes) -> bytes:
        self._kept_rows = ROWS
        if not self._rows:
            self._decoder.reset()
            self._pending = self._decoder.decode(self._plain)
            self._rows, self._row, self._column, self._plain = [[]], 0, 0, b""
        text, self._pending = self._pending + self._decoder.decode(chunk), ""
        if (cut := _UNFINISHED.search(text)) and len(cut[0]) <= MAX_PENDING:
            text, self._pending = text[: cut.start()], cut[0]
        finished: list[str] = []
        for token in _TOKEN.finditer(text):
            if (written := token["text"]) is not None:
                self._put(written, finished)
            elif (move := token["move"]) is not None:
                self._move(move, finished)
            elif (final := token["csi"]) is not None:
                self._control(final, token["given"])
        # Plain bytes where nothing waits: the cursor is at the end, and the last character is whole.
        at_the_end = self._row == len(self._rows) - 1 and self._column == len(self._rows[-1])
        if at_the_end and not self._pending and not self._decoder.getstate()[0]:
            self._plain, self._rows = self.rest(), []
        return "".join(finished).encode()

    def _put(self, text: str, finished: list[str]) -> None:
        row = self._rows[self._row]
        if self._column > len(row):
            row.extend(" " * (self._column - len(row)))
        row[self._column : self._column + len(text)] = text
        self._column += len(text)
        if len(row) > MAX_ROW and self._row == len(self._rows) - 1:
            finished += ["".join(above).rstrip(" ") + "\n" for above in self._rows[:-1]]
            finished.append("".join(row[: self._column]))
            self._rows, self._row, self._column = [row[self._column :]], 0, 0

    def _move(self, character: str, finished: list[str]) -> None:
        if character == "\x08":
            self._column = max(0, self._column - 1)
            return
        self._column = 0
        if character == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append([])
            if len(self._rows) > ROWS:
                finished.append("".join(self._rows.pop(0)).rstrip(" ") + "\n")
                self._row -= 1

    def _control(self, final: str, given: str) -> None:
        """Carry out a control sequence (ECMA-48, 8.3); one that only changes the look does nothing."""
        numbers = [int(number) if number.isdecimal() else 0 for number in given[:40].split(";")]
        count, last = max(1, numbers[0]), len(self._rows) - 1
        match final:
            case "A" | "F":
                self._row = max(0, self._row - count)
            case "B" | "E":
                self._row = min(last, self._row + count)
            case "C":
                self._column = min(MAX_COLUMN, self._column + count)
            case "D":
                self._column = max(0, self._column - count)
            case "G" | "`":
                self._column = min(MAX_COLUMN, count - 1)
            case "H" | "f":
                self._row = min(last, count - 1)
                self._column = min(MAX_COLUMN, max(1, numbers[1] if len(numbers) > 1 else 1) - 1)
            case "J":
                self._erase(numbers[0])
            case "K":
                self._erase_in_row(numbers[0])
        if final in ("E", "F"):
            self._column = 0

    def _erase(self, which: int) -> None:
        """Erase from the cursor to the end (0), to the cursor (1), or everything (2 and 3)."""
        if which >= 2:
            self._rows = [[] for _ in self._rows[: self._row + 1]]
        elif which == 1:
            self._rows[: self._row] = [[] for _ in range(self._row)]
            self._erase_in_row(1)
        else:
            del self._rows[self._row + 1 :]
            self._erase_in_row(0)

    def _erase_in_row(self, which: int) -> None:
        row = self._rows[self._row]
        if which == 0:
            del row[self._column :]
        elif which == 1:
            row[: self._column + 1] = " " * min(self._column + 1, len(row))
        else:
            row.clear()
