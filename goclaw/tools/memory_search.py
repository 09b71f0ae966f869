"""The `memory_search` tool."""

from typing import Annotated

from pydantic import Field

from goclaw.errors import ToolError
from goclaw.memory.base import Hit
from goclaw.specs import SideEffect
from goclaw.toolkit.base import ToolContext, tool


@tool(side_effect=SideEffect.READ_ONLY)
async def memory_search(
    ctx: ToolContext,
    query: Annotated[
        str, Field(min_length=1, description="What to look for: a question, or the words that the note would use")
    ],
) -> str:
    """Search the memory files for what was noted earlier: facts, decisions, preferences, addresses.

    Returns the best passages with their file and lines. When they do not answer, try other words before giving up.
    """
    if not ctx.config.memory.enabled:
        raise ToolError("memory search is disabled: set memory.enabled")
    hits = await ctx.memory.search(ctx.workspace, ctx.actor.key, query, ctx.config.memory.max_results)
    if not hits:
        return f"no memory matches {_shortened(query)!r} (mode: {ctx.memory.mode})"
    count = "1 hit" if len(hits) == 1 else f"{len(hits)} hits"
    return "\n\n".join((f"mode: {ctx.memory.mode}, {count}", *map(_passage, hits)))


def _passage(hit: Hit) -> str:
    place = f"{hit.path}:{hit.start}-{hit.end}  score {hit.score:.2f}"
    return "\n".join(line for line in (place, hit.heading, hit.text) if line)


def _shortened(query: str) -> str:
    return query if len(query) <= 100 else f"{query[:100]}…"
