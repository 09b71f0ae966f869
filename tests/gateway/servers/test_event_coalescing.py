"""Texts that go out together, and everything else that does not wait for them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.common.core.events import Outcome, StreamRestarted, TextStreamed, ThinkingStreamed, TurnEvent, TurnFinished
from goclaw.common.core.replay_buffer import Numbered
from goclaw.gateway.servers import event_coalescing
from goclaw.gateway.servers.event_coalescing import MAX_WAITING, join, open_gathering

PATIENCE = 15.0
FINISHED = TurnFinished("t", "s", Outcome.ANSWERED, "")


class Source:
    """Events as a test lets them come."""

    def __init__(self, *events: TurnEvent) -> None:
        self.queue: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        self.taken = 0
        self.many = asyncio.Event()
        for event in events:
            self.queue.put_nowait(event)

    async def events(self) -> AsyncIterator[Numbered]:
        while (event := await self.queue.get()) is not None:
            self.taken += 1
            if self.taken == MAX_WAITING:
                self.many.set()
            yield Numbered(self.taken, event, float(self.taken))


def text(words: str, turn: str = "t") -> TextStreamed:
    return TextStreamed(turn, "s", words)


async def test_texts_that_wait_together_go_out_as_one_in_their_order() -> None:
    source = Source(text("a"), text("b"), ThinkingStreamed("t", "s", "hm"), text("c"), text("d", "other"), FINISHED)
    source.queue.put_nowait(None)
    async with asyncio.timeout(PATIENCE), open_gathering(source.events()) as gathered:
        found = [event async for _, event, _ in gathered]
    assert "".join(event.text for event in found if isinstance(event, TextStreamed)) == "abcd"
    assert found[-1] == FINISHED
    assert ThinkingStreamed("t", "s", "hm") in found


async def test_what_is_no_text_does_not_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_coalescing, "MOMENT_SECONDS", 600.0)
    source = Source(text("a"))
    async with asyncio.timeout(PATIENCE), open_gathering(source.events()) as gathered:
        assert await anext(gathered) == (1, text("a"), 1.0)
        source.queue.put_nowait(text("b"))
        source.queue.put_nowait(text("c"))
        source.queue.put_nowait(FINISHED)
        assert [await anext(gathered), await anext(gathered)] == [(3, text("bc"), 2.0), (4, FINISHED, 4.0)]


async def test_a_slow_reader_leaves_what_is_too_much_at_the_source() -> None:
    source = Source(*(text(str(number)) for number in range(3 * MAX_WAITING)))
    source.queue.put_nowait(None)
    async with asyncio.timeout(PATIENCE), open_gathering(source.events()) as gathered:
        await source.many.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert source.taken <= MAX_WAITING + 1
        words = "".join([event.text async for _, event, _ in gathered if isinstance(event, TextStreamed)])
    assert words == "".join(map(str, range(3 * MAX_WAITING)))


@given(
    st.lists(
        st.one_of(
            st.builds(text, st.text(max_size=3), st.sampled_from("tu")),
            st.builds(ThinkingStreamed, st.sampled_from("tu"), st.just("s"), st.text(max_size=3)),
            st.builds(StreamRestarted, st.sampled_from("tu"), st.just("s"), st.just("cut")),
        )
    )
)
def test_joining_keeps_every_letter_and_every_other_event_in_its_place(events: list[TurnEvent]) -> None:
    def letters(of: list[TurnEvent]) -> list[object]:
        found: list[object] = []
        for event in of:
            if isinstance(event, TextStreamed | ThinkingStreamed):
                found += [(type(event), event.turn, letter) for letter in event.text]
            else:
                found.append(event)
        return found

    found = list(join(Numbered(number, event) for number, event in enumerate(events, 1)))
    assert letters([event for _, event, _ in found]) == letters(events)
    numbers = [number for number, *_ in found]
    assert numbers == sorted(set(numbers)), "they grow"
    for number, event, _ in found:
        assert letters(events[:number])[-1:] == letters([event])[-1:] or not letters([event]), (
            "that of the last of them"
        )
    assert not events or numbers[-1] == len(events)
