"""`/stop`: end the running turn. Works at any time, whatever hangs, and is answered at once.

Background tasks go on, and the answer says so; `/stop tasks` ends the sender's tasks, and no turn.
"""

from goclaw.commands.base import Command, CommandContext, Reply
from goclaw.tasks.base import Owner

ANSWER_SECONDS = 0.15
"""Seconds the answer waits for the turn's end: /stop is answered within 0.2 s, and most turns end in 0.05."""

NOTHING_RUNS = "Nothing is running."


async def _stop(context: CommandContext) -> Reply:
    if context.arguments.strip().lower() == "tasks":
        return await _stop_tasks(context)
    reply = await _stop_turn(context)
    if running := context.ports.tasks.running(Owner(context.session, context.actor.key)):
        tasks = "1 background task goes on" if running == 1 else f"{running} background tasks go on"
        return Reply(f"{reply.text}\n{tasks}; `/stop tasks` ends that.")
    return reply


async def _stop_tasks(context: CommandContext) -> Reply:
    ended = await context.ports.tasks.stop_all(Owner(context.session, context.actor.key))
    return Reply(f"Stopped in the background: {ended}." if ended else "Nothing of yours runs in the background here.")


async def _stop_turn(context: CommandContext) -> Reply:
    engine, session = context.ports.engine, context.session
    waiting, turn = engine.waiting(session), engine.running(session)
    if not await engine.cancel(session, ANSWER_SECONDS, context.inbound):
        return Reply(NOTHING_RUNS)
    if turn is not None and engine.running(session) == turn:
        busy = "Stopping: everything was told to end, and the last of it is still busy with that."
        return Reply(f"{busy}{_follows(waiting, 'then')}")
    return Reply(f"Stopped.{_follows(waiting, 'now')}")


def _follows(waiting: int, when: str) -> str:
    if not waiting:
        return ""
    return f" 1 waiting message follows {when}." if waiting == 1 else f" {waiting} waiting messages follow {when}."


COMMAND = Command("stop", "Stop the answer that is being worked on", _stop)
