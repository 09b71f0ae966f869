"""What is kept of a session's events: what some client has not acknowledged, within bounds, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.core import replay_buffer as replay_buffer_module
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import MessageStored, Notice, TextStreamed, ToolFinished
from goclaw.common.core.messages import AssistantMessage, ToolResult
from goclaw.common.core.replay_buffer import AWAY_SECONDS, NOWHERE, Numbered, Position, ReplayBuffer


def numbers(missed: list[Numbered] | None) -> list[int] | None:
    return None if missed is None else [numbered.number for numbered in missed]


def add(past: ReplayBuffer, count: int) -> None:
    for _ in range(count):
        past.add(Notice("s", "something"))


def test_events_are_numbered_and_whoever_says_the_last_one_gets_the_others() -> None:
    past = ReplayBuffer(SteppedClock())
    epoch = past.end.epoch
    past.enter("me", past.end)
    add(past, 3)
    assert past.end == Position(epoch, 3)
    assert [numbers(past.since(Position(epoch, number))) for number in range(5)] == [[1, 2, 3], [2, 3], [3], [], None]


def test_another_count_says_nothing() -> None:
    past = ReplayBuffer(SteppedClock())
    past.enter("me", past.end)
    assert past.since(NOWHERE) is None and past.since(Position("elsewhere", 0)) is None


def test_what_all_clients_have_shown_is_kept_no_longer() -> None:
    past = ReplayBuffer(SteppedClock())
    epoch = past.end.epoch
    for client in ("quick", "slow"):
        past.enter(client, past.end)
    add(past, 5)
    past.acknowledge("quick", 5)
    assert numbers(past.since(Position(epoch, 0))) == [1, 2, 3, 4, 5]
    past.acknowledge("slow", 3)
    assert past.since(Position(epoch, 2)) is None and numbers(past.since(Position(epoch, 3))) == [4, 5]
    past.acknowledge("slow", 2)
    past.acknowledge("slow", 99)
    past.acknowledge("nobody", 5)
    assert numbers(past.since(Position(epoch, 3))) == [4, 5], "no way back, nor to what has not happened"


def test_a_client_that_stays_away_is_waited_for_so_long_and_no_longer() -> None:
    past = ReplayBuffer(clock := SteppedClock())
    past.leave("me", past.enter("me", past.end))
    add(past, 2)
    clock.advance(AWAY_SECONDS - 1)
    assert not past.is_over()
    clock.advance(2)
    assert past.is_over() and past.since(Position(past.end.epoch, 0)) is None


def test_an_earlier_connection_that_ends_late_does_not_take_the_client_away() -> None:
    past = ReplayBuffer(clock := SteppedClock())
    first = past.enter("me", past.end)
    past.enter("me", past.end)
    past.leave("me", first)
    clock.advance(AWAY_SECONDS + 1)
    assert not past.is_over()


def test_a_client_that_is_there_is_not_forgotten_however_long_nothing_happens() -> None:
    past = ReplayBuffer(clock := SteppedClock())
    past.enter("me", past.end)
    clock.advance(100 * AWAY_SECONDS)
    assert not past.is_over()


@pytest.mark.parametrize(
    "event",
    [
        TextStreamed("t", "s", "x" * 40),
        ToolFinished("t", "s", "c", "read", "x" * 40, False, 1.0),
        MessageStored("t", "s", 1, AssistantMessage("x" * 40), 0.0),
        MessageStored("t", "s", 1, ToolResult("c", "read", "x" * 40), 0.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_long_texts_are_not_kept_without_end(event: TextStreamed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_buffer_module, "MAX_CHARACTERS", 100)
    past = ReplayBuffer(SteppedClock())
    past.enter("me", past.end)
    for _ in range(10):
        past.add(event)
    epoch = past.end.epoch
    assert numbers(past.since(Position(epoch, 8))) == [9, 10] and past.since(Position(epoch, 7)) is None


def test_nor_are_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_buffer_module, "MAX_EVENTS", 3)
    past = ReplayBuffer(SteppedClock())
    past.enter("me", past.end)
    add(past, 10)
    assert numbers(past.since(Position(past.end.epoch, 7))) == [8, 9, 10]
    assert past.since(Position(past.end.epoch, 6)) is None


@given(st.lists(st.tuples(st.sampled_from(["add", "back", "ack", "leave"]), st.sampled_from("ab"))))
def test_whoever_comes_back_within_the_bounds_gets_exactly_what_it_lacks(steps: list[tuple[str, str]]) -> None:
    past, happened = ReplayBuffer(SteppedClock()), 0
    seen: dict[str, int] = {}
    visits: dict[str, int] = {}
    for step, client in steps:
        if step == "add":
            past.add(Notice("s", "something"))
            happened += 1
        elif step == "ack" and client in seen:
            past.acknowledge(client, seen[client])
        elif step == "leave" and client in seen:
            past.leave(client, visits[client])
        elif step == "back":
            position = Position(past.end.epoch, seen[client]) if client in seen else past.end
            assert numbers(past.since(position)) == list(range(position.number + 1, happened + 1))
            visits[client] = past.enter(client, position)
            seen[client] = happened
