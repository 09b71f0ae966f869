"""The `tool_call` tool: the error for a call that names no tool the person may use.

Of every other call of it `aliases.unwrapped` makes the call that it names, before anything is decided.
"""

from typing import Annotated, Any

from pydantic import Field

from goclaw.errors import UnknownTool
from goclaw.specs import Example, SideEffect
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.scheduling import ResourceUse

_EXAMPLE = {"name": "glob", "arguments": {"pattern": "*.md"}}


def _access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    return ResourceUse()


@tool(
    side_effect=SideEffect.NONE,
    title="Call a tool",
    tags=("index",),
    access=_access,
    call_hint="Calling {{ name | truncate(64) }}",
    result_hint="{{ value | truncate(120) }}",
    examples=(Example("Notes, with a tool that is only found", _EXAMPLE, "tea.md", {"tea.md": "Green tea.\n"}),),
)
async def tool_call(
    ctx: ToolContext,
    name: Annotated[str, Field(min_length=1, description="Its name.")],
    arguments: Annotated[dict[str, Any] | None, Field(description="As tool_search told them.")] = None,
) -> str:
    """Run a tool that is not listed here."""
    raise UnknownTool(name)
