"""`/help`: the commands that the sender may use."""

from goclaw.commands.base import Command, CommandContext, Reply

FIRST = ("help", "status", "stop", "clear", "compact", "model")
"""The commands that people need most, in this order; all others follow as the catalogue has them."""


async def _help(context: CommandContext) -> Reply:
    visible = {info.name: info for info in context.gateway.commands(context.actor)}
    ordered = {name: visible[name] for name in FIRST if name in visible} | visible
    lines = [f"/{info.name} - {info.summary}" for info in ordered.values()]
    return Reply("\n".join(["Available commands:", *lines]))


COMMAND = Command("help", "Show available commands", _help)
