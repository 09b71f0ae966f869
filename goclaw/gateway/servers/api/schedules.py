"""Schedules: reminders and tasks at a time, with the rights of the user; an admin sees and changes those of all."""

import uuid
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from goclaw.common.core.events import Inbound
from goclaw.common.core.redact import mask
from goclaw.conversation.schedules.jobs import JobState, RunState, StoredJob
from goclaw.errors import StateError
from goclaw.gateway.servers.api.operations import Call, Key, NoFields, Operations, Reply, Request, Response
from goclaw.gateway.servers.api.problems import Problem
from goclaw.tools.toolkit.schedule_orders import ScheduleRequest

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
Text = Annotated[str, Field(max_length=20_000)]
Short = Annotated[str, Field(max_length=200)]


class ScheduleAsked(Request):
    """The fields of an operation on one schedule."""

    name: Name


class ScheduleMade(Request):
    """The fields of `addSchedule`: one of `at`, `every` and `cron`, and one of `message` and `task`."""

    id: Annotated[
        Key,
        Field(description="Your own id for this request: repeating it with the same id creates no second schedule."),
    ]
    name: Annotated[str, Field(max_length=64, description="Empty: GoClaw chooses one.")] = ""
    at: Annotated[Short, Field(description="`20m`, `8:00`, `tomorrow 8:00`, or an ISO date and time.")] = ""
    every: Annotated[Short, Field(description="`30m`, `2h`, `1d`.")] = ""
    cron: Annotated[Short, Field(description="`30 8 * * 1-5`, in your time zone.")] = ""
    message: Annotated[Text, Field(description="Text that is sent word for word.")] = ""
    task: Annotated[Text, Field(description="Task for an agent, which runs with your rights.")] = ""
    to: Annotated[Short, Field(description="`telegram:123456`, or `notify:NAME`; empty: your own chat.")] = ""
    session: Annotated[Short, Field(description="A task's session: `fresh` (or empty), `same`, or a key.")] = ""
    agent: Short = ""
    model: Short = ""
    tools: Annotated[Text, Field(description="Tools that the task may use, separated by commas.")] = ""
    catch_up: Annotated[Short, Field(description="`last` (or empty), `all` or `none`.")] = ""
    ask: Annotated[bool, Field(description="Whether a call that needs approval asks in the chat and waits.")] = False
    budget: Annotated[float | None, Field(gt=0, lt=1_000_000, description="US dollars for one run.")] = None
    time_limit: Annotated[Short, Field(description="`10m`, for one run.")] = ""


class Schedule(Response):
    """A schedule with its state."""

    name: str
    kind: str = Field(description="`message` or `task`.")
    text: str = Field(description="Secrets are masked.")
    when: str = Field(description="When it runs, in words.")
    user: str = Field(description="The user it belongs to, with whose rights it runs.")
    to: str = Field(description="The chat, as `channel:chat`.")
    state: JobState
    next: float | None = Field(description="When it runs next, in epoch seconds.")
    running: bool
    failures: int = Field(description="Failed runs since the last successful one.")
    note: str = Field(description="Why it was stopped.")


class ScheduleList(Response):
    """The schedules that the user may see, the next one first."""

    schedules: Sequence[Schedule]


class ScheduleRun(Response):
    """A run of a schedule."""

    due: float = Field(description="Epoch seconds, as all times.")
    state: RunState
    began: float
    ended: float | None
    text: str = Field(description="The beginning of the answer, or what went wrong.")
    cost: float | None = Field(description="US dollars; null: unknown, or nothing was spent.")


class RunList(Response):
    """The latest runs, the newest first."""

    runs: Sequence[ScheduleRun]


OPERATIONS = Operations()
_REFUSALS = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@OPERATIONS.add("GET", "/schedules", "schedules")
async def list_schedules(call: Call, _: NoFields) -> ScheduleList:
    """List your schedules, the next one first; admins see everybody's"""
    return ScheduleList(schedules=[_render(each) for each in await call.ports.schedules.of(call.actor)])


@OPERATIONS.add(
    "POST", "/schedules", "schedules", Reply({HTTPStatus.CREATED: "It is stored."}), refusals=(HTTPStatus.CONFLICT,)
)
async def add_schedule(call: Call, asked: ScheduleMade) -> Schedule:
    """Add a scheduled message or task"""
    schedules = call.ports.schedules
    session, address = schedules.home(call.actor)
    identity = f"api:{uuid.uuid5(uuid.NAMESPACE_URL, f'{call.actor.key} {asked.id}')}"
    inbound = Inbound(identity, call.actor, session, "", address, call.ports.clock.now())
    wanted = ScheduleRequest(**asked.model_dump(exclude={"id", "name"}))
    try:
        return _render(await schedules.make(inbound, asked.name, wanted))
    except StateError as error:
        raise _impossible(error) from None


@OPERATIONS.add("GET", "/schedules/{name}/runs", "schedules", refusals=(HTTPStatus.NOT_FOUND,))
async def list_runs(call: Call, asked: ScheduleAsked) -> RunList:
    """List the latest runs of a schedule"""
    await _find(call, asked.name)
    return RunList(
        runs=[
            ScheduleRun(
                due=each.due,
                state=each.state,
                began=each.began_at,
                ended=each.ended_at,
                text=mask(each.text),
                cost=each.cost,
            )
            for each in await call.ports.schedules.runs(call.actor, asked.name)
        ]
    )


@OPERATIONS.add("POST", "/schedules/{name}/pause", "schedules", refusals=_REFUSALS)
async def pause_schedule(call: Call, asked: ScheduleAsked) -> Schedule:
    """Pause a schedule"""
    return await _change(call, asked.name, "pause")


@OPERATIONS.add("POST", "/schedules/{name}/resume", "schedules", refusals=_REFUSALS)
async def resume_schedule(call: Call, asked: ScheduleAsked) -> Schedule:
    """Resume a paused or stopped schedule"""
    return await _change(call, asked.name, "resume")


@OPERATIONS.add("POST", "/schedules/{name}/run", "schedules", refusals=_REFUSALS)
async def run_schedule(call: Call, asked: ScheduleAsked) -> Schedule:
    """Run a schedule now, in addition to its times"""
    return await _change(call, asked.name, "run")


@OPERATIONS.add(
    "DELETE", "/schedules/{name}", "schedules", Reply({HTTPStatus.NO_CONTENT: "It is deleted."}), refusals=_REFUSALS
)
async def remove_schedule(call: Call, asked: ScheduleAsked) -> None:
    """Delete a schedule and its runs"""
    await _find(call, asked.name)
    try:
        await call.ports.schedules.remove(call.actor, asked.name)
    except StateError as error:
        raise _impossible(error) from None


async def _change(call: Call, name: str, action: str) -> Schedule:
    """Pause, resume or run a schedule, and return it as it is then."""
    await _find(call, name)
    try:
        await getattr(call.ports.schedules, action)(call.actor, name)
    except StateError as error:
        raise _impossible(error) from None
    return _render(await _find(call, name))


async def _find(call: Call, name: str) -> StoredJob:
    """Return a schedule that the caller may see; raises Problem (404) for another user's as for an unknown one."""
    named = [each for each in await call.ports.schedules.of(call.actor) if each.job.name == name]
    found = min(named, key=lambda each: each.job.actor.key != call.actor.key, default=None)
    if found is None:
        raise Problem(HTTPStatus.NOT_FOUND, f"you have no schedule {name!r}", field="name")
    return found


def _impossible(error: StateError) -> Problem:
    """Return the refusal of an impossible schedule: sending it again would not help."""
    return Problem(HTTPStatus.CONFLICT, str(error))


def _render(stored: StoredJob) -> Schedule:
    job = stored.job
    return Schedule(
        name=job.name,
        kind=job.kind,
        text=mask(job.text),
        when=job.when.words,
        user=job.actor.key,
        to=f"{job.address.channel}:{job.address.chat}",
        state=stored.state,
        next=stored.next,
        running=bool(stored.running),
        failures=stored.failures,
        note=stored.note,
    )
