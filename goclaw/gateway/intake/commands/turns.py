"""Commands about the turn that runs.

- `/stop`: end it. Works at any time, whatever hangs; the answer is immediate. Background tasks go on, and it says so;
  `/stop tasks` ends the sender's tasks, and no turn.
- `/pause`, `/resume`: pause it before its next request or tool call. For people who may `/stop` it.
- `/queue [MODE]`: choose how messages that arrive while it runs are handled. See `sessions.queueing`.
"""

from typing import get_args

from goclaw.common.config.values import QueueMode
from goclaw.conversation.sessions.modes import QUEUE_MEANINGS
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply
from goclaw.tools.execution.tasks.base import Owner

ANSWER_SECONDS = 0.15
"""Seconds the answer waits for the turn's end: /stop is answered within 0.2 s, and most turns end in 0.05."""

NOTHING_RUNS = "Nothing is running."
PAUSE_NOT_ALLOWED = "This agent's turns cannot be paused. /stop ends the current one."
MAY_NOT_STOP = "You are not allowed to stop or pause turns here."
DEFAULT_MODE = "default"


async def _stop(context: CommandContext) -> Reply:
    tasks, owner = context.ports.environment.tasks, Owner(context.session, context.actor.key)
    if context.arguments.strip().lower() == "tasks":
        ended = await tasks.stop_all(owner)
        return Reply(f"Background tasks stopped: {ended}." if ended else "You have no background tasks running here.")
    reply = await _stop_turn(context)
    if running := tasks.running(owner):
        are, them = ("task is", "it") if running == 1 else ("tasks are", "them")
        return Reply(f"{reply.text}\n{running} background {are} still running; `/stop tasks` stops {them}.")
    return reply


async def _stop_turn(context: CommandContext) -> Reply:
    engine, session = context.ports.engine, context.session
    waiting, turn = engine.waiting(session), engine.running(session)
    if not await engine.cancel(session, ANSWER_SECONDS, context.inbound):
        return Reply(NOTHING_RUNS)
    if turn is not None and engine.running(session) == turn:
        busy = "Stopping: the turn is still finishing."
        return Reply(f"{busy}{_follows(waiting, 'then')}")
    return Reply(f"Stopped.{_follows(waiting, 'now')}")


def _follows(waiting: int, when: str) -> str:
    if not waiting:
        return ""
    return f" 1 waiting message follows {when}." if waiting == 1 else f" {waiting} waiting messages follow {when}."


async def _pause(context: CommandContext) -> Reply:
    ports, session = context.ports, context.session
    rules, turn = ports.sessions.inspection.rules_in(context.session), ports.engine.running(session)
    if not ports.access.authorize(context.actor, "command.run", "stop").allowed:
        return Reply(MAY_NOT_STOP)
    if turn is None:
        return Reply(NOTHING_RUNS)
    if not rules.interrupts_allowed:
        return Reply(PAUSE_NOT_ALLOWED)
    if not await ports.sessions.pauses.order(session, turn, context.actor.key):
        return Reply("The turn is already paused. /resume continues it, /stop ends it.")
    return Reply("Paused: the current step may finish, but nothing new starts. /resume continues, /stop ends the turn.")


async def _resume(context: CommandContext) -> Reply:
    ports, session = context.ports, context.session
    turn = ports.engine.running(session)
    if not ports.access.authorize(context.actor, "command.run", "stop").allowed:
        return Reply(MAY_NOT_STOP)
    if turn is None or not await ports.sessions.pauses.lift(session, turn, ports.engine.signal):
        return Reply("Nothing is paused.")
    return Reply("Resumed.")


async def _queue(context: CommandContext) -> Reply:
    modes, wanted = context.ports.sessions.choices.queue_modes, context.arguments.lower()
    if not wanted:
        lines = [f"  /queue {mode}: {meaning}" for mode, meaning in QUEUE_MEANINGS.items()]
        head = f"Queue mode: {await modes.of(context.session)}. When a message arrives while I work:"
        return Reply("\n".join([head, *lines, f"  /queue {DEFAULT_MODE}: as configured ({modes.default})"]))
    for mode in get_args(QueueMode):
        if wanted == mode:
            await modes.set(context.session, mode)
            return Reply(f"Queue mode: {mode}. When a message arrives while I work, {QUEUE_MEANINGS[mode]}.")
    if wanted != DEFAULT_MODE:
        return Reply(f"There is no queue mode {wanted!r}. Send one of: {', '.join((*QUEUE_MEANINGS, DEFAULT_MODE))}.")
    await modes.set(context.session, None)
    return Reply(f"Queue mode: {modes.default}, as configured (queue.mode).")


STOP = Command("stop", "Stop the current turn", _stop)
PAUSE = Command("pause", "Pause the current turn", _pause)
RESUME = Command("resume", "Resume the paused turn", _resume)
QUEUE = Command("queue", "Choose how messages sent during a turn are handled: /queue [MODE]", _queue)
