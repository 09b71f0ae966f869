"""The `edit` tool: one exact replacement in a text file."""

import asyncio
import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from pydantic import Field

from goclaw.errors import ToolError
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.tools.text import encoded
from goclaw.workspace import Opened, Version

_LARGEST = 20 << 20
"""Bytes of a file that can be edited: it is held in memory several times."""
_CONTEXT = 2
"""Lines shown before and after the change."""
_SHOWN_LINES, _SHOWN_WIDTH = 20, 200
_MOST_PLACES = 10
"""Matches that are looked for beyond the first: a text that repeats itself has millions, each as long as the text."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text file as it was read."""

    body: str
    """Without the byte order mark, line ends as they are."""
    mark: bytes
    """The byte order mark, or nothing."""
    version: Version

    @property
    def is_crlf(self) -> bool:
        """Whether every line ends in CR LF, as Windows writes them."""
        ends = self.body.count("\n")
        return ends > 0 and self.body.count("\r\n") == ends


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a file."""

    content: bytes
    preview: str


@tool(side_effect=SideEffect.MUTATING, idempotent=False, foreign=True)
async def edit(
    ctx: ToolContext,
    path: Annotated[str, Field(description="File path, absolute or relative to the workspace.")],
    old_string: Annotated[str, Field(description="Text to find: exactly as in the file, and only once in it.")],
    new_string: Annotated[str, Field(description="Replacement text.")],
) -> str:
    """Edit a file by replacing a text that occurs exactly once. Returns a preview of the change."""
    if not old_string:
        raise ToolError("old_string cannot be empty")
    if old_string == new_string:
        raise ToolError("old_string and new_string are the same: nothing to change")
    encoded(new_string, "new_string")
    text = await ctx.workspace.use(path, lambda opened: _text(path, opened))
    change = await asyncio.to_thread(_changed, path, text, old_string, new_string)
    await ctx.workspace.write_bytes(path, change.content, unless_changed=text.version)
    return f"edited {path}\n{change.preview}"


def _changed(path: str, text: Text, old_string: str, new_string: str) -> Change:
    old, new = (_with_line_ends(part, text) for part in (old_string, new_string))
    start = _only_place(path, text.body, old)
    body = text.body[:start] + new + text.body[start + len(old) :]
    preview = "\n".join(_preview(text.body, body, start, len(old), len(new)))
    return Change(text.mark + body.encode(), preview)


def _text(path: str, opened: Opened) -> Text:
    if opened.stat.size > _LARGEST:
        raise ToolError(f"file too large: {path} has {opened.stat.size:,} bytes, edit takes at most {_LARGEST:,}")
    data = opened.file.read(_LARGEST)
    if b"\0" in data:
        raise ToolError(f"not a text file: {path} is binary")
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        return Text(data[len(mark) :].decode(), mark, opened.stat.version)
    except UnicodeDecodeError:
        raise ToolError(f"not a text file: {path} is not UTF-8") from None


def _with_line_ends(part: str, text: Text) -> str:
    """`part` with the line ends of the file: models write LF."""
    return part.replace("\r\n", "\n").replace("\n", "\r\n") if text.is_crlf else part


def _only_place(path: str, body: str, old: str) -> int:
    places = list(islice(_places(body, old), _MOST_PLACES + 1))
    if not places:
        raise ToolError(f"old_string not found in {path}{_nearly(body, old)}")
    if len(places) > 1:
        lines = ", ".join(str(_line_of(body, place)) for place in places[:_MOST_PLACES])
        count, more = (f"more than {_MOST_PLACES}", ", …") if len(places) > _MOST_PLACES else (len(places), "")
        raise ToolError(f"old_string is not unique: {count} matches in {path} (lines {lines}{more})")
    return places[0]


def _places(body: str, old: str) -> Iterator[int]:
    """Overlapping matches, too: in `aaa` the text `aa` has no certain place."""
    place = body.find(old)
    while place >= 0:
        yield place
        place = body.find(old, place + 1)


def _nearly(body: str, old: str) -> str:
    place = body.find(old.strip()) if old.strip() else -1
    return f" (line {_line_of(body, place)} has it with other whitespace around)" if place >= 0 else ""


def _line_of(body: str, place: int) -> int:
    return body.count("\n", 0, place) + 1


def _preview(before: str, after: str, start: int, removed: int, added: int) -> Iterator[str]:
    """The lines that changed, with `-` and `+` and their numbers, and some lines around."""
    first = _line_of(before, start) - 1
    old_lines, new_lines = before.split("\n"), after.split("\n")
    last_old = before.count("\n", 0, start + removed) + 1
    last_new = after.count("\n", 0, start + added) + 1
    around = max(0, first - _CONTEXT)
    yield from _lines(" ", old_lines, around, first)
    yield from _lines("-", old_lines, first, last_old)
    yield from _lines("+", new_lines, first, last_new)
    yield from _lines(" ", new_lines, last_new, min(last_new + _CONTEXT, len(new_lines)))


def _lines(sign: str, lines: list[str], start: int, end: int) -> Iterator[str]:
    for index in range(start, min(end, start + _SHOWN_LINES)):
        line = lines[index].rstrip("\r")
        yield f"{sign}{index + 1:5}\t{line[:_SHOWN_WIDTH]}{'…' if len(line) > _SHOWN_WIDTH else ''}"
    if end - start > _SHOWN_LINES:
        yield f"{sign}    …\t({end - start - _SHOWN_LINES} more lines)"
