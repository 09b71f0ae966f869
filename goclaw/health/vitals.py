"""The daemon's vital signs while it runs: heartbeat, watchdog, unhandled errors, a dump of all tasks on SIGUSR2."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager, contextmanager

from goclaw.clock import Clock
from goclaw.health.counts import counts, objects_by_type
from goclaw.health.heartbeat import RECENT_SECONDS, Heartbeat, listening
from goclaw.health.stacks import task_stacks
from goclaw.health.systemd import Notifier
from goclaw.health.unhandled import Unhandled, catching
from goclaw.supervise import background

log = logging.getLogger(__name__)


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
        await self._notifier.tell(READY=1, STATUS=self.status())

    async def stopping(self) -> None:
        """Notify the service manager that the daemon shuts down."""
        self._phase = "Stopping"
        await self._notifier.tell(STOPPING=1, STATUS=self.status())

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
