"""The `memory_list` tool."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from goclaw.errors import ToolError
from goclaw.memory.base import MemoryFile
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.results import Result
from goclaw.tools.memory_search import memory_access


class Files(Result):
    """The memory files."""

    files: Annotated[tuple[MemoryFile, ...], Field(description="Those that the acting person may see")]

    @property
    def count(self) -> str:
        """How many, in words."""
        return "1 memory file" if len(self.files) == 1 else f"{len(self.files)} memory files"

    def text(self) -> str:
        if not self.files:
            return "no memory files yet: write MEMORY.md, or a Markdown file in the folder memory"
        return "\n".join((self.count, *map(_line, self.files)))


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
    """List the memory files that `memory_search` looks into, with size, lines and time of the last change."""
    if not ctx.config.memory.enabled:
        raise ToolError("memory search is disabled: set memory.enabled")
    return Files(files=tuple(await ctx.memory.files(ctx.workspace, ctx.actor.key)))


def _line(file: MemoryFile) -> str:
    modified = datetime.fromtimestamp(file.modified, UTC).isoformat(timespec="seconds")
    lines = "1 line" if file.lines == 1 else f"{file.lines} lines"
    return f"{file.path}  {file.size} bytes  {lines}  {modified}"
