"""The `read` tool: a file of the workspace, or a kept output, with line numbers."""

import mimetypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, BinaryIO

from pydantic import Field

from goclaw.blobs import SPILL_PREFIX
from goclaw.errors import ToolError
from goclaw.redact import mask_end
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.workspace import Opened

_LONGEST_LINE = 64 << 10
"""Bytes of one line that are looked at: a minified file must not fill the memory."""
_SAMPLE = 8192
"""Bytes in which a NUL means "binary", as git does it."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which lines are wanted, and how many bytes they may fill."""

    offset: int
    limit: int
    max_bytes: int


@tool(side_effect=SideEffect.READ_ONLY)
async def read(
    ctx: ToolContext,
    path: Annotated[str, Field(description="File path, absolute or relative to the workspace, or `output:<id>`.")],
    offset: Annotated[int, Field(ge=0, description="Start line, 0-indexed.")] = 0,
    limit: Annotated[int | None, Field(ge=1, description="Max lines to read.")] = None,
) -> str:
    """Read a text file. Returns its lines with line numbers; long files come in parts, each telling how to go on."""
    settings = ctx.config.tools.read
    window = Window(offset, limit or settings.max_lines, settings.max_bytes)
    if path.startswith(SPILL_PREFIX):
        return await ctx.blobs.use_spill(path, ctx.actor.key, partial(_numbered, path, window))
    return await ctx.workspace.use(path, partial(_of_file, path, window, settings.max_file_mb << 20))


def _of_file(path: str, window: Window, largest: int, opened: Opened) -> str:
    if opened.stat.size > largest:
        raise ToolError(
            f"file too large: {path} has {opened.stat.size:,} bytes, read takes at most {largest:,} "
            "(tools.read.max_file_mb); search or cut it with exec"
        )
    return _numbered(path, window, opened.file, opened.stat.size)


def _numbered(path: str, window: Window, file: BinaryIO, most: int | None = None) -> str:
    """The lines of the window, out of the first `most` bytes: a file that grows meanwhile has no end."""
    sample = file.read(_SAMPLE)
    file.seek(0)
    if not sample:
        return f"{path} is empty"
    if b"\0" in sample:
        kind = mimetypes.guess_type(path)[0] or "unknown type"
        raise ToolError(f"not a text file: {path} is binary ({kind})")
    shown: list[str] = []
    used = total = 0
    for total, line in enumerate(_lines(file, min(_LONGEST_LINE, window.max_bytes), most), 1):
        if total > window.offset and used < window.max_bytes and len(shown) < window.limit:
            shown.append(line)
            used += len(line.encode())
    if not shown:
        return f"{path} has {total} lines: there is nothing from offset {window.offset} on"
    text = "\n".join(f"{number:6}\t{line}" for number, line in enumerate(shown, window.offset + 1))
    following = window.offset + len(shown)
    if following == total:
        return text
    return f"{text}\n[lines {window.offset + 1}-{following} of {total}; to go on, read with offset={following}]"


def _lines(file: BinaryIO, longest: int, most: int | None) -> Iterator[str]:
    """The lines without their ends; one with more than `longest` bytes is cut and says so."""
    first, left = True, most if most is not None else sys.maxsize
    while left > 0 and (raw := file.readline(longest)):
        cut, left = 0, left - len(raw)
        while left > 0 and not raw.endswith(b"\n") and (more := file.readline(_LONGEST_LINE)):
            cut, left = cut + len(more), left - len(more)
            if more.endswith(b"\n"):
                break
        text = raw.decode("utf-8-sig" if first else "utf-8", errors="replace").rstrip("\r\n")
        first = False
        if cut:
            text = mask_end(text)
        yield f"{text} [line cut: {cut:,} more bytes]" if cut else text
