"""The `tool_search` tool."""

import asyncio
import json
from typing import Annotated, Any

from pydantic import Field

from goclaw.llm.tool_schemas import trimmed
from goclaw.specs import TOOL_CALL, TOOL_SEARCH, Example, SideEffect, ToolSpec
from goclaw.toolkit.base import ToolContext, tool
from goclaw.toolkit.finding import find
from goclaw.toolkit.results import Result
from goclaw.toolkit.scheduling import ResourceUse

TOLD, NAMED = 3, 10
"""How many tools are told with their arguments at most, and how many at least by name."""
ROOM = 2_500
"""Characters that what is told of further tools may fill, beside the first: a small model's window has little room."""


class ToolsFound(Result):
    """Tools that fit a query."""

    names: Annotated[tuple[str, ...], Field(description="Of the tools, the best first.")]
    told: Annotated[str, Field(description="What the model reads of them.")]

    def text(self) -> str:
        return self.told


def _access(arguments: Any, ctx: ToolContext) -> ResourceUse:
    return ResourceUse()


@tool(
    side_effect=SideEffect.NONE,
    title="Search for tools",
    tags=("index",),
    access=_access,
    call_hint="Looking for a tool: {{ query | truncate(80) }}",
    result_hint="{{ names | count }} tool(s)",
    examples=(Example("A tool that finds files", {"query": "find files by name"}, "glob: Find files"),),
)
async def tool_search(
    ctx: ToolContext,
    query: Annotated[str, Field(min_length=1, max_length=500, description="What it should do, or its name.")],
) -> ToolsFound:
    """Find tools that are not listed here, with their arguments. Run them with tool_call.

    Also tells the whole description of a listed one.
    """
    usable = [spec for spec in ctx.usable() if spec.name not in (TOOL_SEARCH, TOOL_CALL)]
    # In a thread: with some hundred tools of MCP servers it takes two tenths of a second.
    found = (await asyncio.to_thread(find, query, usable))[:NAMED]
    names = tuple(spec.name for spec in found)
    if not found:
        return ToolsFound(names=names, told=f"no tool fits; there are: {', '.join(spec.name for spec in usable)}")
    told = [_told(spec) for spec in found[:TOLD]]
    while len(told) > 1 and sum(map(len, told)) > ROOM:
        told.pop()
    more = [f"also: {', '.join(names[len(told) :])}"] if names[len(told) :] else []
    return ToolsFound(names=names, told="\n\n".join([*told, *more]))


def _told(spec: ToolSpec) -> str:
    schema = json.dumps(trimmed(spec.schema), ensure_ascii=False, separators=(",", ":"))
    return f"{spec.name}: {spec.description}\narguments: {schema}"
