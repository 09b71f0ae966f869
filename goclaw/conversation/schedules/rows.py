"""The statements about `schedules` and `schedule_runs`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, delete, exists, func, or_, select, update

from goclaw.conversation.schedules.jobs import JOB, Job, JobState, Run, RunState, StoredJob, follow_clock, turn_of
from goclaw.durable.store.database import BoundStatement, Database, Row, Statement, insert_into
from goclaw.durable.store.dialect import json_flag
from goclaw.durable.store.schema import inbox, schedule_runs, schedules
from goclaw.errors import StateError

KEEP_RUNS = 20
"""Runs of a job that are listed; older ones are forgotten after a month."""
KEEP_SECONDS = 31 * 24 * 3600.0

_ADD = insert_into(schedules, "name", "person", "body", "state", "next", "made_at", ignore_conflict=True)
_NAMED = Statement(select(schedules).where(schedules.c.name == bindparam("of_name")).order_by(schedules.c.id))
_ONE = Statement(select(schedules).where(schedules.c.id == bindparam("of")))
_ALL = Statement(select(schedules).order_by(schedules.c.next.is_(None), schedules.c.next, schedules.c.id))
_OF_PERSON = Statement(
    select(schedules)
    .where(schedules.c.person == bindparam("of_person"))
    .order_by(schedules.c.next.is_(None), schedules.c.next, schedules.c.id)
)
# Found by the index of `next`, however many jobs wait; those whose run has not ended wait for it.
_DUE = Statement(
    select(schedules)
    .where(schedules.c.next.is_not(None), schedules.c.next <= bindparam("now"), schedules.c.running == "")
    .order_by(schedules.c.next, schedules.c.id)
    .limit(bindparam("count"))
)
_EARLIEST = Statement(
    select(schedules.c.next)
    .where(schedules.c.next.is_not(None), schedules.c.running == "")
    .order_by(schedules.c.next)
    .limit(1)
)
_RUNNING = Statement(
    select(schedules, inbox.c.state.label("inbox_state"))
    .join(inbox, inbox.c.id == schedules.c.running, isouter=True)
    .where(schedules.c.running != "")
    .order_by(schedules.c.id)
)
_CHANGED = update(schedules).where(schedules.c.id == bindparam("of"))
_MOVE = Statement(
    _CHANGED.values(next=bindparam("new_next"), state=bindparam("new_state"), running=bindparam("new_running"))
)
_SET = Statement(_CHANGED.values(next=bindparam("new_next"), state=bindparam("new_state"), note=bindparam("new_note")))
_SET_NEXT = Statement(_CHANGED.where(schedules.c.state == "active").values(next=bindparam("new_next")))
_FOLLOW = Statement(
    _CHANGED.where(schedules.c.next == bindparam("old_next")).values(
        body=bindparam("new_body"), next=bindparam("new_next")
    )
)
_CHANGE = Statement(
    _CHANGED.values(body=bindparam("new_body"), next=bindparam("new_next"), state=bindparam("new_state"), note="")
)
# Nobody has answered the message of it: an answer stands in its note.
_ANSWER = Statement(
    _CHANGED.where(schedules.c.state == "done", schedules.c.note == "").values(
        body=bindparam("new_body"), next=bindparam("new_next"), state=bindparam("new_state"), note=bindparam("new_note")
    )
)
# Neither has a run begun meanwhile, nor has somebody paused or removed it.
_REZONE = Statement(
    _CHANGED.where(
        schedules.c.state == bindparam("old_state"), schedules.c.next.is_not_distinct_from(bindparam("old_next"))
    ).values(body=bindparam("new_body"), next=bindparam("new_next"), state=bindparam("new_state"))
)
_REMOVE = Statement(delete(schedules).where(schedules.c.id == bindparam("of")))
_REMOVE_RUNS = Statement(delete(schedule_runs).where(schedule_runs.c.job == bindparam("of")))
_RUN = insert_into(schedule_runs, "job", "due", "state", "turn", "began_at", "ended_at", "text", ignore_conflict=True)
_OPEN_OF_PERSON = (schedules.c.person == bindparam("of_person"), schedules.c.state != "done")
_COUNT_OPEN = Statement(select(func.count()).where(*_OPEN_OF_PERSON))
_NEXT_OF_PERSON = Statement(
    select(schedules)
    .where(*_OPEN_OF_PERSON)
    .order_by(schedules.c.next.is_(None), schedules.c.next, schedules.c.id)
    .limit(bindparam("count"))
)
_SPENT = Statement(
    select(func.coalesce(func.sum(schedule_runs.c.cost), 0.0)).where(
        schedule_runs.c.job == bindparam("of"), schedule_runs.c.began_at >= bindparam("since")
    )
)
_RUN_EXISTS = Statement(
    select(
        or_(
            exists().where(schedule_runs.c.job == bindparam("of"), schedule_runs.c.due == bindparam("of_due")),
            # A state that was restored from a backup has the messages that were taken since, and not the runs.
            exists().where(inbox.c.id == bindparam("of_turn")),
        )
    )
)
_RUN_ENDED = Statement(
    update(schedule_runs)
    .where(schedule_runs.c.turn == bindparam("of_turn"), schedule_runs.c.state == "running")
    .values(
        state=bindparam("new_state"), ended_at=bindparam("at"), text=bindparam("new_text"), cost=bindparam("new_cost")
    )
)
_JOB_ENDED = Statement(
    _CHANGED.where(schedules.c.running == bindparam("of_turn")).values(
        running="",
        failures=bindparam("new_failures"),
        next=bindparam("new_next"),
        state=bindparam("new_state"),
        note=bindparam("new_note"),
    )
)
_CONFIGURED = Statement(select(schedules).where(json_flag(schedules.c.body, "configured")).order_by(schedules.c.id))
_LAST_ID = Statement(select(func.coalesce(func.max(schedules.c.id), 0)))
_LATEST_RUNS = Statement(
    select(schedule_runs).where(
        schedule_runs.c.id.in_(select(func.max(schedule_runs.c.id)).group_by(schedule_runs.c.job))
    )
)
_RUNS = Statement(
    select(schedule_runs)
    .where(schedule_runs.c.job == bindparam("of"))
    .order_by(schedule_runs.c.due.desc(), schedule_runs.c.id.desc())
    .limit(bindparam("count"))
)
_PRUNE_RUNS = Statement(
    delete(schedule_runs).where(schedule_runs.c.state != "running", schedule_runs.c.began_at < bindparam("before"))
)
_PRUNE_DONE = Statement(
    delete(schedules).where(
        schedules.c.state == "done",
        schedules.c.running == "",
        schedules.c.made_at < bindparam("before"),
        schedules.c.id.not_in(select(schedule_runs.c.job)),
    )
)


class NameTaken(StateError):
    """Another job of the person has the name."""


class ScheduleRows:
    """The jobs and runs on disk. Methods raise StateError where the disk refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, job: Job, next_due: float, now: float) -> StoredJob:
        """Store a new job, durably.

        Raises:
            NameTaken: another job of the person has its name.
        """
        body, person = JOB.to_json(job), job.actor.key
        statement = _ADD(name=job.name, person=person, body=body, state="active", next=next_due, made_at=now)
        added = (await self._database.write(statement, durable=True))[0]
        if added.rowcount != 1:
            raise NameTaken(f"there is already a schedule named {job.name}")
        return StoredJob(added.lastrowid, job, "active", next_due, "", 0, "", now)

    async def change(self, stored: StoredJob, job: Job, next_due: float | None, state: JobState) -> None:
        """Give a job another body, and have it go on from there."""
        body = JOB.to_json(job)
        await self._database.write(_CHANGE(of=stored.id, new_body=body, new_next=next_due, new_state=state))

    def answer(self, stored: StoredJob, job: Job, note: str) -> BoundStatement:
        """Return the UPDATE by which the answer to a job's message leaves it done, or has it come at its new moment."""
        new: dict[str, Any] = {"new_body": JOB.to_json(job), "new_next": None, "new_state": "done", "new_note": note}
        if job.when != stored.job.when:
            new |= {"new_next": job.when.after(0.0), "new_state": "active", "new_note": ""}
        return _ANSWER(of=stored.id, **new)

    def rezone(self, stored: StoredJob, moved: StoredJob) -> BoundStatement:
        """Return the UPDATE that gives a job the times that it has in another zone."""
        new = {"new_body": JOB.to_json(moved.job), "new_next": moved.next, "new_state": moved.state}
        return _REZONE(of=stored.id, old_state=stored.state, old_next=stored.next, **new)

    async def list_by_name(self, name: str) -> list[StoredJob]:
        """Return the jobs of this name, of whichever people."""
        return [_parse_row(row) for row in await self._database.read(_NAMED(of_name=name))]

    async def find(self, name: str) -> StoredJob | None:
        """Return a job with a name that one person has, as a heartbeat."""
        return next(iter(await self.list_by_name(name)), None)

    async def by_id(self, job: int) -> StoredJob | None:
        return _first(await self._database.read(_ONE(of=job)))

    async def all(self, person: str | None = None) -> list[StoredJob]:
        """Return the jobs of a person, or of all people: the next one first, then those that are not due any more."""
        statement = _ALL() if person is None else _OF_PERSON(of_person=person)
        return [_parse_row(row) for row in await self._database.read(statement)]

    async def list_from_config(self) -> list[StoredJob]:
        """Return the jobs that come from the configuration."""
        return [_parse_row(row) for row in await self._database.read(_CONFIGURED())]

    async def due(self, now: float, count: int) -> list[StoredJob]:
        """Return due jobs without a run under way, the longest due first."""
        return [_parse_row(row) for row in await self._database.read(_DUE(now=now, count=count))]

    async def earliest(self) -> float | None:
        """Return the next moment at which a job is due; None: no job waits for its time."""
        rows = await self._database.read(_EARLIEST())
        return rows[0][0] if rows else None

    async def running(self) -> list[tuple[StoredJob, bool]]:
        """Return the jobs with a run under way, each with whether its turn is still open."""
        rows = await self._database.read(_RUNNING())
        return [(_parse_row(row), row["inbox_state"] not in (None, "done")) for row in rows]

    def move(
        self, stored: StoredJob, next_due: float | None, *, state: JobState | None = None, running: str = ""
    ) -> BoundStatement:
        """Return the UPDATE that moves a job to its next due time; without one it is done, unless `state` says more."""
        state = state or ("done" if next_due is None else "active")
        return _MOVE(of=stored.id, new_next=next_due, new_state=state, new_running=running)

    def run(
        self, stored: StoredJob, due: float, turn: str, state: RunState, at: float, text: str = ""
    ) -> BoundStatement:
        """Return the INSERT of a run; a run that is known stays as it is."""
        ended = None if state == "running" else at
        return _RUN(job=stored.id, due=due, state=state, turn=turn, began_at=at, ended_at=ended, text=text)

    async def write(self, *statements: BoundStatement) -> None:
        """Run statements in one durable transaction."""
        await self._database.write(*statements, durable=True)

    async def set_state(self, stored: StoredJob, state: JobState, next_due: float | None) -> None:
        await self._database.write(_SET(of=stored.id, new_next=next_due, new_state=state, new_note=""), durable=True)

    def stop(self, stored: StoredJob, note: str) -> BoundStatement:
        """Return the UPDATE that stops a job, with the reason for people."""
        return _SET(of=stored.id, new_next=None, new_state="stopped", new_note=note)

    async def set_next(self, moments: Mapping[int, float | None]) -> None:
        """Set when jobs are due, as far as they are active."""
        await self._database.write(*(_SET_NEXT(of=job, new_next=moment) for job, moment in moments.items()))

    async def follow_clock(self, by: float) -> None:
        """Move the active jobs with durations for times along with a wall clock that was set by so many seconds."""
        moved = [
            _FOLLOW(of=each.id, old_next=each.next, new_next=each.next + by, new_body=JOB.to_json(job))
            for each in await self.all()
            if each.next is not None and (job := replace(each.job, when=follow_clock(each.job.when, by))) != each.job
        ]
        if moved:
            await self._database.write(*moved, durable=True)

    async def has_run(self, job: int, due: float) -> bool:
        """Whether there is a run of this due time."""
        return bool((await self._database.read(_RUN_EXISTS(of=job, of_due=due, of_turn=turn_of(job, due))))[0][0])

    async def end_run(
        self, stored: StoredJob, state: RunState, *, at: float, text: str, cost: float | None = None
    ) -> None:
        """Record the end of the run that `stored` names, once, and the rest of `stored` as what follows for the job."""
        job = {"failures": stored.failures, "next": stored.next, "state": stored.state, "note": stored.note}
        await self._database.write(
            _RUN_ENDED(of_turn=stored.running, new_state=state, at=at, new_text=text, new_cost=cost),
            _JOB_ENDED(of=stored.id, of_turn=stored.running, **{f"new_{name}": value for name, value in job.items()}),
        )

    async def runs(self, job: int, count: int = KEEP_RUNS) -> Sequence[Run]:
        """Return the latest runs of a job, the newest first."""
        return [_run(row) for row in await self._database.read(_RUNS(of=job, count=count))]

    async def latest_runs(self) -> dict[int, Run]:
        """Return the latest run of each job that had one, by the job's id."""
        return {row["job"]: _run(row) for row in await self._database.read(_LATEST_RUNS())}

    async def count_open(self, person: str) -> int:
        """Return how many jobs of a person are not done."""
        return int((await self._database.read(_COUNT_OPEN(of_person=person)))[0][0])

    async def next_of(self, person: str, count: int) -> list[StoredJob]:
        """Return the jobs of a person that are due next, then those that wait for no time; none that is done."""
        rows = await self._database.read(_NEXT_OF_PERSON(of_person=person, count=count))
        return [_parse_row(row) for row in rows]

    async def last_run(self, job: int) -> Run | None:
        """Return the latest run of a job."""
        return next(iter(await self.runs(job, 1)), None)

    async def last_id(self) -> int:
        """Return the highest id of a job; 0 without jobs."""
        return int((await self._database.read(_LAST_ID()))[0][0])

    async def spent(self, job: int, since: float) -> float:
        """Return the US dollars that the runs of a job cost which began at `since` or later, as far as known."""
        return float((await self._database.read(_SPENT(of=job, since=since)))[0][0])

    async def remove(self, stored: StoredJob) -> None:
        """Forget a job and its runs."""
        await self._database.write(_REMOVE(of=stored.id), _REMOVE_RUNS(of=stored.id), durable=True)

    async def prune(self, now: float) -> None:
        """Forget runs after a month, and jobs that are done with the last of theirs."""
        await self._database.write(_PRUNE_RUNS(before=now - KEEP_SECONDS), _PRUNE_DONE(before=now - KEEP_SECONDS))


def _run(row: Row) -> Run:
    names = ("job", "due", "state", "turn", "began_at", "ended_at", "text", "cost")
    return Run(**{name: row[name] for name in names})


def _first(rows: Sequence[Row]) -> StoredJob | None:
    return _parse_row(rows[0]) if rows else None


def _parse_row(row: Row) -> StoredJob:
    names = ("state", "next", "running", "failures", "note", "made_at")
    return StoredJob(row["id"], JOB.from_json(row["body"]), *(row[name] for name in names))
