"""The schedules of a person at a glance, for `/status` and `goclaw status`."""

from collections.abc import Mapping, Sequence
from typing import Any

from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask
from goclaw.conversation.schedules.heartbeat import name_for
from goclaw.conversation.schedules.jobs import Run, StoredJob
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.times import shown_shortly

SHOWN = 5
"""Maximum schedules listed by name, besides the heartbeat; the others are only counted."""
_SHOWN_NOTE = 80


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
    found = [(each, await schedules.rows.last_run(each.id)) for each in await _next(schedules, actor, count)]
    lines = [(stored.job.name, _text(schedules, stored, run)) for stored, run in found]
    if count > len(found):
        lines.append(("Others", f"{count - len(found)}; /schedule list shows them"))
    return Overview(lines, [_numbers(stored, run) for stored, run in found], count)


async def _next(schedules: Schedules, actor: Actor, count: int) -> Sequence[StoredJob]:
    found = await schedules.rows.next_of(actor.key, SHOWN) if count else []
    if count > len(found) and not any(each.job.heartbeat for each in found):
        heartbeat = await schedules.rows.find(name_for(actor.key))
        found += [heartbeat] if heartbeat and heartbeat.state == "active" else []
    return found


def _text(schedules: Schedules, stored: StoredJob, run: Run | None) -> str:
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
