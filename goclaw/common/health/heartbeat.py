"""A watchdog thread for the event loop: it measures delays of its beats, and remembers the worst for a while.

A loop that is stuck cannot report it. The thread can, with the stack, once per incident.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from goclaw.common.core.clock import Clock
from goclaw.common.health.stuck_tasks import thread_stacks

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
"""Interval of beats: longer blocks are detected for sure, shorter ones by chance. Each beat wakes an idle daemon."""
LOOK_SECONDS = 1.0
STUCK_LOOKS = 5
"""Looks without a beat until the loop counts as stuck. Counted, not timed: a machine that was asleep is no incident."""
RECENT_SECONDS = 300.0
"""Time for which a delay counts as recent."""


class Heartbeat:
    """The loop's side: it notes how late each beat came."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.beats = 0
        # Delays that none after them exceeds, as (when, seconds): the first is the worst that is recent.
        self._delays: deque[tuple[float, float]] = deque()

    async def beat(self) -> None:
        """Beat until cancelled."""
        while True:
            due = self._clock.monotonic() + BEAT_SECONDS
            await self._clock.sleep(BEAT_SECONDS)
            self.beats += 1
            self._note(self._clock.monotonic(), due)

    def worst(self) -> float:
        """Return the longest delay of the last minutes, in seconds."""
        self._forget(self._clock.monotonic())
        return self._delays[0][1] if self._delays else 0.0

    def _note(self, now: float, due: float) -> None:
        delay = max(0.0, now - due)
        while self._delays and self._delays[-1][1] <= delay:
            self._delays.pop()
        self._delays.append((now, delay))
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._delays and now - self._delays[0][0] > RECENT_SECONDS:
            self._delays.popleft()


class HeartbeatMonitor:
    """The thread's side: it notices when no beat comes."""

    def __init__(self, heartbeat: Heartbeat, loop: asyncio.AbstractEventLoop) -> None:
        self._heartbeat = heartbeat
        self._loop = loop
        self._heard = 0
        self._missed = 0

    def check(self) -> None:
        """Check the last beat; called every `LOOK_SECONDS`."""
        if self._heartbeat.beats == self._heard:
            self._missed += 1
            if self._missed == STUCK_LOOKS:
                task = asyncio.current_task(self._loop)
                log.error(
                    "the event loop has been stuck for %g s, in %s: nobody is answered until it goes on",
                    STUCK_LOOKS * LOOK_SECONDS,
                    task.get_name() if task else "no task",
                    extra={"stack": thread_stacks()},
                )
            return
        if self._missed >= STUCK_LOOKS:
            log.warning("the event loop goes on after %g s", self._missed * LOOK_SECONDS)
        self._heard, self._missed = self._heartbeat.beats, 0


@contextmanager
def listening(heartbeat: Heartbeat) -> Iterator[None]:
    """Listen to the heartbeat of the running loop from another thread while the block runs."""
    listener, ended = HeartbeatMonitor(heartbeat, asyncio.get_running_loop()), threading.Event()

    def listen() -> None:
        while not ended.wait(LOOK_SECONDS):
            listener.check()

    # A daemon thread: a process that must end at once does not wait for the next look.
    thread = threading.Thread(target=listen, name="heartbeat listener", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
