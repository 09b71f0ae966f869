"""What comes from the daemon, in whatever order and after whatever break."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.clock import SteppedClock
from goclaw.events import LOCAL, Address, Notice, Outcome, ToolStarted, TurnFinished, TurnStarted
from goclaw.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
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


async def test_a_turn_that_runs_already_has_its_true_age(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    daemon.begin("t1", "a long task")
    clock.advance(185)
    async with stage.terminal() as screen:
        await screen.until("3 min 05 s")
        daemon.answer("t1", "done")
        await screen.until("min", gone=True)


async def test_the_time_of_a_tool_of_the_past_is_about_what_lies_between_its_rows(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    daemon.store("t1", AssistantMessage("", (ToolCall("a", "exec", {"command": "slow"}),)))
    clock.advance(14.4)
    daemon.store("t1", ToolResult("a", "exec", "out"))
    daemon.store("t1", AssistantMessage("", (ToolCall("a", "exec", {"command": "quick"}),)))
    clock.advance(0.6)
    daemon.store("t1", ToolResult("a", "exec", "out"))
    async with stage.terminal() as screen:
        text = await screen.until("quick")
    assert "✓ exec  slow  ~14 s" in text and "✓ exec  quick\n" in "\n".join(
        line.strip(" │") for line in text.splitlines()
    )


async def test_older_rows_are_fetched_from_before_the_oldest_and_find_their_results(
    daemon: FakeGateway, stage: Stage
) -> None:
    calls = tuple(ToolCall(f"c{number}", "exec", {"command": f"call <{number}>"}) for number in range(40))
    daemon.store("t1", UserMessage("do forty things"))
    daemon.store("t1", AssistantMessage("I will.", calls))
    for call in calls:
        daemon.store("t1", ToolResult(call.id, "exec", f"result of {call.id}"))
    daemon.store("t1", AssistantMessage("All done."))
    async with stage.terminal((100, 100)) as screen:
        await screen.until("call <30>")
        while "do forty things" not in screen.text():
            await screen.press("pageup")
        cards = [str(card.render()) for card in screen.terminal.query("ToolCard")]
    assert len(cards) == 40
    assert all(card.startswith("✓ exec") and f"result of c{number}" in card for number, card in enumerate(cards))


async def test_older_rows_of_a_turn_that_runs_get_their_results_when_those_come(
    daemon: FakeGateway, stage: Stage
) -> None:
    daemon.begin("t1", "do it")
    daemon.answer("t1", "I will.", ToolCall("c1", "exec", {"command": "the call"}))
    for number in range(40):
        daemon.store("t1", UserMessage(f"message <{number}>"))
    async with stage.terminal() as screen:
        await screen.until("message <39>")
        while "the call" not in screen.text():
            await screen.press("pageup")
        assert "● exec  the call" in screen.text()
        daemon.tell("t1", ToolResult("c1", "exec", "its result"))
        await screen.until("✓ exec  the call")


async def test_older_rows_can_be_asked_for_again_after_a_break(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            for number in range(60):
                daemon.store("t1", UserMessage(f"message <{number}>"))
            terminal = stage.terminal()
            screen = await terminal.__aenter__()
        await screen.until("reconnecting")
        for _ in range(12):
            await screen.press("pageup")
        async with stage.daemon():
            await screen.until("connected")
            while "message <0>" not in screen.text():
                await screen.press("pagedown", "pageup")
                await screen.press("pageup")
            said = [str(entry.render()) for entry in screen.terminal.query("Said")]
            await terminal.__aexit__(None, None, None)
    assert said == [f"message <{number}>" for number in range(60)]


async def test_what_a_turn_without_rows_says_stands_below_the_message_that_asked_for_it(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with asyncio.timeout(PATIENCE), stage.terminal((100, 40)) as screen:
        await screen.type("compact it")
        await screen.press("enter")
        while not daemon.heard:
            await screen.pilot.pause()
        turn = daemon.heard[0].id
        daemon.bus.publish(TurnStarted(turn, SESSION, Address(LOCAL, SESSION)))
        daemon.bus.publish(Notice(SESSION, "making room", turn))
        daemon.bus.publish(TurnFinished(turn, SESSION, Outcome.ANSWERED, "there is room"))
        await screen.until("there is room")
        daemon.begin("t2", "the next one")
        daemon.answer("t2", "the next answer")
        text = await screen.until("the next answer")
        assert not screen.terminal.query(".-waiting"), "it waits no more"
    order = ("compact it", "making room", "there is room", "the next one", "the next answer")
    places = [text.find(words) for words in order]
    assert -1 not in places and places == sorted(places), text


async def test_while_the_daemon_is_out_of_reach_no_key_is_offered_but_what_helps(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            terminal = stage.terminal()
            screen = await terminal.__aenter__()
            daemon.begin("t1", "a long task")
            await screen.until("Esc stops")
        text = await screen.until("`goclaw start` starts it")
        assert "Esc stops" not in text
        async with stage.daemon():
            await screen.until("`goclaw start` starts it", gone=True)
            await terminal.__aexit__(None, None, None)


async def test_a_message_that_is_refused_comes_back_to_the_input_and_the_next_one_goes_on(
    daemon: FakeGateway, stage: Stage
) -> None:
    daemon.refuses.add("too many")
    async with stage.terminal() as screen:
        await screen.type("too many")
        await screen.press("enter")
        text = await screen.until("Not taken: no room for more")
        assert text.count("too many") == 2, "above, where it was refused, and in the input"
        await screen.type(" or few")
        await screen.press("enter")
        async with asyncio.timeout(PATIENCE):
            while not daemon.heard:
                await screen.pilot.pause()
    assert [heard.text for heard in daemon.heard] == ["too many or few"]


async def test_a_session_that_is_forgotten_begins_anew_and_says_so(daemon: FakeGateway, stage: Stage) -> None:
    for number in range(40):
        daemon.store("t1", UserMessage(f"message <{number}>"))
    async with stage.terminal() as screen:
        await screen.until("message <39>")
        daemon.begin("t2", "forget it")
        daemon.stream("t2", "Half an")
        daemon.bus.publish(ToolStarted("t2", SESSION, "c1", "exec", {}))
        await screen.until("exec")
        daemon.forget()
        text = await screen.until("This session was forgotten")
        assert "message" not in text.replace("Write a message", "") and "Half an" not in text and "exec" not in text
        daemon.begin("t3", "a new beginning")
        daemon.answer("t3", "Hello.")
        text = await screen.until("Hello.")
        assert "a new beginning" in text and "message <" not in text, text


async def test_after_it_was_forgotten_a_break_brings_what_was_said_since(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            for number in range(5):
                daemon.store("t1", UserMessage(f"message <{number}>"))
            terminal = stage.terminal()
            screen = await terminal.__aenter__()
            await screen.until("message <4>")
            daemon.forget()
            await screen.until("This session was forgotten")
        await screen.until("reconnecting")
        daemon.store("t2", UserMessage("a new beginning"))
        async with stage.daemon():
            await screen.until("a new beginning")
            await terminal.__aexit__(None, None, None)


async def test_a_turn_from_telegram_is_mirrored_live_in_two_clients(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal((100, 40)) as first, stage.terminal((100, 40)) as second:
        turn, call = "telegram:1", ToolCall("c1", "read", {"path": "notes.txt"})
        daemon.begin(turn, "from my phone", sender="telegram:5")
        daemon.think(turn, "Let me see")
        for screen in (first, second):
            await screen.until("Let me see")
        daemon.answer(turn, "I look.", call)
        daemon.bus.publish(ToolStarted(turn, SESSION, "c1", "read", call.input))
        daemon.tell(turn, ToolResult("c1", "read", "the notes"))
        daemon.stream(turn, "They say")
        for screen in (first, second):
            await screen.until("They say")
        daemon.answer(turn, "They say hello.")
        seen = [await screen.until("They say hello.") for screen in (first, second)]
    for text in seen:
        for words in ("telegram:5", "from my phone", "I look.", "✓ read", "the notes", "They say hello."):
            assert text.count(words) == 1, text
