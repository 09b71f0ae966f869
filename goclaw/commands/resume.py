"""`/resume`: resume a turn that `/pause` holds. For people who may `/stop` it."""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.commands.pause import MAY_NOT_STOP


async def _resume(context: CommandContext) -> Reply:
    ports, session = context.ports, context.session
    turn = ports.engine.running(session)
    if not ports.access.authorize(context.actor, "command.run", "stop").allowed:
        return Reply(MAY_NOT_STOP)
    if turn is None or not await ports.pauses.lift(session, turn, ports.engine.signal):
        return Reply("Nothing is paused.")
    return Reply("Going on.")


COMMAND = Command("resume", "Go on with what /pause holds", _resume)
