"""`/approve ID`: let a tool call run that waits for it."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.events import ALLOW


async def _approve(context: CommandContext) -> Reply:
    if not context.arguments:
        return Reply("Say which: /approve ID, as in the question.")
    questions = context.ports.sessions.questions
    return Reply(await questions.decide(context.actor, context.arguments, ALLOW))


COMMAND = Command("approve", "Let a tool call run: /approve ID", _approve)
