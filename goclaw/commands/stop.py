"""`/stop`: end the turn that runs. Works at any time, whatever hangs."""

from goclaw.commands.base import Command, CommandContext, Reply


async def _stop(context: CommandContext) -> Reply:
    waiting = context.ports.engine.waiting(context.session)
    if not await context.ports.engine.cancel(context.session):
        return Reply("Nothing is running.")
    follows = f" {waiting} waiting message(s) follow now." if waiting else ""
    return Reply(f"Stopped.{follows}")


COMMAND = Command("stop", "Stop the answer that is being worked on", _stop)
