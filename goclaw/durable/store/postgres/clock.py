"""The clock of the database as the wall clock of a process: the same for all that share a schema.

Machines' clocks may be an hour apart, and are set. Times that processes compare with each other's stamps (ages,
schedules, retention, ends) are by the one clock that all of them see. Each process measures spans by its own.
"""

from collections.abc import Callable

from goclaw.common.core.clock import Clock, Timer


class DatabaseClock:
    """Implements `core.clock.Clock`. Between two looks at the database its time goes on with the machine's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead: float | None = None
        """Seconds of the database's wall clock when the machine's own, which cannot be set, was 0."""

    def update(self, at: float, asked: float) -> None:
        """Update the estimate by a reading of the database's clock.

        Args:
            at: its time, in seconds since the epoch.
            asked: `awake_or_not` of this clock when it was asked; the answer has just arrived.
        """
        answered = self._clock.awake_or_not()
        doubt = (answered - asked) / 2
        ahead = at - (asked + doubt)
        # An answer that was long on its way says less than what is known already.
        if self._ahead is None or abs(ahead - self._ahead) > doubt:
            self._ahead = ahead

    def now(self) -> float:
        return self._clock.now() if self._ahead is None else self._clock.awake_or_not() + self._ahead

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def awake_or_not(self) -> float:
        return self._clock.awake_or_not()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self._clock.later(seconds, call)
