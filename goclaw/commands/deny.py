"""`/deny ID`: keep a tool call from running, or leave a question without an answer."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _deny(context: CommandContext) -> Reply:
    if not context.arguments:
        return Reply("Say which: /deny ID, as in the question.")
    questions = context.ports.questions
    return Reply(await questions.decline(context.actor, context.arguments.lower()))


COMMAND = Command("deny", "Refuse a tool call, or leave a question open: /deny ID", _deny)
