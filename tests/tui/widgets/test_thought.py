"""Thinking on the screen: its last lines while it goes on, a line with its time afterwards."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.clock import SteppedClock
from goclaw.events import Outcome, StreamRestarted, TurnFinished
from goclaw.tui.widgets.thought import Thought
from tests.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Stage


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def stage(tmp_path: Path, clock: SteppedClock) -> Stage:
    return Stage(tmp_path, clock)


@pytest.fixture
async def daemon(stage: Stage) -> AsyncIterator[FakeGateway]:
    async with stage.daemon() as gateway:
        yield gateway


LONG = [f"thought number {number}\n" for number in range(40)]


async def test_thinking_is_folded_to_its_last_lines_and_opens_with_the_tool_cards(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.terminal((80, 60)) as screen:
        daemon.begin("t1", "think")
        daemon.think("t1", *LONG)
        text = await screen.until("thought number 39")
        assert "thinking · Esc stops" in text and "thought number 38" in text and "thought number 37" not in text
        assert "thought number 2" in await screen.press("ctrl+o")
        assert "thought number 2\n" not in await screen.press("ctrl+o")


async def test_when_the_answer_begins_a_line_with_the_time_is_left_that_opens(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal((80, 60)) as screen:
        daemon.begin("t1", "think")
        daemon.think("t1", *LONG)
        await screen.until("thought number 39")
        clock.advance(12)
        await screen.until("thinking 12 s")
        daemon.stream("t1", "The answer.")
        text = await screen.until("The answer.")
        assert "thought for 12 s" in text and "thought number" not in text
        daemon.answer("t1", "The answer.")
        await screen.until("working", gone=True)
        assert "thought number 7" in await screen.press("ctrl+o")
        assert screen.terminal.query_one(Thought).source == "".join(LONG)


async def test_a_thought_that_goes_on_after_words_goes_on_in_its_place(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "think")
        daemon.think("t1", "First.")
        await screen.until("First.")
        clock.advance(2)
        daemon.stream("t1", "So far")
        await screen.until("thought for 2 s")
        clock.advance(100)
        daemon.think("t1", " Then.")
        text = await screen.until("First. Then.")
        assert text.index("First. Then.") < text.index("So far")
        clock.advance(3)
        daemon.stream("t1", ", so good")
        await screen.until("thought for 5 s")
        await screen.until("So far, so good")


@pytest.mark.parametrize("ends", ["restart", "stop", "calls"])
async def test_thinking_without_an_answer(daemon: FakeGateway, stage: Stage, ends: str) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "think")
        daemon.think("t1", "A beginning")
        await screen.until("A beginning")
        if ends == "restart":
            daemon.bus.publish(StreamRestarted("t1", SESSION, "the connection broke"))
            daemon.think("t1", "Anew")
            text = await screen.until("Anew")
            assert text.count("\n  thinking") + text.count("  thinking ") == 1
        elif ends == "stop":
            daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.STOPPED, "Stopped."))
            text = await screen.until("Stopped.")
            assert "thought" in text
        else:
            daemon.answer("t1", "Words of another kind.")
            await screen.until("thought")
        await screen.until("A beginning", gone=True)


async def test_after_a_break_the_thinking_that_goes_on_is_there_once(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            daemon.begin("t1", "think")
            daemon.think("t1", "Hm, ")
            terminal = stage.terminal()
            screen = await terminal.__aenter__()
            await screen.until("Hm,")
        await screen.until("reconnecting")
        daemon.think("t1", "well")
        async with stage.daemon() as daemon:
            text = await screen.until("Hm, well")
            assert text.count("Hm,") == 1 and "thinking · Esc stops" in text
            daemon.stream("t1", "Yes.")
            await screen.until("Hm,", gone=True)
            assert "thought" in screen.text() and len(screen.terminal.query(Thought)) == 1
            await terminal.__aexit__(None, None, None)


async def test_a_long_paragraph_of_thinking_ends_on_the_screen_as_it_ends(daemon: FakeGateway, stage: Stage) -> None:
    words = [f"word{number} " for number in range(2_000)]
    async with stage.terminal() as screen:
        daemon.begin("t1", "think")
        for at in range(0, len(words), 100):
            daemon.think("t1", *words[at : at + 100])
            await screen.pilot.pause()
        await screen.until("word1999")
        assert screen.terminal.query_one(Thought).source == "".join(words)
        assert screen.terminal.query_one(Thought).size.height == 3
