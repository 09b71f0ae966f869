"""The suggestion for a missing file: the name that was probably meant."""

from goclaw.errors import ToolError
from goclaw.toolkit.base import ToolContext


def is_missing(error: ToolError) -> bool:
    """Whether it says that nothing is there."""
    return isinstance(error.__cause__, FileNotFoundError)


async def with_suggestion(ctx: ToolContext, path: str, error: ToolError) -> ToolError:
    """Return the error; where a file is missing, with the nearest existing name."""
    if not is_missing(error):
        return error
    meant, _ = await ctx.workspace.nearest(path)
    return ToolError(f"{error} (did you mean {meant}?)") if meant else error
