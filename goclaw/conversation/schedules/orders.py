"""Orders about schedules and the heartbeat, carried out: from a chat, the command line or an agent; and `/status`.

Each answer is a text for people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from goclaw.common.core.events import Actor, Inbound, root_session
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask
from goclaw.conversation.schedules.heartbeat import FILE, name_for
from goclaw.conversation.schedules.jobs import Once, Run, StoredJob
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.times import format_moment, shown_shortly
from goclaw.conversation.schedules.zones import ask_zone, choose_zone
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
HEARTBEAT_USAGE = "Send /heartbeat on, /heartbeat off, or /heartbeat now for one run at once."
SHOWN = 5
"""Maximum schedules listed by name, besides the heartbeat; the others are only counted."""
_SHOWN_NOTE = 80


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
            runs = await schedules.runs(actor, name)
            if order.as_json:
                return orjson.dumps([_run_data(run) for run in runs], option=orjson.OPT_INDENT_2).decode()
            return "\n".join(f"- {_of_run(schedules, actor, run)}" for run in runs) or f"{name} has not run yet."
        case "timezone":
            return await choose_zone(schedules, actor, name)
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
    question = await ask_zone(schedules, inbound.actor)
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


async def run_heartbeat_order(schedules: Schedules, inbound: Inbound, order: str) -> str:
    """Carry out an order about the heartbeat of the person who sends it, and return the answer.

    Raises:
        AccessDenied: the person may have no schedules.
        StateError: it cannot be done, with the reason.
    """
    actor = inbound.actor
    stored = await schedules.rows.find(name_for(actor.key))
    match order:
        case "":
            return f"{await _heartbeat_state(schedules, stored)}\n{HEARTBEAT_USAGE}"
        case "on":
            wanted = schedules.heartbeat.job(inbound)
            await (schedules.replace(stored, wanted) if stored else schedules.add(wanted))
            return await _heartbeat_state(schedules, await schedules.rows.find(name_for(actor.key)))
        case "off":
            if stored and stored.state == "active":
                await schedules.pause(actor, stored.job.name)
            return "The heartbeat is off."
        case "now":
            if stored is None:
                stored = await schedules.add(schedules.heartbeat.job(inbound))
                await schedules.pause(actor, stored.job.name)
            await schedules.run(actor, stored.job.name)
            return "The heartbeat is running; you get a message if there is something to report."
        case _:
            return HEARTBEAT_USAGE


async def _heartbeat_state(schedules: Schedules, stored: StoredJob | None) -> str:
    if stored is None or stored.next is None:
        return f"The heartbeat is off{f': {stored.note}' if stored and stored.note else ''}."
    now, zone = schedules.clock.now(), schedules.zone(stored.job.actor)
    runs = await schedules.rows.runs(stored.id, 1)
    most = schedules.heartbeat.settings.budget_per_day
    lines = [
        f"The heartbeat is on: {stored.job.when.words}, next {shown_shortly(stored.next, zone, now)}.",
        *(f"Last: {shown_shortly(run.began_at, zone, now)}, {run.state}." for run in runs),
    ]
    if most is not None:
        lines.append(f"Today's cost: ${await schedules.heartbeat.spent_today(stored):,.4f} of ${most:,.2f}.")
    try:
        if not await schedules.heartbeat.orders(stored.job):
            lines.append(f"{FILE} is empty, so the heartbeat does not run: write into it what to check.")
    except StateError as error:
        lines.append(f"{FILE} cannot be read: {error}.")
    return "\n".join(lines)


@record
class Overview:
    """The schedules' part of a status."""

    lines: Sequence[tuple[str, str]] = ()
    """For people: name and text."""
    numbers: Sequence[Mapping[str, Any]] = ()
    """For machines: the same schedules."""
    count: int = 0
    """All of the person's that are not done."""


async def overview(schedules: Schedules, actor: Actor) -> Overview:
    """Return the next schedules of a person, those that are due before those that are not, and a heartbeat that is on.

    Raises:
        StateError: the disk refuses.
    """
    count = await schedules.rows.count_open(actor.key)
    found = [(each, await schedules.rows.last_run(each.id)) for each in await _next_jobs(schedules, actor, count)]
    lines = [(stored.job.name, _summary_line(schedules, stored, run)) for stored, run in found]
    if count > len(found):
        lines.append(("Others", f"{count - len(found)}; /schedule list shows them"))
    return Overview(lines, [_numbers(stored, run) for stored, run in found], count)


async def _next_jobs(schedules: Schedules, actor: Actor, count: int) -> Sequence[StoredJob]:
    found = await schedules.rows.next_of(actor.key, SHOWN) if count else []
    if count > len(found) and not any(each.job.heartbeat for each in found):
        heartbeat = await schedules.rows.find(name_for(actor.key))
        found += [heartbeat] if heartbeat and heartbeat.state == "active" else []
    return found


def _summary_line(schedules: Schedules, stored: StoredJob, run: Run | None) -> str:
    now, zone = schedules.clock.now(), schedules.zone(stored.job.actor)
    parts = ["runs now"] if stored.running else []
    if stored.next is None:
        parts.append(f"{stored.state}{f': {stored.note[:_SHOWN_NOTE]}' if stored.note else ''}")
    else:
        parts.append(f"next {shown_shortly(stored.next, zone, now)}")
    if run:
        cost = f", ${run.cost:,.4f}" if run.cost else ""
        parts.append(f"last {shown_shortly(run.began_at, zone, now)} {run.state}{cost}")
    if stored.failures > 1:
        parts.append(f"{stored.failures} failures in a row")
    return "; ".join(parts)


def _numbers(stored: StoredJob, run: Run | None) -> Mapping[str, Any]:
    last = run and {"began_at": run.began_at, "state": run.state, "cost": run.cost, "text": mask(run.text)}
    return {
        "name": stored.job.name,
        "kind": stored.job.kind,
        "state": stored.state,
        "next": stored.next,
        "failures": stored.failures,
        "last": last,
    }
