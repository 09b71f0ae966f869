"""What the daemon itself does in the background: ended by an order, by its time or by its own end, like a command."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import LOCAL, Address
from goclaw.durable.store.blobs import open_blobs
from goclaw.errors import ToolError
from goclaw.tools.execution.tasks.base import Job, JobEnd, Owner, TaskState
from goclaw.tools.execution.tasks.room import TaskRoom, open_tasks

ANNA = Owner("s", "tui:anna")


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[TaskRoom]:
    async with (
        open_blobs(tmp_path, RealClock()) as blobs,
        open_tasks(blobs, RealClock(), Config().tools.tasks) as opened,
    ):
        yield opened


def job(run: Callable[[], Awaitable[JobEnd]], stopped: list[str] | None = None, seconds: float = 20) -> Job:
    told = stopped if stopped is not None else []
    return Job(ANNA, Address(LOCAL, "s"), "a job", run, lambda: told.append("stop"), seconds)


async def test_what_a_job_says_while_it_goes_on_is_news_until_it_is_read(room: TaskRoom) -> None:
    says: list[Callable[[str], Awaitable[None]]] = []
    info = await room.start_job(replace(job(forever), hands=says.append))
    await says[0]("half ")
    await says[0]("done")
    assert (await room.wait(info.id, ANNA, 20)).running
    assert await room.tail(info.id, ANNA, 100) == "half done"
    assert (await room.wait(info.id, ANNA, 0)).running
    assert (await room.stop(info.id, ANNA)).state is TaskState.STOPPED
    assert (await room.wait(info.id, ANNA, 20)).state is TaskState.STOPPED


async def forever() -> JobEnd:
    await asyncio.Event().wait()
    raise AssertionError("events never set themselves")


async def fine() -> JobEnd:
    return JobEnd("all done")


async def wrong() -> JobEnd:
    raise ToolError("it cannot be done")


async def broken() -> JobEnd:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("run", "state", "said"),
    [
        (fine, TaskState.COMPLETED, "all done"),
        (wrong, TaskState.FAILED, "it cannot be done"),
        (broken, TaskState.FAILED, "it failed unexpectedly; the log has the details"),
    ],
)
async def test_a_job_ends_as_what_it_does_ends(
    room: TaskRoom, run: Callable[[], Awaitable[JobEnd]], state: TaskState, said: str
) -> None:
    info = await room.start_job(job(run))
    assert (await room.wait(info.id, ANNA, 20)).state is state
    assert await room.tail(info.id, ANNA, 100) == said


async def test_an_order_ends_a_job_which_is_told_before(room: TaskRoom) -> None:
    told: list[str] = []
    info = await room.start_job(job(forever, told))
    assert (await room.stop(info.id, ANNA)).state is TaskState.STOPPED and told == ["stop"]


async def test_a_job_whose_time_is_up_has_failed(room: TaskRoom) -> None:
    info = await room.start_job(job(forever, seconds=0.01))
    ended = await room.wait(info.id, ANNA, 20)
    assert ended.end == "failed (it exceeded its limit of 0.01 s)"


async def test_a_job_reads_nothing(room: TaskRoom) -> None:
    info = await room.start_job(job(forever))
    with pytest.raises(ToolError, match="no longer reads input"):
        await room.write(info.id, ANNA, b"x", end=False)
