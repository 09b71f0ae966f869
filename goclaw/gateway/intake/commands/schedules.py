"""Commands about later events (`goclaw.conversation.schedules`).

- `/remind TIME TEXT`: the text comes to this chat then (`schedules.moments` has the times). What begins with no time
  is a message to the model, which has the tool `schedule`.
- `/schedule list|add|pause|resume|run|remove|runs|timezone`: see `schedules.command_line`.
- `/heartbeat [on|off|now]`: see `schedules.heartbeat`.
"""

import re
from collections.abc import Awaitable
from dataclasses import replace

from goclaw.conversation.schedules.command_line import parse
from goclaw.conversation.schedules.moments import split_moment
from goclaw.conversation.schedules.orders import carried_out, make_schedule, run_heartbeat_order
from goclaw.conversation.schedules.times import NoTime, UnusableTime
from goclaw.errors import AccessDenied, ConfigError, DiskError, StateError
from goclaw.gateway.intake.commands.base import Command, CommandContext, Reply
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder, ScheduleRequest

_EXAMPLES = "/remind 20m TEXT, /remind tomorrow 8:00 TEXT, or /remind friday 17:00 TEXT"
_TO = re.compile(r"^to ")
"""As in `/remind me in an hour to drink tea`."""


async def _remind(context: CommandContext) -> Reply:
    ports, inbound = context.ports, context.inbound
    if not context.arguments:
        return Reply(f"Send a time and a text: {_EXAMPLES}.")
    wanted = context.arguments.removeprefix("me ")
    try:
        moment, text = split_moment(wanted, ports.clock.now(), ports.schedules.zone(context.actor))
    except UnusableTime as error:
        return Reply(f"No reminder set: {error}.")
    except NoTime:
        if model := await _find_model_without_tools(context):
            return Reply(f"No reminder set: I did not understand when, and {model} cannot set one. Send {_EXAMPLES}.")
        await ports.engine.submit(replace(inbound, text=f"Remind me {wanted}"))
        return Reply(turn=inbound.id)
    request = ScheduleRequest(at=moment, message=_TO.sub("", text) if wanted != context.arguments else text)
    return await _answer(make_schedule(ports.schedules, inbound, ScheduleOrder("add", request=request)))


async def _find_model_without_tools(context: CommandContext) -> str:
    """Return the model that would answer if it cannot call tools, so that it can set nothing; empty: it can."""
    sessions = context.ports.sessions
    try:
        kind, _ = await sessions.choices.agents.answering(context.actor, context.session)
        spec = (await sessions.choices.agents.model(context.session, kind)).spec
    except ConfigError:
        return ""  # the turn says what is wrong
    return spec if sessions.models.served.of(spec).tools is False else ""


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


REMIND = Command("remind", "Set a reminder: /remind 20m|tomorrow 8:00|friday 17:00 TEXT", _remind, anywhere=True)
SCHEDULE = Command("schedule", "Schedule messages and tasks: /schedule list|add|…", _schedule, anywhere=True)
HEARTBEAT = Command("heartbeat", "Check HEARTBEAT.md regularly: /heartbeat on|off|now", _heartbeat, anywhere=True)
