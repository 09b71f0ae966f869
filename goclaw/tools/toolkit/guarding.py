"""Asks the guard about a call: what the call does, what its model has read, and whose mode and role decide."""

from collections.abc import Iterator

from pydantic import BaseModel

from goclaw.common.auth.access import Access
from goclaw.common.specs import MCP, SideEffect
from goclaw.errors import ToolError
from goclaw.tools.approval.guard import Finding, Route, Sink, judge
from goclaw.tools.toolkit.acting_files import acts_later
from goclaw.tools.toolkit.base import Tool, ToolContext
from goclaw.tools.toolkit.scope import Invocation, Refusal, Watch

MCP_TAG = "mcp"
_PROMPT_FILES = ("USER.md", "MEMORY.md")
"""Prompt files about people."""


async def find_reason(access: Access, invocation: Invocation, context: ToolContext, watch: Watch) -> Finding | None:
    """Return why the guard asks about a call, or None.

    Raises:
        ToolError: the guard refuses it, by the person's role or in plan mode.
    """
    rule, mode = access.guard(context.actor), watch.mode()
    if rule == "off" or mode == "bypass":
        return None
    sinks = list(_sinks(invocation, context, watch))
    if not sinks or (seen := watch.scope.services.window()) is None:
        return None
    for sink in sinks:
        is_by_overlap = sink.route is Route.ADDRESS and seen.foreign and not seen.private
        finding = judge(sink, seen, await _prompt_texts(context) if is_by_overlap else ())
        if finding and (rule == "deny" or mode == "plan"):
            watch.outcome.refusal = Refusal.RULE
            why = "the session is in plan mode" if mode == "plan" else "the guard refuses that for these people"
            raise ToolError(f"refused: {finding.reason} ({why})")
        if finding:
            return finding
    return None


def _sinks(invocation: Invocation, context: ToolContext, watch: Watch) -> Iterator[Sink]:
    """Yield what a call does: as its tool declares, else as its tags imply; and each file it writes that acts later."""
    tool, arguments, root = invocation.tool, invocation.arguments, f"{context.workspace.root}/"
    if sink := tool.sink(arguments, context) if tool.sink else _implied(tool, arguments):
        yield sink
    use = watch.options.slot.access
    for path in use.writes if use else ():
        name = path.removeprefix(root)
        if acts_later(name):
            yield Sink(Route.LASTING, f"{name} is changed, which acts later")


def _implied(tool: Tool, arguments: BaseModel) -> Sink | None:
    name = tool.spec.name
    if MCP_TAG in tool.spec.tags:
        server = name.split("__")[1] if name.startswith(MCP) else str(getattr(arguments, "server", ""))
        return Sink(Route.SEND, f"A call of {server or name}", server)
    return Sink(Route.SEND, f"A call of {name}") if tool.spec.side_effect is SideEffect.NETWORK else None


async def _prompt_texts(context: ToolContext) -> list[str]:
    """Return the texts in the prompt that are about people; a file that cannot be read is in no prompt."""
    texts = []
    for name in _PROMPT_FILES:
        try:
            texts.append((await context.home.read_bytes(name)).decode("utf-8", "replace"))
        except ToolError:
            continue
    return texts
