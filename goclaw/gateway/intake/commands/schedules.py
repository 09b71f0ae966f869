"""Commands about later events (`goclaw.conversation.schedules`).

- `/remind 20m|8:00|tomorrow 8:00|ISO TEXT`: the text comes to this chat then, word for word. What begins with no time
  is a message to the model, which has the tool `schedule`.
- `/schedule list|add|pause|resume|run|remove|runs|timezone`: see `schedules.command_line`.
- `/heartbeat [on|off|now]`: see `schedules.heartbeat`.
"""

from collections.abc import Awaitable
from dataclasses import replace

from goclaw.conversation.schedules.command_line import parse
from goclaw.conversation.schedules.orders import carried_out, make_schedule, run_heartbeat_order
from goclaw.conversation.schedules.times import NoTime, UnusableTime, split_moment
from goclaw.errors import AccessDenied, DiskError, StateError
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder, ScheduleRequest


async def _remind(context: CommandContext) -> Reply:
    ports, inbound = context.ports, context.inbound
    if not context.arguments:
        return Reply("Send /remind 20m TEXT. Instead of 20m you can write 8:00, tomorrow 8:00, or 2026-12-24T18:00.")
    try:
        moment, text = split_moment(context.arguments, ports.clock.now(), ports.schedules.zone(context.actor))
    except UnusableTime as error:
        return Reply(f"No reminder set: {error}.")
    except NoTime:
        await ports.engine.submit(replace(inbound, text=f"Remind me {context.arguments.removeprefix('me ')}"))
        return Reply(turn=inbound.id)
    wanted = ScheduleRequest(at=moment, message=text)
    return await _answer(make_schedule(ports.schedules, inbound, ScheduleOrder("add", request=wanted)))


async def _schedule(context: CommandContext) -> Reply:
    try:
        order = parse(context.arguments)
    except StateError as error:
        return Reply(f"Not done: {error}")
    return await _answer(carried_out(context.ports.schedules, context.inbound, order))


async def _answer(order: Awaitable[str]) -> Reply:
    """Return the answer to an order, or why it was not carried out; a disk that refuses is for the gateway."""
    try:
        return Reply(await order)
    except DiskError:
        raise
    except AccessDenied as error:
        return Reply(f"Not allowed: {error}.")
    except StateError as error:
        return Reply(f"Not done: {error}.")


async def _heartbeat(context: CommandContext) -> Reply:
    order = context.arguments.strip().lower()
    return await _answer(run_heartbeat_order(context.ports.schedules, context.inbound, order))


REMIND = Command("remind", "Set a reminder: /remind 20m|8:00|tomorrow 8:00 TEXT", _remind, anywhere=True)
SCHEDULE = Command("schedule", "Schedule messages and tasks: /schedule list|add|…", _schedule, anywhere=True)
HEARTBEAT = Command("heartbeat", "Check HEARTBEAT.md regularly: /heartbeat on|off|now", _heartbeat, anywhere=True)
