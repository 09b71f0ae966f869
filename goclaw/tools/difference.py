"""What a call changed in a file, whole and for people; the model reads a short preview in the result."""

import asyncio
import difflib
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, Field

from goclaw.toolkit.results import FileForm
from goclaw.tools.text import shown

KIND = "diff"
COMPARED = 200_000
"""Characters of either side that are compared line by line: difflib takes its time (see `review`)."""


class Difference(BaseModel):
    """The change of one file."""

    path: str
    lines: Annotated[list[str], Field(description="A unified diff, line by line.")]

    def file(self) -> FileForm:
        """The diff as people and their editors know it."""
        return FileForm(f"{PurePosixPath(self.path).name}.diff", "text/x-diff", "\n".join((*self.lines, "")))


async def difference(path: str, before: str, after: str) -> Difference:
    """From what a file was to what it became; of a very long one only how long it was and is."""
    if max(len(before), len(after)) > COMPARED:
        return Difference(path=path, lines=[f"{len(before):,} characters became {len(after):,}"])
    return Difference(path=path, lines=await asyncio.to_thread(_lines, before, after))


def _lines(before: str, after: str) -> list[str]:
    # Bytes that are no text fit into no JSON.
    old, new = shown(before).splitlines(), shown(after).splitlines()
    return list(difflib.unified_diff(old, new, "before", "after", lineterm="", n=3))
