"""A reminder in a chat: its words, and its buttons, which bring it back later.

A button names the schedule and the moment it was for, so that it works after a restart and at any gateway. The first
press counts: it is a change of the schedule, in one transaction with that of the message.
"""

import re
from dataclasses import replace
from datetime import datetime, timedelta

from goclaw.common.core.events import Acceptance, AcceptKind, Actor, AnswerRefusal, Delivery
from goclaw.conversation.schedules.jobs import Once, StoredJob, turn_of
from goclaw.conversation.schedules.quiet_hours import chat_of_maker
from goclaw.conversation.schedules.requests import Schedules
from goclaw.conversation.schedules.scheduler import find_missing_right
from goclaw.conversation.schedules.times import in_zone
from goclaw.conversation.schedules.wording import DONE, LATER, QUESTION, TOMORROW, describe_job
from goclaw.conversation.schedules.zones import answer_zone
from goclaw.errors import DiskError, StateError

LATER_SECONDS = 600.0
ANSWERS = (DONE, LATER, TOMORROW)
_DECIDED = Acceptance(AcceptKind.ANSWER, text="This reminder was answered already.", refusal=AnswerRefusal.DECIDED)


async def press_button(schedules: Schedules, actor: Actor, question: str, answer: str | int) -> Acceptance | None:
    """Carry out the press of a button of schedules, by its place or its answer; None: it is not this person's.

    Raises:
        DiskError: the disk refuses.
    """
    try:
        found = await answer_reminder(schedules, actor, question, answer)
        return found or await answer_zone(schedules, actor, question, answer)
    except DiskError:
        raise
    except StateError as error:
        return Acceptance(AcceptKind.ANSWER, text=f"Not done: {error}.", refusal=AnswerRefusal.INVALID)


async def answer_reminder(schedules: Schedules, actor: Actor, question: str, answer: str | int) -> Acceptance | None:
    """Carry out the press of a button of a reminder, by its place or its answer; None: it is not this person's.

    Raises:
        StateError: the disk refuses.
    """
    found = re.fullmatch(QUESTION, question)
    if isinstance(answer, int):
        answer = ANSWERS[answer] if answer < len(ANSWERS) else ""
    if found is None or answer not in ANSWERS:
        return None
    await schedules.scheduler.follow_clock()
    stored = await schedules.rows.by_id(int(found["job"]))
    if stored is None or stored.job.actor.key != actor.key or actor.behalf:
        return None
    when = stored.job.when
    if not isinstance(when, Once) or stored.state != "done" or stored.note or round(when.at * 1000) != int(found["at"]):
        return _DECIDED
    if answer != DONE and find_missing_right(schedules.access, stored.job):
        return Acceptance(AcceptKind.ANSWER, text="You may not set reminders any more.", refusal=AnswerRefusal.INVALID)
    job = stored.job if answer == DONE else replace(stored.job, when=_find_later(schedules, actor, when, answer))
    words = "✓ Done" if answer == DONE else f"↻ Again: {job.when.words}"
    change = schedules.rows.answer(stored, job, words)
    if await schedules.scheduler.quiet.outbox.promise(_make_closing(schedules, stored, when.at, words), change):
        schedules.scheduler.on_change()
        return Acceptance(AcceptKind.ANSWER, text=words)
    return _DECIDED


def _find_later(schedules: Schedules, actor: Actor, when: Once, answer: str) -> Once:
    """Return ten minutes from now, or the same time of day tomorrow."""
    now, zone = schedules.clock.now(), schedules.zone(actor)
    name = str(getattr(zone, "key", ""))
    if answer == LATER:
        return Once(now + LATER_SECONDS, name, by_duration=True)
    day = datetime.fromtimestamp(now, zone).date() + timedelta(days=1)
    return Once(in_zone(datetime.combine(day, datetime.fromtimestamp(when.at, zone).time()), zone).timestamp(), name)


def _make_closing(schedules: Schedules, stored: StoredJob, at: float, words: str) -> Delivery:
    """Return the change of a reminder's message that takes its buttons away and shows the answer."""
    asked, (session, address) = turn_of(stored.id, at), chat_of_maker(stored.job, schedules.access)
    text = f"{describe_job(stored.job)}\n\n{words}"
    return Delivery(f"{asked}:closed", address, text, action="edit", of=asked, session=session)
