"""The lines of a file, or of a window of them, with their numbers. Bounded for every file.

Lines before the window are passed over, and those after it counted, by blocks: a window deep in a large file costs
about as much as `wc -l`, and no memory.
"""

import codecs
import io
import mimetypes
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_end
from goclaw.durable.store.blobs import SAMPLE, is_binary
from goclaw.errors import ToolError
from goclaw.tools.builtin.text import as_utf8, decode_line, is_wide

MAX_LINE = 64 << 10
"""Bytes of one line that are looked at: a minified file must not fill the memory."""
_BLOCK = 1 << 18
"""Bytes that are looked at together: they stay in the processor's cache."""
_COUNTED = 256 << 20
"""Bytes behind the window in which lines are still counted: how many there are is worth a tenth of a second."""
_LARGE = 16 << 20
"""Bytes from which on it is worth loading numpy, which counts eight times as quickly as `bytes.count` (Python 3.11)."""
_LINE_FEED = 10
_PATIENCE_SECONDS = 20.0
"""For the way to the window."""


@record
class LineWindow:
    """Which lines are wanted, and how many bytes they may fill."""

    offset: int
    limit: int
    max_bytes: int


@record
class Lines:
    """The lines in a window, and how many there are in all."""

    shown: Sequence[str]
    total: int
    complete: bool = True
    """False: there are more than `total`, not counted."""
    latin: bool = False
    """Some of them are no UTF-8, and read as Latin-1."""

    def text(self, path: str, window: LineWindow) -> str:
        """Return the lines with their numbers, or the reason why there are none."""
        if not self.total:
            return f"{path} is empty"
        if not self.shown:
            return f"{path} has {self.total} lines: there is nothing from offset {window.offset} on"
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(self.shown, window.offset + 1))


def lines_of(path: str, window: LineWindow, file: BinaryIO, most: int | None = None) -> Lines:
    """Return the lines of the window, out of the first `most` bytes: a growing file has no end.

    UTF-16 is held in memory as a whole: the caller bounds it.

    Raises:
        ToolError: it is no text, or the window is too far away to be reached in time.
    """
    sample = file.read(SAMPLE)
    file.seek(0)
    if is_wide(sample):
        file, most = io.BytesIO(as_utf8(file.read(-1 if most is None else most))), None
    elif is_binary(sample):
        kind = mimetypes.guess_type(path)[0] or "unknown type"
        raise ToolError(f"not a text file: {path} is binary ({kind})")
    end = file.seek(0, os.SEEK_END) if most is None else most
    file.seek(0)
    before = skip(path, file, window.offset, end)
    if before < window.offset:
        return Lines((), before)
    shown: list[str] = []
    used, latin, longest = 0, False, min(MAX_LINE, window.max_bytes)
    lines = _lines(file, longest, end - file.tell(), first=not file.tell())
    while used < window.max_bytes and len(shown) < window.limit and (found := next(lines, None)) is not None:
        line, is_latin_1 = found
        shown.append(line)
        used += len(line.encode())
        latin = latin or is_latin_1
    behind, complete = _count(file, min(end, file.tell() + _COUNTED), end)
    return Lines(shown, before + len(shown) + behind, complete, latin)


def skip(path: str, file: BinaryIO, lines: int, end: int) -> int:
    """Move past so many lines, at most to the byte `end`; returns how many there were, one without its end included.

    Raises:
        ToolError: that takes too long.
    """
    left, until, is_open = lines, time.monotonic() + _PATIENCE_SECONDS, False
    ends_in = _counting(end - file.tell() if lines else 0)
    while left and (block := _block(file, end)):
        if (found := ends_in(block)) >= left:
            file.seek(len(block.split(b"\n", left)[-1]) * -1, os.SEEK_CUR)
            return lines
        left -= found
        is_open = not block.endswith(b"\n")
        if time.monotonic() > until:
            raise ToolError(
                f"{path}: line {lines + 1:,} was not reached in {_PATIENCE_SECONDS:.0f} s ({lines - left:,} lines are "
                "before it so far); take a part of the file with exec"
            )
    return lines - left + is_open


def _counting(size: int) -> Callable[[bytes], int]:
    """Return a function that counts line ends in blocks, chosen by their total size in bytes."""
    if size < _LARGE:
        return lambda block: block.count(b"\n")
    import numpy as np

    return lambda block: int(np.count_nonzero(np.frombuffer(block, np.uint8) == _LINE_FEED))


def _block(file: BinaryIO, end: int) -> bytes:
    return file.read(max(0, min(_BLOCK, end - file.tell())))


def _count(file: BinaryIO, bound: int, end: int) -> tuple[int, bool]:
    """Return the number of lines from here to `bound`, and whether the file ends there."""
    count, last = 0, b"\n"
    ends_in = _counting(bound - file.tell())
    while block := _block(file, bound):
        count += ends_in(block)
        last = block[-1:]
    is_all = bound == end
    return count + (is_all and last != b"\n"), is_all


def _lines(file: BinaryIO, longest: int, left: int, *, first: bool) -> Iterator[tuple[str, bool]]:
    """Yield the lines without their ends, and whether each is Latin-1; one over `longest` bytes is marked as cut.
    `first`: they begin with the first line of the file."""
    while left > 0 and (raw := file.readline(longest)):
        cut, left = 0, left - len(raw)
        while left > 0 and not raw.endswith(b"\n") and (more := file.readline(MAX_LINE)):
            cut, left = cut + len(more), left - len(more)
            if more.endswith(b"\n"):
                break
        text, is_other = decode_line(raw.removeprefix(codecs.BOM_UTF8) if first else raw, is_whole=not cut)
        text, first = text.rstrip("\r\n"), False
        if cut:
            text = mask_end(text)
        yield f"{text} [line cut: {cut:,} more bytes]" if cut else text, is_other
