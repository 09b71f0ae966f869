"""`/start`: sent by Telegram when a person opens the chat for the first time."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _start(context: CommandContext) -> Reply:
    name = context.actor.name or "there"
    return Reply(f"Hello {name}! Write to me as you would to a person. /help lists the commands.")


COMMAND = Command("start", "Say hello", _start)
