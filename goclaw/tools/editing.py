"""Reads the text of a file to change, and retries where others changed it meanwhile."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from goclaw.errors import ToolError
from goclaw.toolkit.base import ToolContext
from goclaw.tools.suggesting import with_suggestion
from goclaw.tools.text import Text, text_of
from goclaw.workspace import again_when_changed

ResultT = TypeVar("ResultT")


async def text_in(ctx: ToolContext, path: str) -> Text:
    """Read the text as it is now.

    Raises:
        ToolError: no such file; the error suggests a similar name.
    """
    try:
        return await ctx.workspace.use(path, lambda opened: text_of(path, opened))
    except ToolError as error:
        raise await with_suggestion(ctx, path, error) from error


async def again_unless_approved(ctx: ToolContext, tool: str, change: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return what `change` (read, edit, write) makes, anew while others change the file between its look and its write.

    Not where a person approved this call of `tool`: they saw what it makes of one content, not of another.

    Raises:
        FileChanged: the file changed after it was approved.
        ToolError: `busy`, when others never leave the file alone; and what `change` raises.
    """
    if ctx.config.tools.write.review or ctx.agreed_by("tool.use", tool):
        return await change()
    return await again_when_changed(change)
