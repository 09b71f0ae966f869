"""Events reach everyone who watches; whoever lags too far behind is cut off, nobody is waited for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from goclaw.common.core import bus as bus_module
from goclaw.common.core.bus import Bus, Following
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    Address,
    MessageStored,
    Notice,
    Outcome,
    StreamRestarted,
    TextStreamed,
    TurnEvent,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.messages import AssistantMessage
from goclaw.common.core.replay_buffer import AWAY_SECONDS, NOWHERE, Position


def text(words: str, session: str = "s") -> TextStreamed:
    return TextStreamed("t", session, words)


async def take(events: AsyncIterator[TurnEvent], count: int) -> list[TurnEvent]:
    async with asyncio.timeout(10):
        return [await anext(events) for _ in range(count)]


async def test_subscribers_get_what_happens_from_now_on_in_order() -> None:
    bus = Bus(SteppedClock())
    bus.publish(text("before"))
    async with bus.subscribe("s") as mine, bus.subscribe(None) as everything, bus.subscribe("other") as other:
        bus.publish(text("one"))
        bus.publish(text("two", "other"))
        bus.publish(text("three"))
        assert await take(mine, 2) == [text("one"), text("three")]
        assert await take(everything, 3) == [text("one"), text("two", "other"), text("three")]
        assert await take(other, 1) == [text("two", "other")]


async def test_after_the_block_nothing_is_kept() -> None:
    bus = Bus(SteppedClock())
    async with bus.subscribe("s") as events:
        pass
    bus.publish(text("late"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await anext(events)


async def test_a_watcher_is_called_at_once_with_its_kind_alone_and_its_faults_are_the_log_s(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus, seen = Bus(SteppedClock()), list[TurnEvent]()

    def fails(event: Notice) -> None:
        raise ValueError("a fault of its own")

    bus.watch(Notice, fails)
    bus.watch(Notice, seen.append)
    bus.publish(text("one"))
    bus.publish(Notice("s", "two"))
    bus.publish(Notice("other", "three"))
    assert seen == [Notice("s", "two"), Notice("other", "three")]
    assert caplog.messages == ["a watcher of events failed"] * 2


async def test_who_lags_too_far_behind_is_cut_off_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "BACKLOG", 3)
    bus = Bus(SteppedClock())
    async with bus.subscribe("s") as slow, bus.subscribe("s") as quick:
        for number in range(5):
            bus.publish(text(str(number)))
            assert await take(quick, 1) == [text(str(number))]
        assert [event async for event in slow] == [text("0"), text("1"), text("2")]


Told = tuple[int, TurnEvent]


async def follow(bus: Bus, client: str, position: Position, count: int) -> tuple[Following, list[Told]]:
    """The first events for a client that comes, and goes again."""
    async with asyncio.timeout(10), bus.follow("s", client, position) as following:
        return following, [(await anext(following.events))[:2] for _ in range(count)]


async def test_a_client_that_was_away_goes_on_where_it_was() -> None:
    bus = Bus(SteppedClock())
    first, _ = await follow(bus, "me", NOWHERE, 0)
    assert not first.goes_on and first.position.epoch and first.position.number == 0
    for word in ("one", "two", "three"):
        bus.publish(text(word))
    bus.publish(text("elsewhere", "other"))
    back, events = await follow(bus, "me", Position(first.position.epoch, 1), 2)
    assert back.goes_on and events == [(2, text("two")), (3, text("three"))]
    async with bus.follow("s", "me", Position(first.position.epoch, 2)) as again:
        bus.publish(text("four"))
        async with asyncio.timeout(10):
            assert [(await anext(again.events))[:2] for _ in range(2)] == [(3, text("three")), (4, text("four"))]


@pytest.mark.parametrize("position", [NOWHERE, Position("of another run", 2), Position("", 2)])
async def test_who_was_elsewhere_begins_at_the_end(position: Position) -> None:
    bus = Bus(SteppedClock())
    await follow(bus, "somebody", NOWHERE, 0)
    bus.publish(text("one"))
    following, _ = await follow(bus, "me", position, 0)
    assert not following.goes_on and following.position.number == 1


async def test_who_tells_no_name_is_not_waited_for() -> None:
    bus = Bus(SteppedClock())
    async with asyncio.timeout(10), bus.follow("s") as following:
        bus.publish(text("one"))
        assert not following.goes_on and following.position == NOWHERE
        assert (await anext(following.events))[:2] == (0, text("one"))
    assert not bus._pasts


async def test_what_is_kept_for_a_client_goes_when_it_stays_away() -> None:
    bus = Bus(clock := SteppedClock())
    first, _ = await follow(bus, "me", NOWHERE, 0)
    bus.publish(text("one"))
    clock.advance(AWAY_SECONDS + 1)
    bus.publish(TurnStarted("u", "other", Address("local", "other")))
    assert not bus._pasts
    back, _ = await follow(bus, "me", first.position, 0)
    assert not back.goes_on


async def test_an_ended_subscription_hands_out_what_waits() -> None:
    bus = Bus(SteppedClock())
    async with asyncio.timeout(10), bus.follow("s", "me") as following:
        bus.publish(text("one"))
        following.end()
        assert [event async for _, event, _ in following.events] == [text("one")]


@pytest.mark.parametrize(
    "end",
    [
        MessageStored("t", "s", 1, AssistantMessage("one two"), 0.0),
        StreamRestarted("t", "s", "cut"),
        TurnFinished("t", "s", Outcome.STOPPED, ""),
        TurnStarted("u", "s", Address("local", "s")),
    ],
)
async def test_the_partial_answer_is_what_was_streamed_since(end: TurnEvent) -> None:
    bus = Bus(SteppedClock())
    assert bus.now("s").text == ""
    bus.publish(TurnStarted("t", "s", Address("local", "s")))
    bus.publish(TurnStarted("t", "other", Address("local", "other")))
    bus.publish(text("one "))
    bus.publish(Notice("s", "between"))
    bus.publish(text("two"))
    bus.publish(text("another", "other"))
    assert bus.now("s").text == "one two"
    bus.publish(end)
    assert bus.now("s").text == "" and bus.now("other").text == "another"
