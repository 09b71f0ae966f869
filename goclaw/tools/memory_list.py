"""The `memory_list` tool."""

from typing import Annotated

from pydantic import BaseModel, Field

from goclaw.errors import ToolError
from goclaw.memory.base import MemoryFile
from goclaw.memory.dates import moment
from goclaw.memory.key_value import KeyValueFile
from goclaw.memory.places import place_of
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, offered, tool
from goclaw.toolkit.results import Result
from goclaw.tools.memory_search import memory_access, needs_search, whose


class KeptKey(BaseModel):
    """A value, by its name."""

    key: str
    size: Annotated[int, Field(description="Characters of the value")]
    shared: bool


class Files(Result):
    """What is remembered: the memory files, then the keys of values."""

    files: Annotated[tuple[MemoryFile, ...], Field(description="Those that the acting person may see")]
    kept: Annotated[tuple[KeptKey, ...], Field(description="What `memory_read` reads")] = ()

    @property
    def count(self) -> str:
        """How many, in words."""
        return "1 memory file" if len(self.files) == 1 else f"{len(self.files)} memory files"

    def text(self) -> str:
        none = "no memory files yet: write MEMORY.md, or a Markdown file in the folder memory"
        files = "\n".join((self.count, *map(_line, self.files))) if self.files else none
        if not self.kept:
            return files
        count = "1 value" if len(self.kept) == 1 else f"{len(self.kept)} values"
        return "\n".join((files, "", f"{count} (memory_read reads them)", *map(_key_line, self.kept)))


@offered(needs=needs_search)
@tool(
    side_effect=SideEffect.READ_ONLY,
    title="Memory files",
    tags=("memory", "read"),
    access=memory_access,
    call_hint="Listing memory files",
    result_hint="{{ files | count }} memory file(s)",
    examples=(Example("List them", {}, output="1 memory file\nMEMORY.md", files={"MEMORY.md": "Anna likes tea.\n"}),),
)
async def memory_list(ctx: ToolContext) -> Files:
    """List what is remembered: the memory files that `memory_search` looks into, with size, lines and time of the last
    change, then the keys of the values that `memory_read` reads. In a group only what is for everybody.
    """
    if lack := needs_search(ctx.config):
        raise ToolError(lack)
    files = tuple(await ctx.memory.files(ctx.home, whose(ctx)))
    own = await _keys(ctx, shared=False) if whose(ctx) else []
    return Files(files=files, kept=(*own, *await _keys(ctx, shared=True)))


async def _keys(ctx: ToolContext, *, shared: bool) -> list[KeptKey]:
    """None where they cannot be read: the files are listed all the same, and `memory_read` says what is wrong."""
    try:
        values = await KeyValueFile(place_of(ctx.home, ctx.actor.key, shared=shared)).all()
    except ToolError:
        return []
    return [KeptKey(key=key, size=len(value), shared=shared) for key, value in sorted(values.items())]


def _key_line(kept: KeptKey) -> str:
    return f"{kept.key}  {kept.size} characters{'  shared' if kept.shared else ''}"


def _line(file: MemoryFile) -> str:
    modified = moment(file.modified).isoformat(timespec="seconds")
    lines = "1 line" if file.lines == 1 else f"{file.lines} lines"
    return f"{file.path}  {file.size} bytes  {lines}  {modified}"
