"""The `write` tool: a whole file in one step."""

from typing import Annotated

from pydantic import Field

from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.tools.text import encoded


@tool(side_effect=SideEffect.MUTATING)
async def write(
    ctx: ToolContext,
    path: Annotated[str, Field(description="File path, absolute or relative to the workspace.")],
    content: Annotated[str, Field(description="The whole new content.")],
) -> str:
    """Write content to a file. Replaces a file that exists; makes parent folders that are missing."""
    written = await ctx.workspace.write_bytes(path, encoded(content, "content"))
    return f"wrote {written.size} bytes to {path} ({'created' if written.created else 'replaced'})"
