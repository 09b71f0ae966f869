"""Thinking on the screen: its last lines while it goes on, a line with its time afterwards."""

import asyncio

import pytest

from goclaw.clients.tui.widgets.stream import Thought
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Outcome, StreamRestarted, TurnFinished
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Stage

LONG = [f"thought number {number}\n" for number in range(40)]


async def test_thinking_is_folded_to_its_last_lines_and_opens_with_the_tool_cards(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "think")
        daemon.think("t1", *LONG)
        text = await client.until("thought number 39")
        assert "thinking · Esc stops" in text and "thought number 38" in text and "thought number 37" not in text
        client.conversation.fold()
        assert "thought number 2\n" in client.text()
        client.conversation.fold()
        assert "thought number 2\n" not in client.text()


async def test_when_the_answer_begins_a_line_with_the_time_is_left_that_opens(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "think")
        daemon.think("t1", *LONG)
        await client.until("thought number 39")
        clock.advance(12)
        client.tick()
        assert "thinking 12 s" in client.text()
        daemon.stream("t1", "The answer.")
        text = await client.until("The answer.")
        assert "thought for 12 s" in text and "thought number" not in text
        daemon.answer("t1", "The answer.")
        await client.until("working", gone=True)
        client.conversation.fold()
        assert "thought number 7" in client.text()
        assert [entry.source for entry in client.view.entries if isinstance(entry, Thought)] == ["".join(LONG)]


async def test_a_thought_that_goes_on_after_words_goes_on_in_its_place(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "think")
        daemon.think("t1", "First.")
        await client.until("First.")
        clock.advance(2)
        daemon.stream("t1", "So far")
        await client.until("thought for 2 s")
        clock.advance(100)
        daemon.think("t1", " Then.")
        text = await client.until("First. Then.")
        assert text.index("First. Then.") < text.index("So far")
        clock.advance(3)
        daemon.stream("t1", ", so good")
        await client.until("thought for 5 s")
        await client.until("So far, so good")


@pytest.mark.parametrize("ends", ["restart", "stop", "calls"])
async def test_thinking_without_an_answer(daemon: FakeGateway, stage: Stage, ends: str) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "think")
        daemon.think("t1", "A beginning")
        await client.until("A beginning")
        if ends == "restart":
            daemon.bus.publish(StreamRestarted("t1", SESSION, "the connection broke"))
            daemon.think("t1", "Anew")
            await client.until("Anew")
            assert client.said(Thought) == ["thinking\nAnew"]
        elif ends == "stop":
            daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.STOPPED, "Stopped."))
            text = await client.until("Stopped.")
            assert "thought" in text
        else:
            daemon.answer("t1", "Words of another kind.")
            await client.until("thought")
        await client.until("A beginning", gone=True)


async def test_after_a_break_the_thinking_that_goes_on_is_there_once(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            daemon.begin("t1", "think")
            daemon.think("t1", "Hm, ")
            opened = stage.unseen()
            client = await opened.__aenter__()
            await client.until("Hm,")
        await client.until("reconnecting")
        daemon.think("t1", "well")
        async with stage.daemon() as daemon:
            text = await client.until("Hm, well")
            assert text.count("Hm,") == 1 and "thinking · Esc stops" in text
            daemon.stream("t1", "Yes.")
            await client.until("Hm,", gone=True)
            assert client.said(Thought) == ["thought"]
            await opened.__aexit__(None, None, None)


@pytest.mark.screen
async def test_a_long_paragraph_of_thinking_ends_on_the_screen_as_it_ends_and_a_click_opens_it(
    daemon: FakeGateway, stage: Stage
) -> None:
    words = [f"word{number} " for number in range(2_000)]
    async with stage.terminal() as screen:
        daemon.begin("t1", "think")
        for at in range(0, len(words), 100):
            daemon.think("t1", *words[at : at + 100])
            await screen.pilot.pause()
        await screen.until("word1999")
        thought = screen.terminal.query_one(Thought)
        assert thought.source == "".join(words)
        assert thought.size.height == 3
        await screen.pilot.click(Thought, offset=(2, 0))
        await screen.pilot.pause()
        assert thought.size.height > 100
