"""The schedules of the configuration, as rows: they are compared at each start.

A schedule that stays keeps its state (paused, its failures, its runs); its next time is recomputed only if its times
have changed. One that is gone from the configuration is removed.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, tzinfo

from goclaw.common.auth.users import login_name
from goclaw.common.config.schedules import ScheduleSettings
from goclaw.common.core.events import Actor
from goclaw.common.core.timezones import find_zone
from goclaw.conversation.schedules.jobs import AnyRecurrence, Cron, Interval, Job, Once, StoredJob, TaskOptions
from goclaw.conversation.schedules.requests import Schedules, parse_chat
from goclaw.conversation.schedules.times import in_zone
from goclaw.errors import StateError

log = logging.getLogger(__name__)


async def follow_configuration(schedules: Schedules, wanted: Mapping[str, ScheduleSettings]) -> None:
    """Make the stored schedules those of the configuration, as far as they come from there."""
    known = {stored.job.name: stored for stored in await schedules.rows.list_from_config()}
    for name in known.keys() - wanted.keys():
        await schedules.rows.remove(known[name])
        log.info("removed schedule %s, which is no longer in the configuration", name)
    for name, settings in wanted.items():
        try:
            await _follow(schedules, name, settings, known.get(name))
        except StateError as error:
            log.error("schedules.%s in the configuration does not run: %s", name, error)
    schedules.scheduler.on_change()


async def _follow(schedules: Schedules, name: str, settings: ScheduleSettings, stored: StoredJob | None) -> None:
    now = schedules.clock.now()
    job = _job(schedules, name, settings, now)
    if stored is None:
        if (next_due := job.when.after(now)) is None:
            raise StateError(f"its time has passed ({job.when.words})")
        await schedules.rows.add(job, next_due, now)
        return
    if isinstance(job.when, Interval) and isinstance(stored.job.when, Interval):
        same_anchor = replace(job.when, anchor=stored.job.when.anchor)
        job = replace(job, when=same_anchor if same_anchor == stored.job.when else job.when)
    if job == stored.job:
        return
    next_due, state = stored.next, stored.state
    if job.when != stored.job.when and state != "paused":
        next_due = job.when.after(now)
        state = "done" if next_due is None else "active"
    await schedules.rows.change(stored, job, next_due, state)


def _job(schedules: Schedules, name: str, settings: ScheduleSettings, now: float) -> Job:
    actor = Actor(settings.user or f"tui:{login_name()}", "config", owner=not settings.user)
    if settings.user and schedules.users.get(settings.user) is None:
        log.warning("schedules.%s.user: %s is not in users.json and may do nothing", name, settings.user)
    session, address = schedules.home(actor)
    return Job(
        name,
        "task" if settings.task else "message",
        (settings.task or settings.message or "").strip(),
        _when(settings, now, find_zone(settings.timezone) if settings.timezone else schedules.zone(actor)),
        actor,
        session,
        parse_chat(settings.to) if settings.to else address,
        _task(settings) if settings.task else TaskOptions(),
        settings.catch_up,
        settings.catch_up_within,
        configured=True,
    )


def _task(settings: ScheduleSettings) -> TaskOptions:
    return TaskOptions(
        settings.session,
        settings.agent,
        settings.model or "",
        settings.tools,
        settings.budget,
        settings.time_limit,
        settings.ask,
    )


def _when(settings: ScheduleSettings, now: float, zone: tzinfo) -> AnyRecurrence:
    key = str(getattr(zone, "key", ""))
    if settings.at is not None:
        at = datetime.fromisoformat(settings.at)
        return Once((at if at.tzinfo else in_zone(at, zone)).timestamp(), key)
    return Interval(settings.every, now, key) if settings.every is not None else Cron(settings.cron or "", key)
