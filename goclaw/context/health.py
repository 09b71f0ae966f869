"""How well summaries go: after a few failures in a row the summary chain is left alone for a while.

The numbers are those of `/status` (goclaw-facts, "Compaction"): three failures, thirty minutes.
"""

from dataclasses import dataclass, field

from goclaw.clock import Clock

FAILURE_THRESHOLD = 3
RESET_MINUTES = 30


@dataclass(slots=True)
class CompactionHealth:
    """Counts failures of the summary chain."""

    clock: Clock
    failures: int = 0
    last_attempt: float | None = field(default=None)
    """Seconds since the epoch; None: never."""

    @property
    def degraded(self) -> bool:
        """The summary chain is passed over."""
        return self.failures >= FAILURE_THRESHOLD and self.reset_in > 0

    @property
    def reset_in(self) -> float:
        """Seconds until the summary chain is tried again."""
        if self.last_attempt is None or self.failures < FAILURE_THRESHOLD:
            return 0.0
        return max(0.0, self.last_attempt + RESET_MINUTES * 60 - self.clock.now())

    def record(self, *, worked: bool) -> None:
        """Count one attempt of the summary chain."""
        self.last_attempt = self.clock.now()
        self.failures = 0 if worked else min(self.failures + 1, FAILURE_THRESHOLD)
