"""`/tools` and `/tools NAME`: what the agent can do for the sender, and everything about one of its tools."""

import json

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.config.keys import closest
from goclaw.errors import UnknownTool
from goclaw.redact import mask
from goclaw.specs import TOOL_CALL, TOOL_SEARCH
from goclaw.toolkit.describing import details
from goclaw.toolkit.tool_listing import ListedTool, fault_lines, overview

LEGEND = "In brackets: how much harm a call can do. /tools NAME tells all about one, and when it asks first."


async def _tools(context: CommandContext) -> Reply:
    listing, name = context.ports.tools, context.arguments
    if name:
        found = listing.find(name, context.actor) or listing.find(name.lower(), context.actor)
        return Reply(_all_about(found, context), markdown=True) if found else Reply(_unknown(context))
    # By these two a model finds the others; a person has the whole list here.
    listed = [shown for shown in listing.of(context.actor) if shown.name not in (TOOL_SEARCH, TOOL_CALL)]
    blocks = [overview(listed), LEGEND] if listed else ["You may use no tools."]
    # Faults are for people who can mend them, and in a group others read along.
    alone = context.inbound.address.reply_to is None
    oversees = context.ports.access.authorize(context.actor, "command.admin", "tools").allowed
    if alone and oversees and (faults := fault_lines(listing.faults)):
        blocks.append("\n".join(["**Not working**", "", *(f"- {line}" for line in faults)]))
    return Reply("\n\n".join(blocks), markdown=True)


def _all_about(shown: ListedTool, context: CommandContext) -> str:
    fixed = context.ports.access.authorize(context.actor, "tool.use", shown.name).input or {}
    lines = [f"- `{name}` is always `{mask(json.dumps(value, ensure_ascii=False))}`" for name, value in fixed.items()]
    yours = ["\n".join(["Fixed for you, whatever is asked for:", "", *lines])] if lines else []
    offered = [f"It is {shown.availability}."] if shown.availability else []
    return "\n\n".join([details(shown.tool, shown.origin), *offered, *yours])


def _unknown(context: CommandContext) -> str:
    """Return the same for a tool that does not exist and for one that is not the sender's."""
    meant = closest(context.arguments, [shown.name for shown in context.ports.tools.of(context.actor)])
    return f"{UnknownTool(context.arguments)}." + (f" Did you mean /tools {meant}?" if meant else " See /tools.")


COMMAND = Command("tools", "Show what I can do for you, or all about one tool: /tools read", _tools)
