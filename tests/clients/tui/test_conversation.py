"""What stands in the conversation, and in which order."""

import asyncio
from dataclasses import replace

import pytest

from goclaw.clients.tui.widgets.entries import AnswerEntry, Said
from goclaw.clients.tui.widgets.tool_cards import ToolCard
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import (
    LOCAL,
    Address,
    AgentProgress,
    Notice,
    Outcome,
    StreamRestarted,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tests.clients.tui.fake_daemon import SESSION, FakeGateway, Stage
from tests.clients.tui.unseen import fetch_all


def in_order(text: str, *words: str) -> bool:
    """Whether each of these stands there once, one below the other."""
    places = [text.index(each) for each in words]
    return places == sorted(places) and all(text.count(each) == 1 for each in words)


async def test_a_message_is_shown_once_and_what_was_streamed_becomes_its_answer(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        turn = await client.send("first line\nsecond line")
        daemon.begin(turn, "first line\nsecond line")
        daemon.stream(turn, "Grow", "ing")
        await client.until("Growing")
        daemon.answer(turn, "Growing **up**")
        text = await client.until("Growing up")
    assert in_order(text, "second line", "Growing")
    assert [inbound.text for inbound in daemon.heard] == ["first line\nsecond line"]


@pytest.mark.promise("P-terminal-history")
async def test_a_row_that_came_with_the_history_is_not_shown_again_as_an_event(
    daemon: FakeGateway, stage: Stage
) -> None:
    rows = [daemon.store("t1", UserMessage("once")), daemon.store("t1", AssistantMessage("and for all"))]
    async with stage.unseen() as client:
        for row in rows:  # the daemon tells none twice; a client does not rely on it
            await client.conversation.show(row)
        daemon.begin("t2", "next")
        assert in_order(await client.until("next"), "once", "and for all", "next")


async def test_two_thousand_deltas_arrive_whole(daemon: FakeGateway, stage: Stage) -> None:
    deltas = [f"word{number} " if number % 50 else "\n\n- item\n" for number in range(2_000)]
    async with stage.unseen() as client:
        daemon.begin("t1", "a long answer, please")
        for at in range(0, len(deltas), 100):
            daemon.stream("t1", *deltas[at : at + 100])
            await asyncio.sleep(0)
        await client.until("word1999")
        assert [entry.source for entry in client.view.entries if isinstance(entry, AnswerEntry)] == ["".join(deltas)]


async def test_a_message_waits_below_what_goes_on_and_one_that_joins_the_turn_is_shown_once(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "a long task")
        daemon.bus.publish(ThinkingStreamed("t1", SESSION, "Hm."))
        await client.until("thinking · Esc stops")
        daemon.stream("t1", "Working")
        await client.until("working · Esc stops")
        joins, waits = await client.send("and this"), await client.send("and that")
        daemon.stream("t1", " on it")
        assert in_order(await client.until("Working on it"), "Working on it", "and this", "and that")
        daemon.answer("t1", "Working on it", ToolCall("c1", "read", {}))
        daemon.bus.publish(replace(daemon.store("t1", UserMessage("and this"), SESSION), joined=joins))
        daemon.answer("t1", "Both are done.")
        assert in_order(await client.until("Both are done."), "and this", "Both are done.", "and that")
        daemon.begin(waits, "and that")
        daemon.answer(waits, "That too.")
        assert in_order(await client.until("That too."), "Both are done.", "and that", "That too.")


async def test_a_stream_that_begins_again_replaces_what_was_there(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "go")
        daemon.stream("t1", "Wrong")
        await client.until("Wrong")
        daemon.bus.publish(StreamRestarted("t1", SESSION, "the connection broke"))
        daemon.stream("t1", "Right")
        assert "Wrong" not in await client.until("Right")


@pytest.mark.promise("P-terminal-safe-text")
async def test_markdown_hides_no_words_and_text_cannot_steer_the_terminal(daemon: FakeGateway, stage: Stage) -> None:
    answer = "A <b>tag</b> and \x1b[31mred\x1b]0;title\x07.\n\n<script>alert(1)</script>\n\n[1]: http://x"
    async with stage.unseen() as client:
        daemon.begin("t1", "go")
        daemon.stream("t1", answer)
        seen = [await client.until("http://x")]
        daemon.answer("t1", answer)
        seen.append(await client.until("working", gone=True))
    for text in seen:
        assert "A <b>tag</b> and red." in text
        assert "<script>alert(1)</script>" in text and "[1]: http://x" in text
        assert "\x1b" not in text and "title" not in text


async def test_the_end_of_a_turn_without_an_answer_is_said_and_notices_are_lines(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "go")
        daemon.tell("t1", AssistantMessage("[The model is away.]", notice=True))
        daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.FAILED, "The model is away."))
        daemon.bus.publish(TurnFinished("t2", SESSION, Outcome.ANSWERED, "Compacted."))
        daemon.bus.publish(Notice(SESSION, "compaction began"))
        text = await client.until("compaction began")
    assert text.count("The model is away.") == 1 and "Compacted." in text


async def test_a_tool_says_what_it_does_and_what_came_of_it_also_in_a_terminal_that_is_opened_later(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "count")
        daemon.answer("t1", "", ToolCall("c1", "chart", {"of": "boats"}))
        daemon.bus.publish(ToolStarted("t1", SESSION, "c1", "chart", {"of": "boats"}, "Counting \x1b[31mboats"))
        await client.until("● chart  Counting boats")
        daemon.bus.publish(ToolFinished("t1", SESSION, "c1", "chart", "1\n2\n3", False, 0.25, "3 boats"))
        text = await client.until("✓ chart  3 boats  0.2 s")
        assert "Counting boats" not in text and "more lines" not in text, "it counts no longer"
        daemon.tell("t1", ToolResult("c1", "chart", "1\n2\n3", hint="3 boats", call_hint="Counting boats"))
        daemon.answer("t1", "", ToolCall("c2", "chart", {"of": "oars"}))
        daemon.tell("t1", ToolResult("c2", "chart", "1\n2", hint="2 oars"))
        daemon.answer("t1", "", ToolCall("c3", "chart", {"of": "masts"}))
        daemon.tell("t1", ToolResult("c3", "chart", "no masts", True, call_hint="Counting masts"))
        daemon.answer("t1", "", ToolCall("c4", "chart", {"of": "sails"}))
        daemon.bus.publish(ToolFinished("t1", SESSION, "c4", "chart", "{}", False, 0.1, "denied: no", denied=True))
        await client.until("✗ chart  denied: no  0.1 s")
        daemon.tell("t1", ToolResult("c4", "chart", "{}", hint="denied: no", denied=True))
    async with stage.unseen() as client:
        text = await client.until("✗ chart  denied: no")
        assert "✗ chart  masts" in text
        assert "✓ chart  3 boats" in text and "✓ chart  2 oars" in text
        assert "Counting" not in text and "more lines" not in text


async def test_a_card_shows_what_an_agent_does_that_its_call_has_started(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "find them")
        daemon.answer("t1", "", ToolCall("c1", "agent", {"task": "find"}))
        daemon.bus.publish(ToolStarted("t1", SESSION, "c1", "agent", {"task": "find"}, "reader: Find"))
        daemon.bus.publish(AgentProgress("t1", SESSION, "c1", "reader: Find", "Searching for tests"))
        await client.until("  ↳ reader: Find › Searching for tests")
        daemon.bus.publish(ToolFinished("t1", SESSION, "c1", "agent", "two", False, 0.25, "reader: 3 requests"))
        assert "↳" not in await client.until("  reader: 3 requests")


async def test_the_time_of_a_tool_of_the_past_is_about_what_lies_between_its_rows(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    daemon.store("t1", AssistantMessage("", (ToolCall("a", "exec", {"command": "slow"}),)))
    clock.advance(14.4)
    daemon.store("t1", ToolResult("a", "exec", "out"))
    daemon.store("t1", AssistantMessage("", (ToolCall("a", "exec", {"command": "quick"}),)))
    clock.advance(0.6)
    daemon.store("t1", ToolResult("a", "exec", "out"))
    async with stage.unseen() as client:
        assert [card.splitlines()[0] for card in client.said(ToolCard)] == ["✓ exec  slow  ~14 s", "✓ exec  quick"]


async def test_older_rows_are_fetched_from_before_the_oldest_and_find_their_results(
    daemon: FakeGateway, stage: Stage
) -> None:
    calls = tuple(ToolCall(f"c{number}", "exec", {"command": f"call <{number}>"}) for number in range(40))
    daemon.store("t1", UserMessage("do forty things"))
    daemon.store("t1", AssistantMessage("I will.", calls))
    for call in calls:
        daemon.store("t1", ToolResult(call.id, "exec", f"result of {call.id}"))
    daemon.store("t1", AssistantMessage("All done."))
    async with stage.unseen() as client:
        assert "do forty things" not in client.text(), "results alone"
        await fetch_all(client)
        cards = client.said(ToolCard)
        assert in_order(client.text(), "do forty things", "I will.", "All done.")
    assert len(cards) == 40
    assert all(card.startswith("✓ exec") and f"result of c{number}" in card for number, card in enumerate(cards))


async def test_older_rows_of_a_turn_that_runs_get_their_results_when_those_come(
    daemon: FakeGateway, stage: Stage
) -> None:
    daemon.begin("t1", "do it")
    daemon.answer("t1", "I will.", ToolCall("c1", "exec", {"command": "the call"}))
    for number in range(40):
        daemon.store("t1", UserMessage(f"message <{number}>"))
    async with stage.unseen() as client:
        assert "the call" not in client.text()
        await fetch_all(client)
        assert "● exec  the call" in client.text()
        daemon.tell("t1", ToolResult("c1", "exec", "its result"))
        await client.until("✓ exec  the call")


async def test_of_a_long_conversation_the_oldest_entries_go_and_come_back(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        waiting = await client.send("still waiting")
        for number in range(100):
            daemon.tell("t1", UserMessage(f"message <{number}>"))
        await client.until("message <99>")
        said = client.said(Said)
        assert len(said) <= 80 and said[-2:] == ["message <99>", "still waiting"] and client.view.has_older
        await fetch_all(client)
        assert client.said(Said) == [*(f"message <{number}>" for number in range(100)), "still waiting"]
        assert client.conversation.waiting == [waiting]


async def test_what_a_turn_without_rows_says_stands_below_the_message_that_asked_for_it(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        turn = await client.send("compact it")
        daemon.bus.publish(TurnStarted(turn, SESSION, Address(LOCAL, SESSION)))
        daemon.bus.publish(Notice(SESSION, "making room", turn))
        daemon.bus.publish(TurnFinished(turn, SESSION, Outcome.ANSWERED, "there is room"))
        await client.until("there is room")
        daemon.begin("t2", "the next one")
        daemon.answer("t2", "the next answer")
        text = await client.until("the next answer")
        assert not client.conversation.waiting, "it waits no more"
    assert in_order(text, "compact it", "making room", "there is room", "the next one", "the next answer")


async def test_a_message_from_another_channel_carries_its_sender(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        daemon.begin("telegram:1", "from my phone", sender="telegram:5")
        await client.until("from my phone")
        assert client.said(Said) == ["telegram:5\nfrom my phone"]


async def test_a_session_that_is_forgotten_begins_anew_and_says_so(daemon: FakeGateway, stage: Stage) -> None:
    for number in range(40):
        daemon.store("t1", UserMessage(f"message <{number}>"))
    async with stage.unseen() as client:
        await client.until("message <39>")
        daemon.begin("t2", "forget it")
        daemon.stream("t2", "Half an")
        daemon.bus.publish(ToolStarted("t2", SESSION, "c1", "exec", {}))
        await client.until("exec")
        daemon.forget()
        text = await client.until("This session was deleted")
        assert "message <" not in text and "Half an" not in text and "exec" not in text
        assert not client.view.has_older
        daemon.begin("t3", "a new beginning")
        daemon.answer("t3", "Hello.")
        text = await client.until("Hello.")
        assert "a new beginning" in text and "message <" not in text, text
