"""The loop that starts runs when they are due.

It sleeps until the earliest due time, and is woken by changes of jobs, by the end of a run, and by a wall clock that
moved otherwise than time passed (a sleeping machine, a clock that was set; `start_due`). It does nothing while no job
waits.

A run is committed in one transaction with the thing it starts and with the job's next due time; all of it has ids that
follow from the job and the due time. So a crash at any point leaves a run that is wholly there or not at all.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace

from goclaw.common.auth.access import Access
from goclaw.common.config.webhooks import NOTIFY
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor, Inbound, Outcome, Unattended, session_of_agent
from goclaw.common.core.records import record
from goclaw.conversation.schedules.jobs import Job, Once, RunState, Skipped, StoredJob, turn_of, zone_of
from goclaw.conversation.schedules.messages_to_others import MessagesToOthers, Standing
from goclaw.conversation.schedules.quiet_hours import Submit, chat_of_maker, send_to_chat
from goclaw.conversation.schedules.rows import ScheduleRows
from goclaw.conversation.schedules.times import shown_shortly
from goclaw.conversation.schedules.wording import describe_job, is_reminder, make_choices
from goclaw.durable.store.database import BoundStatement
from goclaw.errors import AccessDenied, StateError

log = logging.getLogger(__name__)

LATE_SECONDS = 60.0
"""A run that begins later than this was missed, and `catch_up` decides about it."""
AT_ONCE = 100
"""Due jobs taken from the database at a time."""
FIRST_PAUSE, MAX_PAUSE = 60.0, 24 * 3600.0
"""Seconds that failures in a row delay a job, doubled each time up to a day."""
MAX_CAUGHT_UP = 100
"""Missed runs of one job that are caught up at most: an interval of a minute has a thousand a day."""
MAX_TEXT = 500
"""Characters of a run's text that are kept."""
TOOL = "schedule"
"""The tool that a person must have, to make jobs and for their runs."""
REMIND = "remind"
"""The command that is enough for a reminder to oneself."""
_NOT_ALLOWED: Mapping[str, str] = {
    "tool.use": "make schedules",
    "session.write": "write in that conversation",
    "agent.use": "use that agent",
    "message.other": "write to other chats",
    "command.admin": "have it sent to another program",
}
"""Actions of jobs in words for people, where the right is missing."""
SET_SECONDS = 1.0
"""A wall clock that differs by less from the time that passed was kept right, not set."""
RETRY_SECONDS = 10.0
"""Pause before the disk is tried again."""


@record
class _Occurrence:
    """One due time of a job, as it is found when the loop looks."""

    due: float
    next: float | None
    missed: int = 0
    """Due times before it that are passed over."""
    late: bool = False
    skip: bool = False
    """It is passed over, too."""


Prepare = Callable[[StoredJob], Awaitable[Job | Skipped]]
"""Returns the job as it runs now, or why it does not."""


class Scheduler:
    """Starts due jobs. `run` is its life; all else may be called meanwhile."""

    def __init__(
        self,
        rows: ScheduleRows,
        access: Access,
        submit: Submit,
        others: MessagesToOthers,
        clock: Clock,
        prepare: Prepare,
    ) -> None:
        self._rows = rows
        self._access = access
        self._submit = submit
        self.others = others
        self.quiet = others.quiet
        self.quiet.changed = self.on_change
        self._clock = clock
        self._prepare = prepare
        self._changed = asyncio.Event()
        self._next: float | None = None
        """The earliest due time; None: no job waits."""
        self._asleep = False
        self._wakes = math.inf
        """When its sleep ends, by `Clock.monotonic`."""
        self._offset: float | None = None
        """Of the wall clock to the time that passes, as the stored moments count it; None: `run` does not run."""
        self._following = asyncio.Lock()

    @property
    def is_asleep(self) -> bool:
        """Whether it has looked at all jobs since the last change, and waits."""
        return self._asleep and not self._changed.is_set() and self._clock.monotonic() < self._wakes

    def on_change(self) -> None:
        """A job was made or changed, or a run has ended: look again."""
        self._changed.set()

    def start_due(self) -> None:
        """Wake the loop if a job is due that its sleep does not see: the machine slept, or the clock was set."""
        if self._next is not None and (self._clock.now() >= self._next or self._set_by()):
            self._changed.set()

    def _set_by(self) -> float:
        """Return by how many seconds the wall clock was set, as far as the stored moments do not follow it yet."""
        by = 0.0 if self._offset is None else self._clock.now() - self._clock.awake_or_not() - self._offset
        return by if abs(by) >= SET_SECONDS else 0.0

    async def follow_clock(self) -> None:
        """Keep times given as durations at their distance from now when the wall clock is set.

        Only where `run` runs: of several gateways, one moves them. Raises StateError where the disk refuses.
        """
        async with self._following:
            if self._offset is not None and (by := self._set_by()):
                await self._rows.follow_clock(by)
                self._offset += by

    async def run(self) -> None:
        """Start due jobs, until cancelled."""
        self._offset = self._clock.now() - self._clock.awake_or_not()
        try:
            await self._free_cut_runs()
            await self._run()
        finally:
            self._offset = None

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self.follow_clock()
                held_until = await self.quiet.release()
                while due := await self._rows.due(self._clock.now(), AT_ONCE):
                    for stored in due:
                        await self._start_one(stored, self._clock.now())
                self._next = min(filter(None, (await self._rows.earliest(), held_until)), default=None)
            except StateError as error:
                log.warning("schedules are waiting for the disk: %s", error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            await self._wait()
            self._asleep = False

    async def clock_was_set(self) -> None:
        """Compute again when jobs are due, after the wall clock was set: runs of the past are not repeated."""
        await self.follow_clock()
        now, moments = self._clock.now(), dict[int, float | None]()
        for stored in await self._rows.all():
            if isinstance(stored.job.when, Once):
                continue  # it has one moment
            if stored.state == "active" and stored.next is not None and stored.next > now:
                moments[stored.id] = await self._find_due(stored, stored.job.when.after(now)) or stored.next
        await self._rows.set_next(moments)
        await self.quiet.clock_was_set()
        self.on_change()

    async def start(self, stored: StoredJob, by: Actor) -> str:
        """Start a run now, in addition to its times, for `goclaw schedule run`; return the id of its turn or delivery.

        Raises:
            StateError: a run of it is under way, it does not run now, or the disk refuses.
        """
        if stored.running:
            raise StateError(f"{stored.job.name} is already running")
        log.info("schedule %s: started by %s", stored.job.name, by.key or "the owner")
        now = self._clock.now()
        if why := (await self._stands(stored.job))[1]:
            raise StateError(why)
        prepared = await self._prepare(stored)
        if isinstance(prepared, Skipped):
            raise StateError(prepared.why)
        # A person asked for it now: quiet hours do not hold it back.
        return await self._start(replace(stored, job=replace(prepared, personal=True)), _Occurrence(now, stored.next))

    async def on_turn_end(self, inbound: Inbound, outcome: Outcome, text: str, cost: float | None) -> str | None:
        """Record how a run's turn ended; return a notice to its maker about the job.

        None: no notice, since an earlier failure in a row gave one.

        Called again after a crash for the same turn, it changes nothing.
        """
        unattended = inbound.unattended
        stored = await self._rows.by_id(unattended.job) if unattended else None
        if stored is None or stored.running != inbound.id:
            return ""
        state: RunState = "done" if outcome.went_well else "stopped" if outcome is Outcome.STOPPED else "failed"
        failures = stored.failures + 1 if state == "failed" else 0
        next_due, now = stored.next, self._clock.now()
        if state == "failed" and next_due is not None:
            pause = min(FIRST_PAUSE * 2 ** min(failures - 1, 20), MAX_PAUSE)
            next_due = max(next_due, stored.job.when.after(now + pause - 1) or now + pause)
        ended = replace(stored, failures=failures, next=next_due)
        await self._rows.end_run(ended, state, at=now, text=text[:MAX_TEXT], cost=cost)
        self.on_change()
        if failures > 1:
            return None
        return _about_failure(stored.job, next_due, now) if failures else ""

    async def _free_cut_runs(self) -> None:
        """Free the jobs with a run that ended without a word: its turn is not open any more."""
        for stored, is_open in await self._rows.running():
            if not is_open:
                log.warning("the run of schedule %s ended with an earlier daemon", stored.job.name)
                text = "its end was not recorded"
                await self._rows.end_run(stored, "failed", at=self._clock.now(), text=text)

    async def _wait(self) -> None:
        """Sleep until the earliest due time, or until something changes."""
        if self._next is None:
            self._asleep, self._wakes = True, math.inf
            await self._changed.wait()
            return
        sleeping = asyncio.create_task(self._sleep_until(self._next), name="until the next schedule")
        waking = asyncio.create_task(self._changed.wait(), name="changes of schedules")
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

    async def _sleep_until(self, moment: float) -> None:
        seconds = max(0.0, moment - self._clock.now())
        self._asleep, self._wakes = True, self._clock.monotonic() + seconds
        await self._clock.sleep(seconds)

    async def _start_one(self, stored: StoredJob, now: float) -> None:
        occurrence = await self._occurrence(stored, now)
        if occurrence is None:
            return
        standing, why = await self._stands(stored.job)
        if refusal := self._refusal(stored.job) or (why if standing in ("stopped", "nobody") else ""):
            await self._stop(stored, refusal)
        elif standing == "waits" and not isinstance(stored.job.when, Once):
            log.info("schedule %s does not run: %s", stored.job.name, why)
            await self._rows.write(self._rows.move(stored, occurrence.next))
        elif occurrence.skip:
            log.info("schedule %s: %d due time(s) were missed", stored.job.name, occurrence.missed + 1)
            missed = self._rows.run(stored, occurrence.due, "", "missed", now, _describe_gap(occurrence))
            await self._rows.write(missed, self._rows.move(stored, occurrence.next))
        elif isinstance(prepared := await self._prepare(stored), Skipped):
            log.info("schedule %s does not run: %s", stored.job.name, prepared.why)
            await self._rows.write(self._rows.move(stored, occurrence.next))
        else:
            if prepared.when != stored.job.when:
                occurrence = replace(occurrence, next=prepared.when.after(occurrence.due))
            await self._start(replace(stored, job=prepared), occurrence)

    async def _occurrence(self, stored: StoredJob, now: float) -> _Occurrence | None:
        """Return the due time that counts now, after `catch_up`."""
        due, job = stored.next, stored.job
        if due is None:
            return None
        times = [due]
        while (following := job.when.after(times[-1])) is not None and following <= now:
            times.append(following)
            if len(times) > MAX_CAUGHT_UP:
                times = times[1:] if job.catch_up == "all" else times[-1:]
        # Of those that the clock has come to again, none runs again.
        fresh = [each for each in times if not await self._rows.has_run(stored.id, each)]
        if not fresh:
            await self._rows.write(self._rows.move(stored, await self._find_due(stored, job.when.after(times[-1]))))
            return None
        first_kept = fresh[0] if job.catch_up == "all" else fresh[-1]
        late = now - first_kept > LATE_SECONDS
        skip = late and (job.catch_up == "none" or now - first_kept > job.catch_up_within)
        following = await self._find_due(stored, job.when.after(first_kept))
        return _Occurrence(first_kept, following, times.index(first_kept), late=late, skip=skip)

    async def _find_due(self, stored: StoredJob, due: float | None) -> float | None:
        """Return the first due time from `due` on that has no run: the clock may have been set back."""
        while due is not None and await self._rows.has_run(stored.id, due):
            due = stored.job.when.after(due)
        return due

    def _refusal(self, job: Job) -> str:
        """Return why the maker may not have this run any more; empty: the maker may."""
        lacking = "" if job.configured else find_missing_right(self._access, job)
        return f"you may no longer {lacking}" if lacking else ""

    async def _stands(self, job: Job) -> tuple[Standing, str]:
        """Return how the maker stands with the person to whom this goes, and why nothing goes there now."""
        return await self.others.refusal(job.actor, job.address) if self._is_for_another(job) else ("open", "")

    def _is_for_another(self, job: Job) -> bool:
        """Whether this goes to another person; what the operator has configured is no person's."""
        return job.elsewhere and not job.configured and self.others.concerns(job.actor, job.address)

    async def _stop(self, stored: StoredJob, why: str) -> None:
        """Stop a job for good, and say so where its results went, or to its maker if that is another chat."""
        log.warning("schedule %s has stopped: %s", stored.job.name, why)
        job, now = stored.job, self._clock.now()
        session, address = chat_of_maker(job, self._access)
        words = f"The schedule {job.name} has stopped: {why}."
        unattended = Unattended(stored.id, job.name, now)
        told = Inbound(
            f"schedule:{stored.id}:{now:.3f}:stopped", job.actor, session, words, address, now, unattended=unattended
        )
        way = self.quiet.way(job.actor.key, address)
        await send_to_chat(told, self._submit, way, [self._rows.stop(stored, why)])

    async def _start(self, stored: StoredJob, occurrence: _Occurrence) -> str:
        """Commit a run with the thing it starts, and start that."""
        job, now = stored.job, self._clock.now()
        identity = turn_of(stored.id, occurrence.due)
        inbound = self._inbound(stored, occurrence, identity, now)
        log.info("schedule %s starts", job.name, extra={"turn": identity, "late": round(now - occurrence.due)})
        if job.kind == "task":
            run = self._rows.run(stored, occurrence.due, identity, "running", now, _describe_gap(occurrence))
            await self._submit(inbound, also=(run, self._move(stored, occurrence, identity)))
            return identity
        run = self._rows.run(stored, occurrence.due, identity, "done", now, _describe_gap(occurrence))
        moved = [run, self._move(stored, occurrence)]
        if self._is_for_another(job):
            try:
                await self.others.send(inbound, moved)
            except AccessDenied as error:
                await self._stop(stored, str(error))
        else:
            way = self.quiet.way(job.actor.key, job.address, asked=job.personal)
            choices = make_choices(stored) if is_reminder(job) and occurrence.next is None else ()
            await send_to_chat(inbound, self._submit, way, moved, choices)
        return identity

    def _move(self, stored: StoredJob, occurrence: _Occurrence, running: str = "") -> BoundStatement:
        # A run that was ordered by hand leaves the state as it is.
        state = stored.state if occurrence.next == stored.next else None
        return self._rows.move(stored, occurrence.next, state=state, running=running)

    def _inbound(self, stored: StoredJob, occurrence: _Occurrence, identity: str, now: float) -> Inbound:
        job = stored.job
        text = describe_job(job)
        if occurrence.late:
            was_due = shown_shortly(occurrence.due, zone_of(job.when), now)
            text = f"{text}\n\n(due {was_due}; GoClaw was not running then)"
        task, session, signed = job.task, job.session, self._is_for_another(job)
        if job.kind == "task" and task.session != "same":
            # One of its own, unless the job names another.
            is_fresh = task.session == "fresh"
            session = session_of_agent(session, f"{job.name}-{int(occurrence.due)}") if is_fresh else task.session
        unattended = Unattended(
            stored.id,
            job.name,
            occurrence.due,
            ask=task.ask and not signed,
            agent=task.agent,
            model=task.model,
            tools=task.tools,
            budget=task.budget,
            seconds=task.seconds,
            signed=signed,
            asked=job.personal and not signed,
            source=task.source,
        )
        return Inbound(
            identity,
            replace(job.actor, entry="schedule"),
            session,
            text,
            job.address,
            now,
            unattended=unattended,
        )


def find_missing_right(access: Access, job: Job) -> str:
    """Return what the maker of a job may not do, in words for people; empty: nothing. The log has the rule."""
    for action, object_ in _rights_needed(access, job):
        decision = access.authorize(job.actor, action, object_)
        if not decision.allowed:
            log.warning("schedule %s of %s is refused: %s", job.name or "without a name", job.actor.key, decision.rule)
            return _NOT_ALLOWED[action]
    return ""


def _rights_needed(access: Access, job: Job) -> Iterator[tuple[str, str]]:
    """Yield the permissions that the maker of a job needs: actions, with their objects."""
    is_own_reminder = job.personal and not job.elsewhere and job.address.channel != NOTIFY
    if not (is_own_reminder and access.authorize(job.actor, "command.run", REMIND).allowed):
        yield "tool.use", TOOL
    yield "session.write", job.session
    if job.kind == "task" and job.task.session not in ("fresh", "same"):
        yield "session.write", job.task.session
    if job.kind == "task" and job.task.agent:
        yield "agent.use", job.task.agent
    if job.elsewhere:
        yield "message.other", f"{job.address.channel}:{job.address.chat}"
    if job.address.channel == NOTIFY:
        yield "command.admin", TOOL


def _describe_gap(occurrence: _Occurrence) -> str:
    count = occurrence.missed + occurrence.skip
    return f"{count} due time(s) were missed" if count else ""


def _about_failure(job: Job, next_due: float | None, now: float) -> str:
    if next_due is None:
        return f"The scheduled task {job.name} failed."
    following = shown_shortly(next_due, zone_of(job.when), now)
    return f"The scheduled task {job.name} failed. Next try: {following}. I will not report further failures in a row."
