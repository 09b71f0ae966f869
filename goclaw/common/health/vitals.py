"""The daemon's vital signs: heartbeat, watchdog, unhandled errors, counts of what must not grow, a dump on SIGUSR2.

An unhandled error (a task's exception that was never retrieved, a callback that failed) is not expected, ever: each is
a line in the log with its stack, and a count in the status that a soak test looks at.
"""

import asyncio
import gc
import logging
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background
from goclaw.common.health.heartbeat import RECENT_SECONDS, Heartbeat, listening
from goclaw.common.health.stuck_tasks import task_stacks
from goclaw.common.health.systemd import Notifier

log = logging.getLogger(__name__)


class Unhandled:
    """Unhandled errors since the start. Made by `catching`."""

    def __init__(self) -> None:
        self.count = 0

    def handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error as the loop's exception handler."""
        self.count += 1
        error: BaseException | None = context.get("exception")
        task = context.get("task") or context.get("future")
        who = f" ({task.get_name()})" if isinstance(task, asyncio.Task) else ""
        what = f": {type(error).__name__}" if error else ""
        stack = "".join(traceback.format_exception(error)) if error else ""
        log.error("nobody handled this: %s%s%s", context.get("message", "an error"), who, what, extra={"stack": stack})


@contextmanager
def catching() -> Iterator[Unhandled]:
    """Collect unhandled errors of the running loop while the block runs."""
    loop, unhandled = asyncio.get_running_loop(), Unhandled()
    before = loop.get_exception_handler()
    loop.set_exception_handler(unhandled.handle)
    try:
        yield unhandled
    finally:
        loop.set_exception_handler(before)


MAX_TYPES = 60
"""Types listed in the dump: the few with many objects are those that grow."""
DESCRIPTORS = Path("/proc/self/fd")


def counts() -> Mapping[str, int]:
    """Return the number of tasks of the running loop, threads, and open descriptors where the system has them."""
    found = {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count()}
    try:
        return {**found, "descriptors": len(list(DESCRIPTORS.iterdir())) - 1}  # without the current task
    except OSError:
        return found  # not Linux


def objects_by_type() -> Mapping[str, int]:
    """Count the objects that the collector watches, by type, the most frequent first; `total` leads.

    It takes a twentieth of a second and more, so it is run by hand only. Objects made during the start are frozen and
    not counted.
    """
    objects = gc.get_objects()
    found = Counter(map(type, objects))
    total = {"total": len(objects)}
    return total | {f"{kind.__module__}.{kind.__qualname__}": count for kind, count in found.most_common(MAX_TYPES)}


class Vitals:
    """Made by `open_vitals`."""

    def __init__(self, heartbeat: Heartbeat, unhandled: Unhandled, notifier: Notifier) -> None:
        self._heartbeat = heartbeat
        self._unhandled = unhandled
        self._notifier = notifier
        self._phase = "Starting"

    async def ready(self) -> None:
        """Notify the service manager that the daemon answers."""
        self._phase = "Running"
        await self._notifier.notify(READY=1, STATUS=self.status())

    async def stopping(self) -> None:
        """Notify the service manager that the daemon shuts down."""
        self._phase = "Stopping"
        await self._notifier.notify(STOPPING=1, STATUS=self.status())

    def status(self) -> str:
        """Return one line for `systemctl status`."""
        return f"{self._phase}; event loop {self._delay()}"

    def lines(self) -> Mapping[str, str]:
        """Return names and texts for `/status` and `goclaw status`."""
        lines = {"Event loop": self._delay()}
        if count := self._unhandled.count:
            lines["Unhandled errors"] = f"{count} since the start; the log has them"
        return lines

    def counts(self) -> Mapping[str, float]:
        """Return counts for `goclaw status --json`: tasks, descriptors, threads, unhandled errors, the loop's delay."""
        late = round(1000 * self._heartbeat.worst(), 1)
        return {**counts(), "unhandled_errors": self._unhandled.count, "event_loop_late_ms": late}

    def _delay(self) -> str:
        return f"late by {1000 * self._heartbeat.worst():,.0f} ms at worst in the last {RECENT_SECONDS / 60:g} min"


@asynccontextmanager
async def open_vitals(clock: Clock, environ: MutableMapping[str, str] = os.environ) -> AsyncIterator[Vitals]:
    """Watch the running loop while the block runs. `environ` may name a service manager; it loses those variables."""
    heartbeat, notifier = Heartbeat(clock), Notifier.of(environ, clock)
    with listening(heartbeat), _dump_on_signal(), catching() as unhandled:
        vitals = Vitals(heartbeat, unhandled, notifier)
        async with (
            background(heartbeat.beat(), "heartbeat"),
            background(notifier.feed_watchdog(vitals.status), "watchdog of the service manager"),
        ):
            yield vitals


@contextmanager
def _dump_on_signal() -> Iterator[None]:
    """Log where all tasks stand on SIGUSR2. A stuck loop does not react to it: see `heartbeat`."""
    loop = asyncio.get_running_loop()

    def dump() -> None:
        tasks = asyncio.all_tasks(loop)
        # At a higher level than it is, so that it is logged in any case: it was asked for.
        objects = "\n".join(f"{count:9} {name}" for name, count in objects_by_type().items())
        found = {"stack": task_stacks(tasks), "objects": objects}
        log.warning("%d tasks, asked for with SIGUSR2", len(tasks), extra=found)

    loop.add_signal_handler(signal.SIGUSR2, dump)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGUSR2)
