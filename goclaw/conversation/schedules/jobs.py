"""Jobs and their runs, as they are stored; and when a job is due: once, at an interval, or by a cron expression.

Cron follows Debian's cron, by `cronsim`, also where the clock is changed: a job at a fixed time runs once on both days
(one in the hour that spring skips at its end), one with a wildcard in its minutes or hours follows the wall clock, so
that it runs in a repeated hour twice.
"""

from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Literal

from cronsim import CronSim, CronSimError

from goclaw.common.core.clock import span
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Address
from goclaw.common.core.hours import hours
from goclaw.common.core.messages import SourceKind
from goclaw.common.core.records import record
from goclaw.common.core.timezones import find_zone, machine_zone
from goclaw.conversation.schedules.times import NoTime, duration, format_moment

MIN_EVERY = 60.0
"""Seconds: the least interval, which is cron's too."""
_FIELDS = 5
CatchUp = Literal["last", "all", "none"]
"""Handling of runs that were missed while the daemon was off: the last one runs, all do, or none."""

SessionChoice = Literal["fresh", "same"]
"""A task's session: a new one for each run, or the session where the job was created."""

JobState = Literal["active", "paused", "stopped", "done"]
"""`paused` by a person; `stopped` by the daemon, which has said why; `done`: it is due no more."""

RunState = Literal["running", "done", "failed", "stopped", "missed"]

DAY_SECONDS = 86_400.0


@record
class Once:
    """Due at one moment."""

    at: float
    """Epoch seconds."""
    zone: str
    """IANA name of the zone that it is shown in."""
    by_duration: bool = False
    """Whether a duration named the moment, as in `/remind 30s`: it comes when that time has passed."""
    has_offset: bool = False
    """Whether the moment was named with its offset from UTC: another zone of the person does not move it."""

    def after(self, moment: float) -> float | None:
        return self.at if self.at > moment else None

    @property
    def words(self) -> str:
        return format_moment(self.at, zone_of(self))


@record
class Interval:
    """Due every so many seconds, counted from an anchor, so that late runs shift nothing."""

    seconds: float
    anchor: float
    """Epoch seconds of a moment at which it would have been due."""
    zone: str = ""
    """IANA name of the zone that its times are shown in; empty: the machine's."""

    def after(self, moment: float) -> float | None:
        due = self.anchor + ((moment - self.anchor) // self.seconds + 1) * self.seconds
        return due if due > moment else due + self.seconds  # where a float has no room for the difference

    @property
    def words(self) -> str:
        return f"every {span(self.seconds)}"


@record
class Beat:
    """Due every so many seconds within hours of the day, counted from the beginning of these."""

    seconds: float
    hours: str
    """See `goclaw.common.core.hours`."""
    zone: str

    def after(self, moment: float) -> float | None:
        within, zone = hours(self.hours), zone_of(self)
        if not within.contain(moment, zone):
            return within.next_start(moment, zone)
        begun = within.last_start(moment, zone)
        due = begun + ((moment - begun) // self.seconds + 1) * self.seconds
        return due if within.contain(due, zone) else within.next_start(moment, zone)

    @property
    def words(self) -> str:
        return f"every {span(self.seconds)} within {self.hours}"


@record
class Cron:
    """Due by a cron expression of five fields, in a zone."""

    expression: str
    zone: str

    def after(self, moment: float) -> float | None:
        for due in CronSim(self.expression, datetime.fromtimestamp(moment, zone_of(self))):
            # Of a repeated hour `cronsim` yields both; a fixed time that is skipped comes at the end of the gap.
            at = due.astimezone(UTC).timestamp()
            if at > moment:
                return at
        return None

    @property
    def words(self) -> str:
        return f"cron `{self.expression}`{f' ({self.zone})' if self.zone else ''}"


AnyRecurrence = Once | Interval | Beat | Cron
"""The stored form, for a job.

`after` returns the first due time later than a moment, both in epoch seconds; None: it was the last one. `words` is the
rule for people.
"""


def interval(text: str, anchor: float, zone: str = "") -> Interval:
    """Return the interval that a duration names, counted from `anchor`.

    Raises:
        NoTime: it is no duration, or less than a minute.
    """
    seconds = duration(text.strip())
    if seconds is None:
        raise NoTime(f"`{text[:60]}` is not an interval: write 30m, 2h or 1d")
    if seconds < MIN_EVERY:
        raise NoTime(f"every {text} is too often: the minimum is 1m")
    return Interval(seconds, anchor, zone)


def cron(expression: str, zone: str, now: float) -> Cron:
    """Return the recurrence of a cron expression.

    Raises:
        NoTime: it is no expression of five fields, or never due.
    """
    expression = " ".join(expression.split())
    if len(expression.split()) != _FIELDS:
        raise NoTime(f"`{expression[:60]}` is not a cron expression: it needs five fields, as in `30 8 * * 1-5`")
    made = Cron(expression, zone)
    try:
        due = made.after(now)
    except CronSimError as error:
        raise NoTime(f"`{expression[:60]}` is not a cron expression: {str(error).lower()}") from None
    if due is None:
        raise NoTime(f"`{expression}` is never due")
    return made


def follow_clock(when: AnyRecurrence, by: float) -> AnyRecurrence:
    """Return the recurrence after the wall clock was set by so many seconds.

    A duration counts the time that passes, so it moves with the clock; times of day stay.
    """
    if isinstance(when, Once) and when.by_duration:
        return replace(when, at=when.at + by)
    return replace(when, anchor=when.anchor + by) if isinstance(when, Interval) else when


def zone_of(when: AnyRecurrence) -> tzinfo:
    """Return the zone that a job's times are in and shown in."""
    return _zone(when.zone)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    """Return a zone that was checked when the job was made; the machine's should it be known no more."""
    try:
        return find_zone(name) if name else machine_zone()
    except ValueError:
        return machine_zone()


@record
class TaskOptions:
    """How a task's turn differs from a turn of its maker."""

    session: SessionChoice | str = "fresh"
    """Or the key of a session that the maker may write in."""
    agent: str = ""
    """The agent that answers; empty: the agent that would answer the maker there."""
    model: str = ""
    """The model; empty: the agent's."""
    tools: tuple[str, ...] | None = None
    """A selection (`goclaw.common.core.selection`) that narrows the maker's tools; None: all of these."""
    budget: float | None = None
    """US dollars for one run; None: the agent's limit."""
    seconds: float | None = None
    """Time for one run; None: the agent's limit."""
    ask: bool = False
    """Whether a call that needs approval asks in the chat, and the turn waits; otherwise such a call is refused."""
    source: SourceKind | None = None
    """Whose words may have asked for it; see `ScheduleRequest.source`."""


@record
class Job:
    """An action with its times, its person and its destination."""

    name: str
    """Unique among those of its person: letters, digits, `-` and `_`."""
    kind: Literal["message", "task"]
    """`message`: the text word for word. `task`: a turn of an agent that gets the text."""
    text: str
    when: AnyRecurrence
    actor: Actor
    """The maker; the run then has the rights of this person."""
    session: str
    """The maker's session, where the job was made."""
    address: Address
    """Where the message or the task's answer goes."""
    task: TaskOptions = TaskOptions()
    catch_up: CatchUp = "last"
    catch_up_within: float = DAY_SECONDS
    """Seconds after its due time within which a missed run is caught up."""
    personal: bool = False
    """Whether its maker set the very time of it: quiet hours do not hold it back."""
    elsewhere: bool = False
    """Whether its maker named another chat than its own, which takes a right at each run."""
    configured: bool = False
    """Whether it comes from `schedules` of the configuration, which alone can change it."""
    origin: str = ""
    """Id of the message or call that made it: redelivered after a crash, it makes no second one."""
    heartbeat: bool = False
    """Whether its text, tools and budget are made when it runs (`schedules.heartbeat`)."""


@record
class StoredJob:
    """A job with its state."""

    id: int
    job: Job
    state: JobState
    next: float | None
    """The next due time in epoch seconds; None unless it is active."""
    running: str
    """The turn of its run that has not ended; empty: no run is open."""
    failures: int
    """Failed runs since the last successful one."""
    note: str
    """Why it was stopped, for people."""
    made_at: float


@record
class Skipped:
    """In place of a job's run: it does not run this time."""

    why: str


@record
class Run:
    """One run of a job."""

    job: int
    due: float
    state: RunState
    turn: str
    """The id of its turn or delivery."""
    began_at: float
    ended_at: float | None
    text: str
    """The beginning of its answer, or what went wrong."""
    cost: float | None
    """US dollars; None: unknown, or nothing was spent."""


JOB: Codec[Job] = Codec(Job)


def turn_of(job: int, due: float) -> str:
    """Return the id of the turn or delivery of a run: it follows from job and due time, so that none is made twice."""
    return f"schedule:{job}:{due:.3f}"
