"""Tasks have a parent, and what fails is started again after a growing pause."""

import asyncio
from typing import Any

import pytest

from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.common.core.supervise import (
    MAX_PAUSE,
    background,
    cancellable,
    ends_within,
    finish_despite_cancel,
    run_with_restarts,
    wait_without_cancelling,
)
from goclaw.errors import DiskError, DiskFault


class Failing:
    """Fails as often as told, then returns."""

    def __init__(self, clock: SteppedClock, failures: int, lasts: float = 0.0, error: Exception | None = None) -> None:
        self.clock, self.failures, self.lasts = clock, failures, lasts
        self.error = error or RuntimeError("broken")
        self.begun: list[float] = []

    async def run(self) -> None:
        self.begun.append(self.clock.now())
        self.clock.advance(self.lasts)
        if len(self.begun) <= self.failures:
            raise self.error


async def supervised(part: Failing, clock: SteppedClock) -> list[float]:
    """Let it run to its end; returns the pauses between its starts."""
    task = asyncio.ensure_future(run_with_restarts("part", part.run, clock))
    async with asyncio.timeout(10):
        while not task.done():
            await asyncio.sleep(0)
            if clock.sleepers:
                clock.advance(0.5)
        await task
    return [later - earlier - part.lasts for earlier, later in zip(part.begun, part.begun[1:], strict=False)]


async def test_what_fails_is_started_again_after_growing_pauses(
    clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    assert await supervised(Failing(clock, 8), clock) == [1, 2, 4, 8, 16, 32, 60, 60]
    assert caplog.text.count("RuntimeError: broken") == 8


async def test_what_ran_well_for_long_begins_with_a_short_pause_again(clock: SteppedClock) -> None:
    assert await supervised(Failing(clock, 4, lasts=MAX_PAUSE + 1), clock) == [1, 1, 1, 1]


async def test_what_the_disk_refuses_is_tried_again_soon_and_logged_in_a_line(
    clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    full = DiskError("the database cannot be written: disk full", DiskFault.FULL)
    group = ExceptionGroup("of a batch", [full, ExceptionGroup("within", [full])])
    assert await supervised(Failing(clock, 6, error=group), clock) == [1, 2, 4, 8, 10, 10]
    assert "part waits for the disk, next try in 1 s: the database cannot be written: disk full" in caplog.text
    assert "Traceback" not in caplog.text


async def test_what_returns_is_left_alone(clock: SteppedClock) -> None:
    part = Failing(clock, 0)
    await supervised(part, clock)
    assert len(part.begun) == 1


async def test_cancelling_ends_it(clock: SteppedClock) -> None:
    task = asyncio.ensure_future(run_with_restarts("part", Failing(clock, 100).run, clock))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_fails_of_its_cancellation_is_not_started_again(
    clock: SteppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def run() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("broken while it was ended") from None  # as a library's clean-up does

    task = asyncio.ensure_future(run_with_restarts("part", run, clock))
    async with asyncio.timeout(10):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "part failed while it was ended: broken while it was ended" in caplog.text


async def test_a_background_task_ends_with_its_block() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with background(work(), "work") as task:
        await asyncio.sleep(0)
        assert not task.done()
    assert ended.is_set() and task.cancelled()


async def test_a_background_task_that_failed_is_not_passed_over_in_silence() -> None:
    async def work() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        async with background(work(), "work") as task:
            await asyncio.wait({task})


async def test_who_is_cancelled_while_a_background_task_ends_is_cancelled() -> None:
    """`goclaw send` had its answer while the daemon ended, and waited for ever for its own end."""
    ending, ended, slow = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            try:
                await slow.wait()
            finally:
                ended.set()

    async def block() -> None:
        async with background(work(), "work"):
            await asyncio.sleep(0)

    task = asyncio.ensure_future(block())
    async with asyncio.timeout(10):
        await ending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended.is_set(), "the task has a parent for as long as it lives"


async def test_what_a_background_task_fails_of_is_logged_when_its_caller_has_gone(
    caplog: pytest.LogCaptureFixture, nothing_is_lost: None
) -> None:
    ending = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise OSError("no room")

    async def block() -> None:
        async with background(work(), "writing"):
            await asyncio.sleep(0)

    task = asyncio.ensure_future(block())
    async with asyncio.timeout(10):
        await ending.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "writing failed, and whoever wanted it had gone: no room" in caplog.text


async def test_who_is_cancelled_is_when_a_background_task_fails_of_that(caplog: pytest.LogCaptureFixture) -> None:
    """`run_with_restarts` would take the failure for one of its part, and start that again."""
    began, failures = asyncio.Event(), [OSError("no room")]

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if failures:
                raise failures.pop()

    async def block() -> None:
        async with background(work(), "writing"):
            began.set()
            await asyncio.Event().wait()

    async with (
        asyncio.timeout(10),
        background(run_with_restarts("a part", block, RealClock()), "keeping it running") as task,
    ):
        await began.wait()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()
    assert "writing failed, and whoever wanted it had gone: no room" in caplog.text


async def test_a_cancellation_that_a_library_loses_is_raised_when_its_work_has_ended(nothing_is_lost: None) -> None:
    ended = asyncio.Event()

    async def loses() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.set()
        return "a result"

    task = asyncio.ensure_future(cancellable(loses(), "a library's work"))
    async with asyncio.timeout(10):
        await cancelled(task)
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ended.is_set()


async def test_what_can_be_cancelled_returns_its_result_and_raises_its_error() -> None:
    async def returns() -> str:
        return "a result"

    async def fails() -> None:
        raise OSError("no room")

    assert await cancellable(returns(), "a library's work") == "a result"
    with pytest.raises(OSError, match="no room"):
        await cancellable(fails(), "a library's work")


async def cancelled(task: "asyncio.Task[Any]") -> None:
    """Let a task begin, then cancel it."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)


async def test_what_must_not_be_cut_has_ended_when_the_cancellation_is_raised(
    caplog: pytest.LogCaptureFixture, nothing_is_lost: None
) -> None:
    ready = asyncio.Event()

    async def work() -> None:
        await ready.wait()
        raise OSError("no room")

    task = asyncio.ensure_future(finish_despite_cancel(work(), "writing"))
    for _ in range(3):
        await cancelled(task)
        assert not task.done()
    ready.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "writing failed, and whoever wanted it had gone: no room" in caplog.text


async def test_what_goes_on_without_its_caller_loses_no_error(
    caplog: pytest.LogCaptureFixture, nothing_is_lost: None
) -> None:
    ready = asyncio.Event()

    async def work() -> None:
        await ready.wait()
        raise OSError("no room")

    inner = asyncio.create_task(work(), name="promising")
    task = asyncio.ensure_future(wait_without_cancelling(inner))
    await cancelled(task)
    assert task.cancelled() and not inner.done()
    ready.set()
    await asyncio.wait({inner})
    await asyncio.sleep(0)
    assert "promising failed, and whoever wanted it had gone: no room" in caplog.text


async def test_both_hand_out_what_the_work_yields_or_raises() -> None:
    async def work() -> int:
        return 5

    async def trouble() -> int:
        raise OSError("no room")

    assert (
        await finish_despite_cancel(work(), "work") == await wait_without_cancelling(asyncio.create_task(work())) == 5
    )
    with pytest.raises(OSError, match="no room"):
        await finish_despite_cancel(trouble(), "work")
    with pytest.raises(OSError, match="no room"):
        await wait_without_cancelling(asyncio.create_task(trouble()))


async def test_what_ends_in_time_is_waited_for_without_a_task_for_the_time() -> None:
    ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(ends_within(ending, RealClock(), 60))
    tasks = asyncio.all_tasks()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks
    ending.set_result(None)
    assert await waiting


async def test_what_does_not_end_in_time_goes_on(clock: SteppedClock) -> None:
    ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(ends_within(ending, clock, 60))
    for _ in range(3):
        await asyncio.sleep(0)  # it has begun, and its clock's timer, too
    clock.advance(60)
    async with asyncio.timeout(10):
        assert not await waiting
    assert not ending.done()
