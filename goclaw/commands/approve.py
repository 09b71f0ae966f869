"""`/approve ID [always]`: let a tool call run that waits for it, and its like from now on."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.events import ALLOW, ALWAYS


async def _approve(context: CommandContext) -> Reply:
    question, _, more = context.arguments.partition(" ")
    if not question or more.strip().lower() not in ("", ALWAYS):
        return Reply("Say which: /approve ID, as in the question; /approve ID always, where that is offered.")
    answer = ALWAYS if more else ALLOW
    return Reply(await context.ports.questions.decide(context.actor, question.lower(), answer))


COMMAND = Command("approve", "Let a tool call run: /approve ID, or /approve ID always", _approve)
