"""Tasks with a parent: alongside a block, or restarted while the daemon lives.

The only place where any exception at all is caught and turned into a log line and a pause.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from goclaw.common.core.clock import Backoff, Clock
from goclaw.errors import DiskError, GoclawError

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0
"""Seconds before a part that failed is started again: doubled at each failure, up to this."""
MAX_PAUSE_FOR_DISK = 10.0
"""The same where the disk refused something: what people wrote meanwhile waits for it."""


def _fault_of_the_disk(error: Exception) -> DiskError | None:
    """Return the disk's error, if all errors of a part come from the disk."""
    if isinstance(error, ExceptionGroup):
        faults = [_fault_of_the_disk(inner) for inner in error.exceptions]
        return faults[0] if all(faults) else None
    return error if isinstance(error, DiskError) else None


@asynccontextmanager
async def background(work: Coroutine[Any, Any, T], name: str) -> AsyncIterator[asyncio.Task[T]]:
    """Run `work` alongside the block and end it with the block. Its error is raised there.

    Where the block is cancelled it is logged: raised, it would hide the cancellation, and the caller would go on.
    """
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    except asyncio.CancelledError as error:
        await _end(task, error)
        raise
    except BaseException:
        await _end(task)
        raise
    await _end(task)


async def _end(task: "asyncio.Task[Any]", cut: asyncio.CancelledError | None = None) -> None:
    """Cancel a task and wait until it has ended. A cancellation of the caller meanwhile is passed on and then raised.

    `await task` could not tell the two apart: the caller would never end. `cut`: one of before.
    """
    task.cancel()
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cut = error
            task.cancel()
    if cut is not None:
        _log_failure(task)
        raise cut
    if not task.cancelled():
        task.result()


async def ends_within(task: "asyncio.Future[Any]", clock: Clock, seconds: float) -> bool:
    """Whether a task ends within so many seconds of the clock's time. It goes on if not, and if the caller ends."""
    if task.done():
        return True
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    timer = clock.later(seconds, end)
    task.add_done_callback(end)
    try:
        await over
    finally:
        timer.cancel()
        task.remove_done_callback(end)
    return task.done()


async def set_within(event: asyncio.Event, clock: Clock, seconds: float) -> bool:
    """Wait for an event, at most so many seconds of the clock's time; returns whether it is set."""
    waiter = asyncio.ensure_future(event.wait())
    try:
        return await ends_within(waiter, clock, seconds)
    finally:
        waiter.cancel()


async def cancellable(work: Coroutine[Any, Any, T], name: str) -> T:
    """Await a library's work that may lose a cancellation: the caller's is raised when the work has ended.

    `asyncio.wait_for` of Python 3.11 returns as if nothing were when the result arrives at the same moment
    (python/cpython#86296); psycopg's pool waits with it.
    """
    async with background(work, name) as task:
        await asyncio.wait({task})
    return task.result()


async def finish_despite_cancel(work: Coroutine[Any, Any, T], name: str) -> T:
    """Await what must not be cut: a cancellation is raised when it has ended, and its error is logged then."""
    task = asyncio.create_task(work, name=name)
    cut: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cut = error
    if cut is not None:
        _log_failure(task)
        raise cut
    return task.result()


async def wait_without_cancelling(task: "asyncio.Task[T]") -> T:
    """Await a task that continues when the caller is cancelled; its errors are then logged."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_failure)
        raise


async def result_of(future: "asyncio.Future[T]") -> T:
    """Await a future shared with others: a cancelled caller leaves it as it is. Its setter retrieves its error."""
    await asyncio.wait({future})
    return future.result()


async def unless_unforeseen(work: Awaitable[T], name: str) -> T | None:
    """Return the result of `work`; None when it fails unexpectedly, which is logged. Our own errors are raised."""
    try:
        return await work
    except GoclawError:
        raise
    except Exception:
        log.exception("%s failed unexpectedly", name)
        return None


def _log_failure(task: "asyncio.Task[Any]") -> None:
    """Log the error of a task that is not awaited."""
    if not task.cancelled() and (error := task.exception()):
        log.warning("%s failed, and whoever wanted it had gone: %s", task.get_name(), error)


async def run_with_restarts(name: str, run: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run until `run` returns; start it again after a growing pause when it fails.

    It ends where the task is cancelled, also if `run` fails of that: a library's clean-up may raise another error.
    """
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task else 0
    backoff = Backoff(FIRST_PAUSE, MAX_PAUSE)
    while True:
        began = clock.monotonic()
        try:
            await run()
        except Exception as error:
            if task and task.cancelling() > cancelled_before:
                log.warning("%s failed while it was ended: %s", name, error)
                raise asyncio.CancelledError from error
            if clock.monotonic() - began > MAX_PAUSE:
                backoff.reset()
            fault = _fault_of_the_disk(error)
            pause = backoff.next(MAX_PAUSE_FOR_DISK if fault else None)
            if fault:
                # The code that noticed it has logged it, and it may be over at any moment.
                log.warning("%s waits for the disk, next try in %g s: %s", name, pause, fault)
            else:
                log.exception("%s failed; starting it again in %g s", name, pause)
        else:
            return
        await clock.sleep(pause)
