"""Tasks that do not end: foreign code that ignores its cancellation is abandoned, and stacks of tasks and threads.

A tool that swallows its cancellation cannot be killed inside a process. What can be done: callers stop waiting, the
task is cancelled again and again, and it is named in the log and in `/status` while it lives. Stacks hold
files, lines and source, never a variable's value.
"""

import asyncio
import logging
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import ends_within

log = logging.getLogger(__name__)


T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""Time from cancellation until a task is left behind: enough to kill processes and to put files in order."""


class UnresponsiveTasks:
    """Abandoned tasks."""

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


MAX_PLACES = 100
MAX_NAMES = 20
"""Tasks named in one dump of a daemon with thousands: most of them stand in the same few places."""


def thread_stacks() -> str:
    """Return the stacks of all threads of this process. Can be called in any of them."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    # Documented, though its name begins with an underscore: the only way to see other threads.
    return "".join(
        f"thread {names.get(identity, identity)}:\n{''.join(traceback.format_stack(frame))}"
        for identity, frame in sys._current_frames().items()
    )


def task_stacks(tasks: "Iterable[asyncio.Task[Any]]") -> str:
    """Format where `tasks` stand, those in the same place together. Call it in the thread of their loop."""
    names: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        names[_place(task)].append(task.get_name())
    places = sorted(names, key=lambda place: -len(names[place]))
    shown = [f"{_list(names[place])}:\n{place}" for place in places[:MAX_PLACES]]
    left_out = len(places) - len(shown)
    return "".join([*shown, *([f"… and tasks in {left_out} more places\n"] if left_out else [])])


def _place(task: "asyncio.Task[Any]") -> str:
    """Return a task's stack through everything that it awaits: `Task.get_stack` knows only the outermost frame."""
    frames = []
    awaited: Any = task.get_coro()
    while (frame := _first(awaited, "cr_frame", "gi_frame", "ag_frame")) is not None:
        frames.append(frame)
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    stack = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames).format()
    ends = "is about to run" if awaited is None else f"waits for {type(awaited).__name__}"
    return f"{''.join(stack)}  {ends}\n"


def _first(awaited: Any, *names: str) -> Any:
    """Return the first of these attributes: coroutines, generators and asynchronous generators name them apart."""
    return next((value for name in names if (value := getattr(awaited, name, None)) is not None), None)


def _list(names: list[str]) -> str:
    more = f" … and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{len(names)} task{'s' if len(names) > 1 else ''}: {', '.join(names[:MAX_NAMES])}{more}"
