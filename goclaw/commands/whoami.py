"""`/whoami`: who the gateway takes the sender for, and with which rights."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _whoami(context: CommandContext) -> Reply:
    rights = context.ports.rights(context.actor)
    return Reply(f"You are {context.actor.key}.\nSession: {context.session}\n{rights}")


COMMAND = Command("whoami", "Show who I take you for, and what you may do", _whoami)
