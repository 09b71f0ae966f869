"""What fails again and again is left alone, and not for ever."""

from goclaw.channels.telegram.rate_limits import FAILURES, PAUSE_SECONDS, CircuitBreaker
from goclaw.common.core.clock import SteppedClock


def test_only_failures_in_a_row_shut_it_and_it_opens_by_itself() -> None:
    clock = SteppedClock()
    breaker = CircuitBreaker(clock)
    for _ in range(5):
        for _ in range(FAILURES - 1):
            breaker.record_failure()
        breaker.record_success()
    assert breaker.wait() == 0
    for _ in range(FAILURES):
        breaker.record_failure()
    assert breaker.wait() == PAUSE_SECONDS
    clock.advance(PAUSE_SECONDS)
    assert breaker.wait() == 0
    breaker.record_failure()
    assert breaker.wait() == 0, "after the pause it has all its tries again"
