"""Three failures in a row, and the summary chain is left alone for thirty minutes."""

from goclaw.common.core.clock import SteppedClock
from goclaw.conversation.compaction.summaries import FAILURE_THRESHOLD, RESET_MINUTES, CompactionHealth


def failed(clock: SteppedClock, times: int) -> CompactionHealth:
    health = CompactionHealth(clock)
    for _ in range(times):
        health.record(worked=False)
    return health


def test_the_numbers_are_those_of_status() -> None:
    assert (FAILURE_THRESHOLD, RESET_MINUTES) == (3, 30)


def test_two_failures_are_not_enough(clock: SteppedClock) -> None:
    health = failed(clock, 2)
    assert (health.degraded, health.failures, health.reset_in) == (False, 2, 0.0)


def test_the_third_failure_sets_it_aside_for_half_an_hour(clock: SteppedClock) -> None:
    health = failed(clock, 3)
    assert (health.degraded, health.reset_in) == (True, 1_800.0)
    clock.advance(1_799)
    assert health.degraded
    clock.advance(1)
    assert not health.degraded


def test_one_more_failure_after_that_sets_it_aside_again(clock: SteppedClock) -> None:
    health = failed(clock, 3)
    clock.advance(1_800)
    health.record(worked=False)
    assert (health.degraded, health.failures) == (True, 3)


def test_a_success_forgets_all_failures(clock: SteppedClock) -> None:
    health = failed(clock, 2)
    health.record(worked=True)
    assert health.failures == 0
    assert health.last_attempt == clock.now()
