"""The `memory_list` tool."""

from datetime import UTC, datetime

from goclaw.errors import ToolError
from goclaw.memory.base import MemoryFile
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool


@tool(side_effect=SideEffect.READ_ONLY)
async def memory_list(ctx: ToolContext) -> str:
    """List the memory files that `memory_search` looks into, with size, lines and time of the last change."""
    if not ctx.config.memory.enabled:
        raise ToolError("memory search is disabled: set memory.enabled")
    files = await ctx.memory.files(ctx.workspace, ctx.actor.key)
    if not files:
        return "no memory files yet: write MEMORY.md, or a Markdown file in the folder memory"
    count = "1 memory file" if len(files) == 1 else f"{len(files)} memory files"
    return "\n".join((count, *map(_line, files)))


def _line(file: MemoryFile) -> str:
    modified = datetime.fromtimestamp(file.modified, UTC).isoformat(timespec="seconds")
    lines = "1 line" if file.lines == 1 else f"{file.lines} lines"
    return f"{file.path}  {file.size} bytes  {lines}  {modified}"
