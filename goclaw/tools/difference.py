"""The whole difference that a call made in a file, for people; the model reads a short preview in the result."""

import asyncio
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, Field

from goclaw.toolkit.results import FileForm
from goclaw.tools.text import shown

KIND = "diff"
COMPARED = 200_000
"""Characters of either side that are compared line by line (see `review`)."""
SHORT_LINE = 60
"""Characters of a changed line that are shown in one line with what it was."""
_NAMES = ("before", "after")
_MAX_PAIRS = 500_000
"""Lines that changed on one side times those on the other: of more, difflib may need hours."""


class Difference(BaseModel):
    """The change of one file."""

    path: str
    lines: Annotated[list[str], Field(description="A unified diff, line by line.")]

    def brief(self) -> str:
        """Return the change in one line: both lines where one short line changed, else counts; empty: unknown."""
        body = self.lines[2:] if self.lines[:1] == [f"--- {_NAMES[0]}"] else []
        gone = [line[1:].strip() for line in body if line.startswith("-")]
        new = [line[1:].strip() for line in body if line.startswith("+")]
        if len(gone) == len(new) == 1 and max(len(gone[0]), len(new[0])) <= SHORT_LINE:
            return f"{gone[0]} → {new[0]}"
        return f"+{len(new)} -{len(gone)} lines" if body else ""

    def file(self) -> FileForm:
        """Return the diff as a file for people and their editors."""
        return FileForm(f"{PurePosixPath(self.path).name}.diff", "text/x-diff", "\n".join((*self.lines, "")))


async def difference(path: str, before: str, after: str) -> Difference:
    """Return the difference of two versions of a file; of a very long one only the lengths."""
    if max(len(before), len(after)) > COMPARED:
        return Difference(path=path, lines=[f"{len(before):,} characters became {len(after):,}"])
    return Difference(path=path, lines=await asyncio.to_thread(_lines, before, after))


def _lines(before: str, after: str) -> list[str]:
    # Bytes that are no text fit into no JSON.
    old, new = shown(before).splitlines(), shown(after).splitlines()
    return list(unified(old, new, _NAMES, 3))


def unified(before: Sequence[str], after: Sequence[str], names: tuple[str, str], around: int) -> Iterator[str]:
    """Yield a unified diff with `around` lines of context; two lines with the names first, if anything changed.

    What changed is compared line by line only where that ends soon, for no thread can be told to stop. Else it is one
    change from its first line to its last.
    """
    if before == after:
        return
    begin = max(0, _common(before, after) - around)
    end = max(0, _common(before[begin:][::-1], after[begin:][::-1]) - around)
    old, new = before[begin : len(before) - end], after[begin : len(after) - end]
    if len(old) * len(new) <= _MAX_PAIRS:
        groups = SequenceMatcher(None, old, new).get_grouped_opcodes(around)
    else:
        groups = iter([[("replace", 0, len(old), 0, len(new))]])
    yield from (f"--- {names[0]}", f"+++ {names[1]}")
    for group in groups:
        (_, first, _, first_new, _), (_, _, last, _, last_new) = group[0], group[-1]
        yield f"@@ -{_range(begin + first, last - first)} +{_range(begin + first_new, last_new - first_new)} @@"
        for kind, first, last, first_new, last_new in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[first:last])
                continue
            yield from (f"-{line}" for line in old[first:last])
            yield from (f"+{line}" for line in new[first_new:last_new])


def _common(some: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    return next((number for number, (one, other) in enumerate(zip(some, others, strict=False)) if one != other),
                min(len(some), len(others)))  # fmt: skip


def _range(first: int, count: int) -> str:
    """Return the range as `diff -u` writes it: from 1, of no lines the one before."""
    start = first + 1 if count else first
    return str(start) if count == 1 else f"{start},{count}"
