"""Events reach everyone who watches; whoever lags too far behind is cut off, nobody is waited for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from goclaw import bus as bus_module
from goclaw.bus import Bus
from goclaw.clock import SteppedClock
from goclaw.events import (
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
from goclaw.messages import AssistantMessage


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


async def test_who_lags_too_far_behind_is_cut_off_and_the_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "BACKLOG", 3)
    bus = Bus(SteppedClock())
    async with bus.subscribe("s") as slow, bus.subscribe("s") as quick:
        for number in range(5):
            bus.publish(text(str(number)))
            assert await take(quick, 1) == [text(str(number))]
        assert [event async for event in slow] == [text("0"), text("1"), text("2")]


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
