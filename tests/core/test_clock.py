"""The pauses between tries."""

from goclaw.core.clock import Backoff


def test_a_pause_doubles_up_to_the_longest_one() -> None:
    backoff = Backoff(first=0.5, longest=3.0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_it_begins_with_the_first_pause_again_after_a_success() -> None:
    backoff = Backoff(first=1.0, longest=60.0)
    assert [backoff.next(), backoff.next()] == [1.0, 2.0]
    backoff.reset()
    assert [backoff.next(), backoff.next()] == [1.0, 2.0]


def test_a_cap_takes_the_place_of_the_longest_pause_once_and_the_next_one_doubles_it() -> None:
    backoff = Backoff(first=8.0, longest=30.0)
    assert [backoff.next(), backoff.next(cap=10.0), backoff.next(), backoff.next()] == [8.0, 10.0, 20.0, 30.0]
    assert [backoff.next(cap=60.0), backoff.next()] == [60.0, 30.0]
