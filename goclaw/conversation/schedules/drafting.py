"""From a request to a job: each error names the option, and the forms that it may have."""

import re
from dataclasses import replace
from datetime import tzinfo
from typing import get_args

from goclaw.common.core import catalog
from goclaw.common.core.events import LOCAL, Address, Inbound
from goclaw.common.core.plugins import third_party
from goclaw.common.core.selection import find_fault
from goclaw.conversation.schedules.jobs import CatchUp, Job, TaskOptions
from goclaw.conversation.schedules.recurrence import AnyRecurrence, Once, cron, interval
from goclaw.conversation.schedules.times import NoTime, duration, parse_moment
from goclaw.errors import StateError
from goclaw.tools.toolkit.schedule_orders import ScheduleRequest

WHEN = (
    "say when, in one of these ways: at (20m, 8:00, tomorrow 8:00, 2026-12-24T18:00), every (30m, 2h, 1d), "
    "or cron (`30 8 * * 1-5`)"
)
WHAT = "say what, as one of these: message (sent word for word) or task (an agent gets it)"
_TASK_ONLY = ("agent", "model", "tools", "ask", "budget", "time_limit")
_CHAT = re.compile(r"(?P<channel>[a-z][a-z0-9_-]{0,31}):(?P<chat>-?[^\s:]{1,64})(?::(?P<thread>[0-9]{1,20}))?")
_CATCH_UP: dict[str, CatchUp] = {each: each for each in get_args(CatchUp)}


def draft(name: str, wanted: ScheduleRequest, inbound: Inbound, now: float, zone: tzinfo) -> Job:
    """Return the job that a person asks for with a message; their rights are not checked.

    Args:
        name: of the job; empty: it gets one when it is stored.
        wanted: the request.
        inbound: the message that asks: its owner, its origin, and the result's target unless `wanted` names one.
        now: epoch seconds.
        zone: that of the person.

    Raises:
        StateError: it contradicts itself, lacks something or has it in no known form.
    """
    if bool(wanted.message.strip()) == bool(wanted.task.strip()):
        raise StateError(WHAT)
    is_task = bool(wanted.task.strip())
    if not is_task and (given := [option for option in _TASK_ONLY if getattr(wanted, option)]):
        raise StateError(f"{given[0].replace('_', '-')} is for a task: a message is sent as it stands")
    if not is_task and wanted.session and wanted.to:
        raise StateError("a message goes to a chat (to) or into a session (session), not both")
    catch_up = _CATCH_UP.get(wanted.catch_up or "last")
    if catch_up is None:
        raise StateError(f"`{wanted.catch_up[:40]}` is not a catch-up mode: write last, all or none")
    address = replace(inbound.address, reply_to=None)
    if wanted.to:
        address = parse_chat(wanted.to)
    elif wanted.session and not is_task:
        address = Address(LOCAL, wanted.session)
    return Job(
        name,
        "task" if is_task else "message",
        (wanted.task if is_task else wanted.message).strip(),
        _when(wanted, now, zone),
        replace(inbound.actor, behalf=()),
        wanted.session if wanted.session and not is_task else inbound.session,
        address,
        _task(wanted) if is_task else TaskOptions(),
        catch_up,
        personal=not is_task and bool(wanted.at),
        elsewhere=bool(wanted.to) and f"{address.channel}:{address.chat}" != inbound.actor.key,
        origin=inbound.id,
    )


def parse_chat(text: str) -> Address:
    """Return the chat that a text such as `telegram:123456` names.

    Raises:
        StateError: it names no chat, or one of an unknown channel.
    """
    found = _CHAT.fullmatch(text)
    if found is None:
        raise StateError(
            f"`{text[:60]}` is not a chat: write telegram:<chat id>, as in telegram:123456, or notify:<name>"
        )
    known = {**catalog.CHANNELS, **third_party("channels"), **catalog.CHANNELS_OF_SECTIONS}
    if found["channel"] not in known:
        raise StateError(f"there is no channel {found['channel']}: {', '.join(sorted(known))}")
    return Address(found["channel"], found["chat"], found["thread"])


def _when(wanted: ScheduleRequest, now: float, zone: tzinfo) -> AnyRecurrence:
    given = [each for each in (wanted.at, wanted.every, wanted.cron) if each.strip()]
    if len(given) != 1:
        raise StateError(WHEN)
    key = str(getattr(zone, "key", ""))
    try:
        if wanted.at.strip():
            by_duration = duration(wanted.at.strip()) is not None
            return Once(parse_moment(wanted.at, now, zone), key, by_duration)
        return interval(wanted.every, now, key) if wanted.every.strip() else cron(wanted.cron, key, now)
    except NoTime as error:
        raise StateError(str(error)) from None


def _task(wanted: ScheduleRequest) -> TaskOptions:
    seconds = duration(wanted.time_limit.strip()) if wanted.time_limit else None
    if wanted.time_limit and not seconds:
        raise StateError(f"`{wanted.time_limit[:40]}` is not a time limit: write 90s, 10m or 1h")
    if wanted.budget is not None and not 0 < wanted.budget < 1_000_000:
        raise StateError("the budget should be a number of US dollars above 0, as in 0.50")
    tools = tuple(filter(None, (each.strip() for each in wanted.tools.split(","))))
    if problem := find_fault(tools):
        raise StateError(f"the tools: {problem}")
    return TaskOptions(
        wanted.session or "fresh",
        wanted.agent,
        wanted.model,
        tools or None,
        budget=wanted.budget,
        seconds=seconds,
        ask=wanted.ask,
    )
