"""What comes from the daemon, in whatever order and after whatever break."""

import asyncio

import pytest

from goclaw.clients.tui.conversation import PAGE_KEY
from goclaw.clients.tui.incoming import JUST_CAME, MANY_PAGES, NO_PAGE, PAGE_SECONDS
from goclaw.clients.tui.widgets.entries import PageEntry, Said
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Outcome, ToolStarted, TurnFinished
from goclaw.common.core.messages import ToolCall, ToolResult, UserMessage
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Stage
from tests.clients.tui.unseen import fetch_all
from tests.harness import before_the_next_look


async def test_a_client_that_starts_without_a_daemon_attaches_and_sends_when_there_is_one(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE), stage.unseen() as client:
        await client.until("no daemon")
        await client.send("early bird")
        assert "1 not sent yet" in client.doing
        async with stage.daemon() as daemon:
            await client.until("● connected")
            while not daemon.heard:
                await before_the_next_look()
            assert [inbound.text for inbound in daemon.heard] == ["early bird"]


async def test_a_turn_that_runs_already_has_its_true_age(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    daemon.begin("t1", "a long task")
    clock.advance(185)
    async with stage.unseen() as client:
        await client.until("3 min 05 s")
        clock.advance(2)
        client.tick()
        await client.until("3 min 07 s")
        daemon.answer("t1", "done")
        await client.until("min", gone=True)


async def test_older_rows_come_once_and_can_be_asked_for_again_after_a_break(stage: Stage) -> None:
    for number in range(60):
        stage.gateway.store("t1", UserMessage(f"message <{number}>"))
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon():
            opened = stage.unseen()
            client = await opened.__aenter__()
        await client.until("reconnecting")
        client.incoming.fetch_older()
        assert client.view.has_older, "nobody was there to ask"
        async with stage.daemon():
            await client.until("connected")
            client.incoming.fetch_older()
            client.incoming.fetch_older()
            await fetch_all(client)
            said = client.said(Said)
            await opened.__aexit__(None, None, None)
    assert said == [f"message <{number}>" for number in range(60)]


async def test_while_the_daemon_is_out_of_reach_no_key_is_offered_but_what_helps(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            opened = stage.unseen()
            client = await opened.__aenter__()
            daemon.begin("t1", "a long task")
            await client.until("Esc stops")
        text = await client.until("`goclaw start` starts it")
        assert "Esc stops" not in text
        client.incoming.stop()
        assert client.link.unsent() == [], "nothing is stopped later that is not seen now"
        async with stage.daemon():
            await client.until("`goclaw start` starts it", gone=True)
            await opened.__aexit__(None, None, None)


async def test_a_key_stops_the_turn_that_runs_and_nothing_else(daemon: FakeGateway, stage: Stage) -> None:
    daemon.replies["/stop"] = "Stopped."
    async with stage.unseen() as client:
        client.incoming.stop()
        daemon.begin("t1", "a long task")
        await client.until("working")
        client.incoming.stop()
        async with asyncio.timeout(PATIENCE):
            while not daemon.heard:
                await before_the_next_look()
        daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.STOPPED, "Stopped."))
        text = await client.until("working", gone=True)
    assert [inbound.text for inbound in daemon.heard] == ["/stop"]
    assert text.count("Stopped.") == 1


async def test_a_message_that_is_refused_comes_back_to_the_input_and_the_next_one_goes_on(
    daemon: FakeGateway, stage: Stage
) -> None:
    daemon.refuses |= {"too many", "one more"}
    async with stage.unseen() as client:
        await client.send("too many")
        text = await client.until("Not accepted: no room for more")
        assert text.count("too many") == 2, "above, where it was refused, and in the input"
        await client.send("one more")
        client.type("a draft")
        async with asyncio.timeout(PATIENCE):
            while client.text().count("Not accepted") < 2:
                await before_the_next_look()
        assert client.prompt.text == "a draft", "what stands in the input stays"
        await client.send("few")
        async with asyncio.timeout(PATIENCE):
            while not daemon.heard:
                await before_the_next_look()
    assert [heard.text for heard in daemon.heard] == ["few"]


async def test_after_it_was_forgotten_a_break_brings_what_was_said_since(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            for number in range(5):
                daemon.store("t1", UserMessage(f"message <{number}>"))
            opened = stage.unseen()
            client = await opened.__aenter__()
            await client.until("message <4>")
            daemon.forget()
            await client.until("This session was deleted")
        await client.until("reconnecting")
        daemon.store("t2", UserMessage("a new beginning"))
        async with stage.daemon():
            await client.until("a new beginning")
            await opened.__aexit__(None, None, None)


@pytest.mark.promise("P-terminal-history")
async def test_a_turn_from_telegram_is_mirrored_live_in_two_clients(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as first, stage.unseen() as second:
        turn, call = "telegram:1", ToolCall("c1", "read", {"path": "notes.txt"})
        daemon.begin(turn, "from my phone", sender="telegram:5")
        daemon.think(turn, "Let me see")
        for client in (first, second):
            await client.until("Let me see")
        daemon.answer(turn, "I look.", call)
        daemon.bus.publish(ToolStarted(turn, SESSION, "c1", "read", call.input))
        daemon.tell(turn, ToolResult("c1", "read", "the notes"))
        daemon.stream(turn, "They say")
        async with stage.unseen() as third:
            for client in (first, second, third):
                await client.until("They say")
            daemon.answer(turn, "They say hello.")
            seen = [await client.until("They say hello.") for client in (first, second, third)]
    for text in seen:
        for words in ("telegram:5", "from my phone", "I look.", "✓ read", "the notes", "They say hello."):
            assert text.count(words) == 1, text


async def test_a_commands_page_is_shown_as_markdown_and_its_plain_lines_as_they_are(
    daemon: FakeGateway, stage: Stage
) -> None:
    daemon.replies = {"/tools": "**Shell**\n\n- `exec`: run it", "/status": "Session\n  Messages: 2 **bold**"}
    async with asyncio.timeout(PATIENCE), stage.unseen() as client:
        await client.until("● connected")
        await client.send("/tools")
        await client.until("run it")
        await client.send("/status")
        await client.until("Messages")
        assert [entry.source for entry in client.view.entries if isinstance(entry, PageEntry)] == [
            daemon.replies["/tools"]
        ]
        assert "  Messages: 2 **bold**" in client.lines


@pytest.mark.promise("P-web-login")
async def test_a_key_lets_in_the_page_that_asks_and_never_one_that_slips_in(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        assert await client.incoming.admit_page() == NO_PAGE
        daemon.bus.notice("A web page asks to sign in: Firefox on Linux at 127.0.0.1.", code="AAAA-2222")
        await client.until(f"Firefox on Linux at 127.0.0.1. {PAGE_KEY}")
        assert await client.incoming.admit_page() == JUST_CAME
        clock.advance(1)
        daemon.bus.notice("Another one asks.", code="BBBB-3333")
        await client.until("Another one asks.")
        clock.advance(1)
        assert await client.incoming.admit_page() == MANY_PAGES and daemon.heard == []
        clock.advance(PAGE_SECONDS - 1.5)
        assert await client.incoming.admit_page() == ""
        async with asyncio.timeout(PATIENCE):
            while not daemon.heard:
                await before_the_next_look()
        assert [inbound.text for inbound in daemon.heard] == ["/approve BBBB-3333"]
        assert await client.incoming.admit_page() == NO_PAGE, "once"
