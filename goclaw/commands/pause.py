"""`/pause`: pause the running turn before its next request or tool call. For people who may `/stop` it."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.commands.stop import NOTHING_RUNS

NOT_ALLOWED = "Turns of this agent cannot be paused ({key}). /stop ends the one that runs."
MAY_NOT_STOP = "You may not stop what runs here, and so not pause it either."


async def _pause(context: CommandContext) -> Reply:
    ports, session = context.ports, context.session
    rules, turn = ports.inspection.rules_in(context.session), ports.engine.running(session)
    if not ports.access.authorize(context.actor, "command.run", "stop").allowed:
        return Reply(MAY_NOT_STOP)
    if turn is None:
        return Reply(NOTHING_RUNS)
    if not rules.interrupts_allowed:
        return Reply(NOT_ALLOWED.format(key=f"{rules.place}.interrupts_allowed"))
    if not await ports.pauses.order(session, turn, context.actor.key):
        return Reply("It is paused already. /resume goes on with it, /stop ends it.")
    return Reply("Paused: what runs now may end, and nothing new begins. /resume goes on with it, /stop ends it.")


COMMAND = Command("pause", "Hold the answer that is being worked on", _pause)
