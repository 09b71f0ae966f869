"""The text of a file that a tool is about to change."""

from goclaw.errors import ToolError
from goclaw.toolkit.base import ToolContext
from goclaw.tools.suggesting import with_suggestion
from goclaw.tools.text import Text, text_of


async def text_in(ctx: ToolContext, path: str) -> Text:
    """The text as it is now.

    Raises:
        ToolError: there is none; where a name is near, the error offers it.
    """
    try:
        return await ctx.workspace.use(path, lambda opened: text_of(path, opened))
    except ToolError as error:
        raise await with_suggestion(ctx, path, error) from error
