"""A person's time zone: the question for it, and its effect on the schedules that they have.

The first answer moves what was made before it, as that was meant in the person's own zone. A moment that has passed
there is asked about. After a later change schedules stay where they are, and each is asked about once.

The owner of the state folder needs no entry in users.json: their zone is a stored fact.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from goclaw.common.auth.users import set_timezone
from goclaw.common.core.events import LOCAL, Acceptance, AcceptKind, Actor, Choice, Delivery
from goclaw.common.core.timezones import find_zone, machine_zone
from goclaw.conversation.schedules.jobs import AnyRecurrence, Interval, Once, StoredJob, turn_of, zone_of
from goclaw.conversation.schedules.quiet_hours import chat_of_maker, home_of
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.times import format_moment, in_zone, name_of
from goclaw.conversation.schedules.wording import describe_job, make_choices
from goclaw.durable.store.file_writer import file_writer
from goclaw.errors import ConfigError, StateError

HINT, ZONES = "schedules.zone_hint", "schedules.zone"
"""The stored facts about who was asked for a zone, and about the zones of who is not in users.json."""
OTHER = "Another one"
QUESTION, MOVE = "Zone", "M"
"""The id of the question for the zone, and the beginning of those whether a schedule moves."""
STAY, GO = "stay", "go"
MOST_USED = 3
MAX_SHOWN = 10
"""Schedules that are listed or asked about after a change."""
REMEDY = "send /schedule timezone Asia/Tokyo, with the name of yours"


async def restore_zones(schedules: Schedules) -> None:
    """Know the zones of people who are not in users.json."""
    schedules.users.zones.update(await schedules.facts.facts(ZONES))


async def ask_zone(schedules: Schedules, actor: Actor) -> str:
    """Ask a person without a zone for it, once: by buttons in their chat, without one by the text that is returned."""
    if _find_chosen(schedules, actor) or await schedules.facts.fact(f"{HINT}:{actor.key}"):
        return ""
    here = name_of(machine_zone(), datetime.fromtimestamp(schedules.clock.now(), machine_zone()))
    text = f"I assume your time zone is {here}, like this machine's."
    session, address = home_of(actor, schedules.access)
    outbox = schedules.scheduler.quiet.outbox
    if address.channel not in outbox.channels:
        await schedules.facts.learn(f"{HINT}:{actor.key}", value=True)
        return f"{text} If not, {REMEDY}."
    used = Counter(user.timezone for user in schedules.users.all() if user.timezone not in ("", here))
    zones = [here, *(zone for zone, _ in used.most_common(MOST_USED))]
    choices = tuple(Choice(zone, QUESTION, zone) for zone in (*zones, OTHER))
    text = f"{text} Which is yours?"
    asked = Delivery(f"zone:{actor.key}", address, text, session=session, choices=choices, asks=True)
    await outbox.promise(asked, schedules.facts.learning(f"{HINT}:{actor.key}", zones))
    return ""


async def answer_zone(schedules: Schedules, actor: Actor, question: str, answer: str | int) -> Acceptance | None:
    """Carry out the press of a button of this module, by its place or its answer; None: it is not this person's.

    Raises:
        StateError: it cannot be done, or the disk refuses.
    """
    if actor.behalf:
        return None
    if (number := question.removeprefix(MOVE)) != question and number.isdecimal() and answer in (STAY, GO, 0, 1):
        return await _answer_move(schedules, actor, int(number), go=answer in (GO, 1))
    zones = await schedules.facts.fact(f"{HINT}:{actor.key}") if question == QUESTION else None
    if not isinstance(zones, list):
        return None
    zone = str(zones[answer] if isinstance(answer, int) and answer < len(zones) else answer)
    if zone not in zones:
        return Acceptance(AcceptKind.ANSWER, text=f"{REMEDY[:1].upper()}{REMEDY[1:]}.")
    said = await choose_zone(schedules, actor, zone)
    await _close(schedules, actor, f"zone:{actor.key}", said)
    return Acceptance(AcceptKind.ANSWER, text=f"Your time zone is {zone}.")


async def choose_zone(schedules: Schedules, actor: Actor, name: str) -> str:
    """Set a person's zone; return it and what follows for their schedules, for people.

    Raises:
        StateError: there is no such zone, the person is not in users.json, or the file cannot be written.
    """
    try:
        zone = find_zone(name)
    except ValueError as error:
        raise StateError(str(error)) from None
    if schedules.users.get(actor.key) is None and not schedules.access.is_owner(actor):
        raise StateError("an admin has to add you to the users first")
    before = _find_chosen(schedules, actor)
    own = [each for each in await schedules.rows.all(actor.key) if _may_move(each)]
    # Before the zone is written: cut off in between, the next answer is the first one still, and moves the rest.
    lines = [] if before else await _move_all(schedules, own, name)
    await _write_zone(schedules, actor, name)
    if before and before != name:
        lines = await _ask_moves(schedules, actor, own, before, name)
    said = f"Your time zone is {name}: it is {format_moment(schedules.clock.now(), zone)} there."
    return "\n".join([said, *lines])


async def _close(schedules: Schedules, actor: Actor, asked: str, said: str) -> None:
    """Have a question's message show the answer, without buttons."""
    session, address = home_of(actor, schedules.access)
    closed = Delivery(f"{asked}:closed", address, said, action="edit", of=asked, session=session)
    await schedules.scheduler.quiet.outbox.promise(closed)


def _find_chosen(schedules: Schedules, actor: Actor) -> str:
    user = schedules.users.get(actor.key)
    return user.timezone if user else schedules.users.zones.get(actor.key, "")


async def _write_zone(schedules: Schedules, actor: Actor, name: str) -> None:
    if schedules.access.is_owner(actor):
        await schedules.facts.learn(f"{ZONES}:{actor.key}", name)
        schedules.users.zones[actor.key] = name
        return
    writer = file_writer(schedules.config)
    try:
        await asyncio.to_thread(set_timezone, schedules.config.users_path, actor.key, name, writer)
    except ConfigError as error:
        raise StateError(str(error)) from None
    await schedules.users.refresh()


def _may_move(stored: StoredJob) -> bool:
    """Whether its times may move: it is still to come, and its person made it."""
    return stored.state != "done" and not stored.job.configured


def move_times(when: AnyRecurrence, name: str) -> AnyRecurrence:
    """Return the same times of day in another zone. What is a distance from now, or has its offset, stays in time."""
    if isinstance(when, Once) and not (when.by_duration or when.has_offset):
        wall = datetime.fromtimestamp(when.at, zone_of(when)).replace(tzinfo=None)
        when = replace(when, at=in_zone(wall, find_zone(name)).timestamp())
    return replace(when, zone=name)


async def _move_all(schedules: Schedules, own: Sequence[StoredJob], name: str) -> list[str]:
    """Move the schedules in the machine's zone, which was for want of another; return a line for each."""
    lines, here = list[str](), str(getattr(machine_zone(), "key", ""))
    for stored in own:
        if stored.job.when.zone in ("", here) and move_times(stored.job.when, name) != stored.job.when:
            lines.append(await _move(schedules, stored, name))
    more = [f"… and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
    return ["Moved with it:", *lines[:MAX_SHOWN], *more] if lines else []


async def _move(schedules: Schedules, stored: StoredJob, name: str) -> str:
    """Move a schedule to another zone and return a line about it. Whether a moment that has passed comes is asked."""
    now, job, zone = schedules.clock.now(), replace(stored.job, when=move_times(stored.job.when, name)), find_zone(name)
    if (due := job.when.after(now)) is not None:
        moved = replace(stored, job=job, next=due if stored.state == "active" else None)
        await schedules.rows.write(schedules.rows.rezone(stored, moved))
        schedules.scheduler.on_change()
        return f"- {job.name}: {format_moment(due, zone)}"
    at = job.when.after(0.0) or now
    moved, passed = replace(stored, job=job, next=None, state="done"), format_moment(at, zone)
    change = schedules.rows.rezone(stored, moved)
    session, address = chat_of_maker(job, schedules.access)
    if address.channel == LOCAL:
        await schedules.rows.write(change)
        return f"- {job.name}: {passed} has passed, so it will not come. Set it again if you still need it."
    text = f"{describe_job(job)}\n\nIt was set for {passed}, which has passed. When shall it come?"
    choices = make_choices(moved)
    asked = Delivery(turn_of(stored.id, at), address, text, session=session, choices=choices, asks=True)
    await schedules.scheduler.quiet.outbox.promise(asked, change)
    return f"- {job.name}: {passed} has passed, so I ask you about it"


async def _ask_moves(schedules: Schedules, actor: Actor, own: Sequence[StoredJob], before: str, name: str) -> list[str]:
    """Ask about each schedule with times of day in the zone before; return the sentence about that."""
    old = [each for each in own if each.job.when.zone == before and not _is_distance(each.job.when)]
    session, address = home_of(actor, schedules.access)
    outbox = schedules.scheduler.quiet.outbox
    if old and address.channel not in outbox.channels:
        names = ", ".join(each.job.name for each in old[:MAX_SHOWN])
        return [f"These stay at the time of {before}: {names}. To move one, remove it and set it again."]
    for stored in old[:MAX_SHOWN]:
        text = f"{stored.job.name} comes at the time of {before}. Shall it move to {name}?"
        question = f"{MOVE}{stored.id}"
        choices = (Choice(f"Stay at {before}", question, STAY), Choice("Move it", question, GO))
        card = Delivery(f"move:{stored.id}:{name}", address, text, session=session, choices=choices, asks=True)
        await outbox.promise(card)
    return [f"Your schedules stay at the time of {before}. I ask you whether to move them."] if old else []


def _is_distance(when: AnyRecurrence) -> bool:
    return isinstance(when, Interval) or (isinstance(when, Once) and (when.by_duration or when.has_offset))


async def _answer_move(schedules: Schedules, actor: Actor, job: int, *, go: bool) -> Acceptance | None:
    stored, name = await schedules.rows.by_id(job), _find_chosen(schedules, actor)
    if stored is None or stored.job.actor.key != actor.key or not name or not _may_move(stored):
        return None
    if go and stored.job.when.zone != name:
        said = f"Moved: {(await _move(schedules, stored, name)).removeprefix('- ')}"
    else:
        said = f"{stored.job.name} comes at the time of {stored.job.when.zone}."
    await _close(schedules, actor, f"move:{job}:{name}", said)
    return Acceptance(AcceptKind.ANSWER, text=said)
