"""A search of one file that is too large for memory: ripgrep reads the open file itself.

It tells where something stands, never what; the lines that are shown are read once more, a window at a time.
"""

import codecs
import os
from collections.abc import Mapping, Sequence

from goclaw.errors import ToolError
from goclaw.tools.lines import MAX_LINE, skip
from goclaw.tools.ripgrep import LineMatches, Query, known_hits, look_in_file
from goclaw.tools.text import is_wide
from goclaw.workspace import Opened, Workspace

_SAMPLE = 8192


async def search_large(query: Query, workspace: Workspace, path: str) -> LineMatches:
    """Return the matching lines of a file of any size, as far as the time allows.

    Raises:
        ToolError: it is UTF-16, of which only what fits into the memory is searched; or ripgrep is not installed.
    """
    descriptor = await workspace.use(path, lambda opened: _stream(path, opened, query.largest))
    if descriptor is None:
        return known_hits({}, complete=True)
    try:
        return await look_in_file(query, descriptor, path)
    finally:
        os.close(descriptor)


def _stream(path: str, opened: Opened, largest: int) -> int | None:
    """Return a new descriptor of a text, at its first byte; None: not text."""
    sample = opened.file.read(_SAMPLE)
    if is_wide(sample):
        raise ToolError(
            f"file too large: {path} has {opened.stat.size:,} bytes, search takes at most {largest:,} of a text in "
            "UTF-16 (tools.search.max_file_mb); convert it with exec"
        )
    if b"\0" in sample:
        return None
    descriptor = os.dup(opened.file.fileno())
    os.lseek(descriptor, len(codecs.BOM_UTF8) if sample.startswith(codecs.BOM_UTF8) else 0, os.SEEK_SET)
    return descriptor


def lines_at(path: str, wanted: Sequence[int], opened: Opened) -> Mapping[int, bytes]:
    """Return the existing lines of a file by ascending numbers, from 1; of a long one the beginning."""
    file, at, found = opened.file, 1, dict[int, bytes]()
    for number in wanted:
        if skip(path, file, number - at, opened.stat.size) < number - at:
            break
        at = number + 1
        if not (line := file.readline(MAX_LINE)):
            break
        if not line.endswith(b"\n"):
            at -= 1 - skip(path, file, 1, opened.stat.size)
        found[number] = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).rstrip(b"\r\n")
    return found
