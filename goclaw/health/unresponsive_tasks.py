"""Foreign code that may ignore its cancellation: it is awaited from a task of its own, and left behind if need be.

A tool that swallows its cancellation cannot be killed inside a process. What can be done: callers stop waiting, the
task is cancelled again and again, and it is named in the log and in `/status` for as long as it lives.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

from goclaw.clock import Clock
from goclaw.health.stacks import task_stacks
from goclaw.supervise import ends_within

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""Time from cancellation until a task is left behind: enough to kill processes and to put files in order."""


class UnresponsiveTasks:
    """Tasks that were left behind."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._caretakers: dict[asyncio.Task[Any], asyncio.Task[None]] = {}

    def names(self) -> list[str]:
        """Return the names of tasks that ignore their cancellation."""
        return sorted(task.get_name() for task in self._caretakers)

    async def run(self, work: Awaitable[T], name: str) -> T:
        """Await `work` in a task of its own. A cancellation waits for its end, but only for `PATIENCE_SECONDS`."""
        task = asyncio.create_task(_carry(work), name=name)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            try:
                await ends_within(task, self._clock, PATIENCE_SECONDS)
            finally:
                if not task.done():
                    self._leave(task)
                elif not task.cancelled() and (error := task.exception()):
                    log.info("%s failed when it was told to end: %s", name, type(error).__name__)
            raise
        return task.result()

    def _leave(self, task: "asyncio.Task[Any]") -> None:
        name = task.get_name()
        log.error("%s ignores that it was told to end; it is left behind", name, extra={"stack": task_stacks([task])})
        self._caretakers[task] = asyncio.create_task(self._insist(task), name=f"caretaker of {name}")

    async def _insist(self, task: "asyncio.Task[Any]") -> None:
        began = self._clock.monotonic()
        try:
            while not task.done():
                task.cancel()
                await ends_within(task, self._clock, PATIENCE_SECONDS)
            log.warning(
                "%s ended after all, %.0f s after it was left", task.get_name(), self._clock.monotonic() - began
            )
            if not task.cancelled():
                task.exception()  # retrieved, so that it is not reported as lost
        finally:
            del self._caretakers[task]


async def _carry(work: Awaitable[T]) -> T:
    return await work
