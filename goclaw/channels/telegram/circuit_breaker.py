"""A circuit breaker: pauses calls that fail repeatedly, and tries them again later. Nothing is given up for good."""

from goclaw.clock import Clock

FAILURES = 3
"""Consecutive failures: a single one may be an accident."""
PAUSE_SECONDS = 60.0


class CircuitBreaker:
    """A circuit breaker that opens after three consecutive failures for 60 s. Do not report rate-limit responses."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0

    def wait(self) -> float:
        """Return the seconds until it is open again; 0 where it is."""
        return max(0.0, self._until - self._clock.monotonic())

    def worked(self) -> None:
        """A try went well."""
        self._failures = 0

    def failed(self) -> None:
        """A try went wrong."""
        self._failures += 1
        if self._failures >= FAILURES:
            self.shut(PAUSE_SECONDS)

    def shut(self, seconds: float) -> None:
        """Do not try for so long."""
        self._failures = 0
        self._until = self._clock.monotonic() + seconds
