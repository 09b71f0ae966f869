"""The `list` tool: the entries of a folder."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from goclaw.errors import ToolError
from goclaw.specs import Annotations, Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import BoundedResult
from goclaw.toolkit.scheduling import ResourceUse
from goclaw.tools.arguments import Folder
from goclaw.tools.suggesting import is_missing

_MAX_ENTRIES = 10_000
"""Entries of a folder that are looked at."""


class Listed(BaseModel):
    """One name in the folder."""

    model_config = ConfigDict(frozen=True, strict=True)

    name: str
    kind: Literal["file", "folder"]
    size: Annotated[int | None, Field(description="Bytes of a file.")] = None


class ListResult(BoundedResult):
    """What is in a folder, in the order of names, folders first."""

    path: str
    entries: list[Listed]

    def text(self) -> str:
        """Return a line per entry: `name/` for a folder, a file with its size."""
        if not self.entries:
            return f"{self.path} is empty"
        lines = [
            f"{_shown(each.name)}/" if each.kind == "folder" else f"{_shown(each.name)}  {each.size:,} bytes"
            for each in self.entries
        ]
        rest = [f"[{self.returned} of {self.total} entries; {self.refinement_hint}]"] if self.truncated else []
        return "\n".join([*lines, *rest])


@tool(
    side_effect=SideEffect.READ_ONLY,
    name="list",
    tags=("filesystem", "read"),
    annotations=Annotations("List a folder", read_only=True, destructive=None, idempotent=True, open_world=False),
    bounded=True,
    access=lambda arguments, ctx: ResourceUse(reads=(arguments.path,)),
    call_hint="Listing {{ path }}",
    result_hint="{{ total }} entries in {{ path }}",
    examples=(Example("The workspace", {}, "src/\na.txt  4 bytes", {"a.txt": "one\n", "src/b.txt": "two\n"}),),
)
async def list_(
    ctx: ToolContext,
    path: Folder = ".",
    limit: Annotated[int, Field(ge=1, le=2_000, description="Max entries.")] = 500,
) -> ListResult:
    """List what is in a folder: folders, and files with their sizes. Symbolic links are left out."""
    try:
        shown, found = await ctx.workspace.entries(path, _MAX_ENTRIES + 1)
    except ToolError as error:
        if not is_missing(error):
            raise
        raise ToolError(f"{error} (glob finds files by their names)") from error
    entries = [
        Listed(name=name, kind="folder" if size is None else "file", size=size)
        for name, size in sorted(found[:_MAX_ENTRIES], key=lambda item: (item[1] is not None, item[0]))
    ]
    more = len(entries) > limit or len(found) > _MAX_ENTRIES
    return ListResult(
        path=shown,
        entries=entries[:limit],
        returned=min(limit, len(entries)),
        total=None if len(found) > _MAX_ENTRIES else len(entries),
        truncated=more,
        refinement_hint="give a larger limit, or use glob with a pattern" if more else "",
    )


def _shown(name: str) -> str:
    """Return the name without control characters: it may be hostile, and a model reads it."""
    return name if name.isprintable() else repr(name)
