"""Time as a port: everything that waits or stamps asks a `Clock`, so that no test has to sleep."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

_WITH_SLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux counts a machine's sleep in a clock of its own; elsewhere the monotonic one does."""
MINUTE = 60
"""Seconds; of less than that people say that it was just now."""
APART_SECONDS = 60.0
"""Maximum seconds between the wall clocks of the processes of one store: what one stamps, another one may see to be
a moment in the future. Each asks the database for the time, and where it is busy it is late to hear the answer."""


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> object:
        """Do not call it."""
        ...


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Return wall-clock time as seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back; for measuring spans."""
        ...

    def awake_or_not(self) -> float:
        """Return seconds that never go back and go on while the machine sleeps; for ages and for what expires."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` of this clock's time with the machine awake."""
        ...

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call a function after `seconds`, counted as for `sleep`, without a task: for waits that rarely end so."""
        ...


class RealClock:
    """The machine's own clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def awake_or_not(self) -> float:
        return time.clock_gettime(_WITH_SLEEP)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, call)


class SteppedClock:
    """A clock that stands still until a test moves it: time passes, the machine sleeps, or the clock is set."""

    def __init__(self, start: float = 1_750_000_000.0) -> None:
        self._now = start
        self._slept = 0.0
        self._set = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now + self._slept + self._set

    def monotonic(self) -> float:
        return self._now

    def awake_or_not(self) -> float:
        return self._now + self._slept

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now + seconds, woken))
        await woken

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        sleeping = asyncio.ensure_future(self.sleep(seconds))
        sleeping.add_done_callback(lambda slept: None if slept.cancelled() else call())
        return sleeping

    def advance(self, seconds: float) -> None:
        """Move time on and wake everyone with a span that has passed."""
        self._now += seconds
        due = [woken for at, woken in self._sleepers if at <= self._now]
        self._sleepers = [(at, woken) for at, woken in self._sleepers if at > self._now]
        for woken in due:
            if not woken.done():
                woken.set_result(None)

    def suspend(self, seconds: float) -> None:
        """Simulate a sleeping machine: no timer notices."""
        self._slept += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back: no time passes."""
        self._set += seconds

    @property
    def sleepers(self) -> int:
        """Number of waiting callers."""
        return sum(not woken.done() for _, woken in self._sleepers)


class Backoff:
    """Pauses between tries, in seconds: the first one, doubled at each try, up to the longest."""

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest, self._last = first, longest, 0.0

    def next(self, cap: float | None = None) -> float:
        """Return the pause before the next try; `cap`: the longest that this one may be, in place of the usual one."""
        self._last = min(max(2 * self._last, self._first), cap or self._longest)
        return self._last

    def reset(self) -> None:
        """Begin with the first pause again, after a try that succeeded."""
        self._last = 0.0


def ago(seconds: float) -> str:
    """Format the time since something in words: `just now`, `3 min ago`, `2 h ago`, `5 days ago`."""
    return f"{span(seconds)} ago" if seconds >= MINUTE else "just now"


def span(seconds: float) -> str:
    """Format a duration in the largest unit that fits: `12 s`, `3 min`, `2 h`, `5 days`."""
    for size, unit in ((86_400, "day"), (3_600, "h"), (MINUTE, "min")):
        if (number := int(seconds // size)) > 0:
            return f"{number} {unit}{'s' if unit == 'day' and number > 1 else ''}"
    return f"{max(0, int(seconds))} s"
