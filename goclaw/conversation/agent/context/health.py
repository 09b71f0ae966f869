"""The health of summaries: after a few consecutive failures the summary chain is paused for a while.

Then one trial is let through: if it works all is well again, else the chain is paused for as long once more. The
numbers are `compaction.failure_threshold` and `compaction.reset_minutes`, which `/status` shows.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from goclaw.common.core.clock import Clock

FAILURE_THRESHOLD = 3
RESET_MINUTES = 30.0


class Trouble(IntEnum):
    """The trouble with summaries. People are informed when it gets worse, and when all is well again."""

    NONE = 0
    FAILING = 1
    """The chain gave none this time, the main model did."""
    GIVEN_UP = 2
    """The chain is left alone for a while."""
    NOBODY = 3
    """None could be written: it follows later."""


@dataclass(slots=True)
class CompactionHealth:
    """Counts failures of the summary chain, over restarts (`state`, `restore`)."""

    clock: Clock
    threshold: int = FAILURE_THRESHOLD
    reset_minutes: float = RESET_MINUTES
    failures: int = 0
    last_attempt: float | None = None
    """When a model was last asked for a summary, in seconds since the epoch; None: never."""
    reason: str = ""
    """Why the chain's latest attempt failed, for people; empty: it did not."""
    told: Trouble = Trouble.NONE
    """The trouble that people were last informed of."""
    _failed_at: float | None = None
    _trial: bool = False

    @property
    def degraded(self) -> bool:
        """The summary chain is passed over."""
        return self.failures >= self.threshold and self.reset_in > 0

    @property
    def counted(self) -> int:
        """The failures to show to people: 0 once the pause is over, whatever the trial will bring."""
        return self.failures if self.failures < self.threshold or self.degraded else 0

    @property
    def reset_in(self) -> float:
        """Seconds until the summary chain is tried again."""
        if self._failed_at is None or self.failures < self.threshold:
            return 0.0
        span = self.reset_minutes * 60
        # A clock that was set back must not lock the chain out for longer than it ever would be.
        return min(span, max(0.0, self._failed_at + span - self.clock.now()))

    def admit(self) -> bool:
        """Whether the chain may be asked now; after a rest only one trial at a time. `release` ends an attempt."""
        if self.degraded or (self.failures >= self.threshold and self._trial):
            return False
        self._trial = self.failures >= self.threshold
        return True

    def release(self) -> None:
        """An attempt that was admitted is over, recorded or not."""
        self._trial = False

    def record_request(self) -> None:
        """Note that a model was asked, the chain or the main one."""
        self.last_attempt = self.clock.now()

    def record(self, *, worked: bool, reason: str = "") -> None:
        """Count one attempt of the summary chain."""
        self.record_request()
        self.failures = 0 if worked else min(self.failures + 1, self.threshold)
        self._failed_at = None if worked else self.last_attempt
        self.reason = "" if worked else reason

    def state(self) -> dict[str, Any]:
        """Return the state that outlives a restart, as JSON data."""
        return {
            "failures": self.failures,
            "failed_at": self._failed_at,
            "last_attempt": self.last_attempt,
            "reason": self.reason,
            "told": int(self.told),
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Go on where an earlier run was."""
        if state:
            self.failures = min(int(state["failures"]), self.threshold)
            self.last_attempt, self.reason = state["last_attempt"], state["reason"]
            self._failed_at = state.get("failed_at", self.last_attempt)
            self.told = Trouble(state.get("told", Trouble.NONE))
