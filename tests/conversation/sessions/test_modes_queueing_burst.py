"""What comes right behind a message joins its turn, and the request in flight is repeated with it."""

from dataclasses import replace

import pytest

from goclaw.common.core.events import Actor, Address, Inbound
from goclaw.conversation.sessions.modes import BURST_SECONDS, MAX_JOINED, burst

ANN = Actor("telegram:5", "telegram")
FIRST = Inbound("m0", ANN, "telegram:5", "one", Address("telegram", "5"), 100.0)


class Waiting:
    """What is asked of a turn here: the message that it is about, and what waits behind it."""

    def __init__(self, *behind: Inbound) -> None:
        self.inbound = FIRST
        self._behind = behind

    def followers(self, *, past_others: bool) -> tuple[Inbound, ...]:
        assert not past_others, "nobody is overtaken"
        return self._behind


def later(number: int, seconds: float) -> Inbound:
    return replace(FIRST, id=f"m{number}", received_at=FIRST.received_at + seconds)


@pytest.mark.parametrize(("seconds", "joins"), [(0.0, True), (BURST_SECONDS, True), (1.1, False), (-5.0, False)])
def test_only_what_comes_within_a_second_goes_on_with_a_message(seconds: float, joins: bool) -> None:
    turn = Waiting(later(1, seconds))
    assert bool(burst(turn, ())) is joins  # type: ignore[arg-type]  # the part of a turn that is asked


def test_what_was_sent_apart_and_came_together_is_answered_apart() -> None:
    """After a time without the daemon everything comes at once."""
    sent = replace(FIRST, sent_at=50.0)
    turn = Waiting(replace(later(1, 0.1), sent_at=60.0))
    turn.inbound = sent
    assert burst(turn, ()) == []  # type: ignore[arg-type]  # see above


def test_the_second_counts_from_what_joined_last_and_three_join_at_most() -> None:
    joined = [later(number, number * 0.9) for number in range(1, MAX_JOINED + 1)]
    turn = Waiting(later(9, MAX_JOINED * 0.9 + 0.5))
    assert burst(turn, joined[:2]) == []  # type: ignore[arg-type]  # see above
    assert burst(Waiting(later(3, 2.7)), joined[:2])  # type: ignore[arg-type]  # see above
    assert burst(turn, joined) == []  # type: ignore[arg-type]  # see above
