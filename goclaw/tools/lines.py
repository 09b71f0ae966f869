"""The lines of a file, or of a window of them, with their numbers. Bounded, whatever the file is like."""

import codecs
import io
import mimetypes
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from goclaw.blobs import SAMPLE, is_binary
from goclaw.errors import ToolError
from goclaw.records import record
from goclaw.redact import mask_end
from goclaw.tools.text import LATIN, as_utf8, is_latin, is_wide

_LONGEST_LINE = 64 << 10
"""Bytes of one line that are looked at: a minified file must not fill the memory."""


@record
class Window:
    """Which lines are wanted, and how many bytes they may fill."""

    offset: int
    limit: int
    max_bytes: int


@record
class Lines:
    """The lines in a window, and how many there are in all."""

    shown: Sequence[str]
    total: int
    latin: bool = False
    """Some of them are no UTF-8, and read as Latin-1."""

    def text(self, path: str, window: Window) -> str:
        """The lines with their numbers, or why there are none."""
        if not self.total:
            return f"{path} is empty"
        if not self.shown:
            return f"{path} has {self.total} lines: there is nothing from offset {window.offset} on"
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(self.shown, window.offset + 1))


def lines_of(path: str, window: Window, file: BinaryIO, most: int | None = None) -> Lines:
    """The lines of the window, out of the first `most` bytes: a file that grows meanwhile has no end.

    Raises:
        ToolError: it is no text.
    """
    sample = file.read(SAMPLE)
    file.seek(0)
    if is_wide(sample):
        file, most = io.BytesIO(as_utf8(file.read(-1 if most is None else most))), None
    elif is_binary(sample):
        kind = mimetypes.guess_type(path)[0] or "unknown type"
        raise ToolError(f"not a text file: {path} is binary ({kind})")
    shown: list[str] = []
    used = total = 0
    latin = False
    for total, (line, is_other) in enumerate(_lines(file, min(_LONGEST_LINE, window.max_bytes), most), 1):
        if total > window.offset and used < window.max_bytes and len(shown) < window.limit:
            shown.append(line)
            used += len(line.encode())
            latin = latin or is_other
    return Lines(shown, total, latin)


def _lines(file: BinaryIO, longest: int, most: int | None) -> Iterator[tuple[str, bool]]:
    """The lines without their ends, and whether each is Latin-1; a longer one than `longest` is cut and says so."""
    first, left = True, most if most is not None else sys.maxsize
    while left > 0 and (raw := file.readline(longest)):
        cut, left = 0, left - len(raw)
        while left > 0 and not raw.endswith(b"\n") and (more := file.readline(_LONGEST_LINE)):
            cut, left = cut + len(more), left - len(more)
            if more.endswith(b"\n"):
                break
        text, is_other = _decoded(raw.removeprefix(codecs.BOM_UTF8) if first else raw, is_whole=not cut)
        text, first = text.rstrip("\r\n"), False
        if cut:
            text = mask_end(text)
        yield f"{text} [line cut: {cut:,} more bytes]" if cut else text, is_other


def _decoded(raw: bytes, *, is_whole: bool) -> tuple[str, bool]:
    """A line, and whether it is Latin-1; what is neither that nor UTF-8 is U+FFFD."""
    try:
        return codecs.utf_8_decode(raw, "strict", is_whole)[0], False
    except UnicodeDecodeError:
        return (raw.decode(LATIN), True) if is_latin(raw) else (raw.decode(errors="replace"), False)
