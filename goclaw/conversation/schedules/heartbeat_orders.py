"""`/heartbeat [on|off|now]`, carried out; each answer is a text for people."""

from goclaw.common.core.events import Inbound
from goclaw.conversation.schedules.heartbeat import FILE, name_for
from goclaw.conversation.schedules.jobs import StoredJob
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.times import shown_shortly
from goclaw.errors import StateError

USAGE = "Send /heartbeat on, /heartbeat off, or /heartbeat now for one run at once."


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
            return f"{await _state(schedules, stored)}\n{USAGE}"
        case "on":
            await _turned_on(schedules, inbound, stored)
            return await _state(schedules, await schedules.rows.find(name_for(actor.key)))
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
            return USAGE


async def _turned_on(schedules: Schedules, inbound: Inbound, stored: StoredJob | None) -> None:
    wanted = schedules.heartbeat.job(inbound)
    if stored is None:
        await schedules.add(wanted)
    else:
        await schedules.replace(stored, wanted)


async def _state(schedules: Schedules, stored: StoredJob | None) -> str:
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
        nothing = not await schedules.heartbeat.orders(stored.job)
    except StateError as error:
        return "\n".join([*lines, f"{FILE} cannot be read: {error}."])
    return "\n".join(
        [
            *lines,
            *([f"{FILE} is empty, so the heartbeat does not run: write into it what to check."] if nothing else []),
        ]
    )
