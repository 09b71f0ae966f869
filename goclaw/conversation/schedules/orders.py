"""Orders about schedules, carried out: from a chat, the command line or an agent; each answer is a text for people."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from goclaw.common.core.events import Actor, Inbound, root_session
from goclaw.common.core.redact import mask
from goclaw.conversation.schedules.jobs import Run, StoredJob
from goclaw.conversation.schedules.recurrence import Once
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.times import format_moment
from goclaw.errors import AccessDenied, StateError, ToolError
from goclaw.tools.toolkit.schedule_orders import ScheduleOrder

MAX_LISTED = 50
"""Schedules in a list for people."""
_SHOWN_TEXT = 80
"""Characters of a schedule's text in a list."""
_FROM_AGENT = ("add", "list", "pause", "resume", "run", "remove")
NOT_UNATTENDED = (
    "a scheduled turn can neither create nor run schedules: tell the person what to set up, or have them create this "
    "schedule with ask"
)


async def carried_out(schedules: Schedules, inbound: Inbound, order: ScheduleOrder) -> str:
    """Carry out a person's order and return the answer.

    Raises:
        AccessDenied: the person may not.
        StateError: it cannot be done, with the reason.
    """
    if order.user:
        inbound = _in_place_of(schedules, inbound, order.user)
    actor, name = inbound.actor, order.name
    match order.action:
        case "add":
            if not name:
                raise StateError("give it a name: /schedule add NAME …")
            return await make_schedule(schedules, inbound, order)
        case "list":
            return await _list(schedules, actor, as_json=order.as_json)
        case "runs":
            return await _runs(schedules, actor, name, as_json=order.as_json)
        case "timezone":
            zone = await schedules.set_zone(actor, name)
            return f"Your time zone is {name}: it is {format_moment(schedules.clock.now(), zone)} there."
        case _:
            return await _change(schedules, actor, order)


async def carry_out_for_agent(schedules: Schedules, inbound: Inbound, order: ScheduleOrder) -> str:
    """Carry out an order of the agent that answers `inbound`, about the schedules of that person alone.

    Raises:
        ToolError: the person may not, or it cannot be done, or not by an agent; with the reason.
    """
    try:
        return await _carry_out_for_agent(schedules, inbound, order)
    except AccessDenied as error:
        raise ToolError(f"permission denied: {error}") from None
    except StateError as error:
        raise ToolError(str(error)) from error


async def _carry_out_for_agent(schedules: Schedules, inbound: Inbound, order: ScheduleOrder) -> str:
    unattended, actor = inbound.unattended, inbound.actor
    if order.action not in _FROM_AGENT:
        raise StateError(f"only people may use {order.action}: they send /schedule {order.action}")
    if order.action in ("add", "resume", "run") and unattended and not unattended.ask:
        raise StateError(NOT_UNATTENDED)
    if order.action == "add":
        # One message may lead to several schedules, and the journal repeats no call of the tool.
        # A run's own session is over with it: what it sets belongs where the run was set.
        inbound = replace(inbound, id="", session=root_session(inbound.session))
        return await make_schedule(schedules, inbound, order, by_agent=True)
    if order.action == "list":
        return await _list(schedules, actor, own=True)
    if order.name not in [each.job.name for each in await schedules.rows.all(actor.key)]:
        raise StateError(f"there is no schedule named {order.name[:80]} of theirs; `list` names them")
    return await _change(schedules, actor, order)


async def make_schedule(schedules: Schedules, inbound: Inbound, order: ScheduleOrder, *, by_agent: bool = False) -> str:
    """Store a schedule and return the answer: its weekday, date, time and zone; raises as `Schedules.make`.

    A person without a time zone is asked for it the first time.
    """
    stored = await schedules.make(inbound, order.name, order.request, by_agent=by_agent)
    said = f"{stored.job.name} is set: {_when(schedules, inbound.actor, stored)}."
    if order.user or inbound.unattended:
        return said  # the person does not read this
    question = await schedules.zone_question(inbound.actor)
    return " ".join(filter(None, (said, "Ask the person:" if question and by_agent else "", question)))


async def _change(schedules: Schedules, actor: Actor, order: ScheduleOrder) -> str:
    name = order.name
    match order.action:
        case "pause":
            await schedules.pause(actor, name)
            return f"{name} is paused until you resume it."
        case "resume":
            next_due = await schedules.resume(actor, name)
            return f"{name} is active again: next {format_moment(next_due, schedules.zone(actor))}."
        case "run":
            await schedules.run(actor, name)
            return f"{name} is running."
        case _:
            await schedules.remove(actor, name)
            return f"{name} is removed."


def _in_place_of(schedules: Schedules, inbound: Inbound, key: str) -> Inbound:
    """Return the message as if that person had sent it: for the owner of the state folder, who acts for them."""
    if not inbound.actor.owner or inbound.actor.behalf:
        raise AccessDenied("--user is for the owner of the state folder: `goclaw schedule` on the machine itself")
    if schedules.users.get(key) is None:
        raise StateError(f"{key[:60]} is not in users.json; `goclaw users list` names the people there")
    actor = Actor(key, inbound.actor.entry)
    session, address = schedules.home(actor)
    return replace(inbound, actor=actor, session=session, address=address)


def _when(schedules: Schedules, actor: Actor, stored: StoredJob) -> str:
    """Return when a job is due, for people: the moment, and the rule if it comes again."""
    if stored.next is None:
        return stored.state
    moment = format_moment(stored.next, schedules.zone(actor))
    return moment if isinstance(stored.job.when, Once) else f"{stored.job.when.words}, next {moment}"


async def _list(schedules: Schedules, actor: Actor, *, own: bool = False, as_json: bool = False) -> str:
    found = await (schedules.rows.all(actor.key) if own else schedules.of(actor))
    runs = await schedules.rows.latest_runs()
    if as_json:
        return orjson.dumps([_data(each, runs) for each in found], option=orjson.OPT_INDENT_2).decode()
    open_ = [each for each in found if each.state != "done"]
    if not open_:
        return "There are no schedules. Create one with /remind 20m TEXT or /schedule add."
    lines = [_line(schedules, actor, each, runs.get(each.id)) for each in open_[:MAX_LISTED]]
    return "\n".join([*lines, *([f"… and {len(open_) - MAX_LISTED} more"] if len(open_) > MAX_LISTED else [])])


def _line(schedules: Schedules, actor: Actor, stored: StoredJob, last: Run | None) -> str:
    job = stored.job
    notes = [job.kind, *([f"of {job.actor.key}"] if job.actor.key != actor.key else [])]
    notes += ["runs now"] if stored.running else []
    state = f"{stored.state}, {job.when.words}" if stored.state != "active" else _when(schedules, actor, stored)
    text = " ".join(job.text.split())
    short = text if len(text) <= _SHOWN_TEXT else f"{text[: _SHOWN_TEXT - 1]}…"
    lines = [f"- {job.name} ({', '.join(notes)}): {state}: {short}"]
    lines += [f"  {stored.note}"] if stored.note else []
    lines += [f"  last: {_of_run(schedules, actor, last)}"] if last else []
    return "\n".join(lines)


async def _runs(schedules: Schedules, actor: Actor, name: str, *, as_json: bool) -> str:
    runs = await schedules.runs(actor, name)
    if as_json:
        return orjson.dumps([_run_data(run) for run in runs], option=orjson.OPT_INDENT_2).decode()
    return "\n".join(f"- {_of_run(schedules, actor, run)}" for run in runs) or f"{name} has not run yet."


def _of_run(schedules: Schedules, actor: Actor, run: Run) -> str:
    cost = f", {run.cost:.4f} US dollars" if run.cost else ""
    text = " ".join(mask(run.text).split())[:_SHOWN_TEXT]
    return f"{format_moment(run.due, schedules.zone(actor))}: {run.state}{cost}{f': {text}' if text else ''}"


def _data(stored: StoredJob, runs: Mapping[int, Run]) -> dict[str, Any]:
    job, last = stored.job, runs.get(stored.id)
    return {
        "name": job.name,
        "kind": job.kind,
        "text": mask(job.text),
        "when": job.when.words,
        "zone": job.when.zone,
        "next": stored.next,
        "state": stored.state,
        "note": stored.note,
        "user": job.actor.key,
        "session": job.session,
        "to": f"{job.address.channel}:{job.address.chat}",
        "configured": job.configured,
        "failures": stored.failures,
        "last": _run_data(last) if last else None,
    }


def _run_data(run: Run) -> dict[str, Any]:
    return {
        "due": run.due,
        "state": run.state,
        "began_at": run.began_at,
        "ended_at": run.ended_at,
        "text": mask(run.text),
        "cost": run.cost,
    }
