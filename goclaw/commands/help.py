"""`/help`: the commands that the sender may use."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _help(context: CommandContext) -> Reply:
    lines = [f"/{info.name} - {info.summary}" for info in context.ports.visible(context.actor)]
    return Reply("\n".join(["Available commands:", *lines]))


COMMAND = Command("help", "Show available commands", _help)
