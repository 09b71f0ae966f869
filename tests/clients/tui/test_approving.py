"""Approvals and questions in the terminal client: what answers them, and what must not."""

import asyncio
from dataclasses import replace

import pytest

from goclaw.clients.tui import link
from goclaw.clients.tui.approving import HOLD_SECONDS
from goclaw.clients.tui.widgets.question_cards import SEEN_SECONDS, InView
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import ALLOW, ALWAYS, DENY, Outcome, Question, TurnFinished
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Stage
from tests.clients.tui.questions_asked import COLOUR, MAY, approval, until_asleep, until_decided
from tests.clients.tui.unseen import NOTHING, Unseen
from tests.harness import before_the_next_look


def seen_by(client: Unseen, clock: SteppedClock) -> str:
    """Look at everything for as long as it takes."""
    client.look()
    clock.advance(SEEN_SECONDS)
    client.look()
    return client.text()


async def asked(client: Unseen, daemon: FakeGateway, clock: SteppedClock, question: Question) -> str:
    """The question stands, and was looked at."""
    daemon.ask("t1", question)
    await client.until(question.title)
    return seen_by(client, clock)


@pytest.mark.parametrize(("letter", "answer", "words"), [("y", ALLOW, "allowed by you"), ("n", DENY, "denied by you")])
@pytest.mark.promise("P-terminal-approval")
async def test_one_letter_answers_an_approval_when_nothing_follows(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock, letter: str, answer: str, words: str
) -> None:
    async with stage.unseen() as client:
        text = await asked(client, daemon, clock, approval(clock))
        assert "pip install left-pad" in text and "30 min left" in text and "/approve q1" in text and MAY in text
        client.type(letter)
        await until_asleep(clock)
        assert daemon.decided == []
        clock.advance(HOLD_SECONDS)
        assert await until_decided(daemon) == [("q1", answer)]
        text = await client.until(f"May exec run?  {words}")
        assert "pip install" not in text and MAY not in text
        assert client.prompt.text == ""
    assert daemon.heard == []


@pytest.mark.promise("P-message-other-chats")
async def test_whether_another_person_may_write_is_asked_and_answered_like_an_approval_without_a_turn(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    now = clock.now()
    title = "Ann wants to send you messages through me. Allow?"
    wanted = Question(
        "a0", "approval", "tui:me", title, "", (ALLOW, DENY), False, asked_at=now, expires_at=now + 86_400
    )
    async with stage.unseen() as client:
        daemon.ask("", wanted)
        await client.until(title)
        assert "24 h left" in seen_by(client, clock)
        client.type("y")
        await until_asleep(clock)
        clock.advance(HOLD_SECONDS)
        assert await until_decided(daemon) == [("a0", ALLOW)]
        await client.until("allowed by you")


async def test_whether_another_person_may_write_takes_no_line_and_no_key_from_a_turn(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    title = "Ann wants to send you messages through me. Allow?"
    async with stage.unseen() as client:
        daemon.begin("t1", "install it")
        daemon.ask("", Question("a0", "approval", "tui:me", title, "", (ALLOW, DENY), False))
        await client.until(title)
        assert client.doing.startswith("working · Esc stops")
        daemon.ask("t1", COLOUR)
        await client.until("Which colour")
        assert client.doing.startswith("question for you")
        assert "May exec run? · y allow" in await asked(client, daemon, clock, approval(clock))
        daemon.ask("", Question("a1", "approval", "tui:me", "Bo wants to write.", "", (ALLOW, DENY), False))
        await client.until("Bo wants to write.")
        seen_by(client, clock)
        assert client.doing.startswith("May exec run? · y allow")
        client.type("y")
        await until_asleep(clock)
        clock.advance(HOLD_SECONDS)
        assert await until_decided(daemon) == [("q1", ALLOW)]


@pytest.mark.promise("P-terminal-approval")
async def test_always_is_a_letter_of_its_own_and_answers_only_where_it_is_offered(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        daemon.begin("t1", "install it")
        assert "a always" not in await asked(client, daemon, clock, approval(clock))
        client.type("a")
        await client.send("a")
        await client.until("1 queued")
        async with asyncio.timeout(PATIENCE):
            while not daemon.heard:
                await before_the_next_look()
        assert daemon.decided == [] and [heard.text for heard in daemon.heard] == ["a"]
        offered = replace(approval(clock, "q2", about="pip"), options=(ALLOW, ALWAYS, DENY))
        assert "a always" in await asked(client, daemon, clock, offered)
        client.type("a")
        await client.send("a")
        assert await until_decided(daemon) == [("q2", ALWAYS)]
        await client.until("always allowed by you")


@pytest.mark.promise("P-approval")
@pytest.mark.promise("P-terminal-approval")
async def test_a_message_that_begins_with_the_letter_decides_nothing(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        await asked(client, daemon, clock, approval(clock))
        client.type("y")
        await until_asleep(clock)
        client.type("ou")
        clock.advance(10 * HOLD_SECONDS)
        await client.until("clear the input to answer")
        await client.send("you are slow")
        await client.until("you are slow")
        async with asyncio.timeout(PATIENCE):
            while not daemon.heard:
                await before_the_next_look()
    assert daemon.decided == []


@pytest.mark.promise("P-approval")
async def test_a_letter_that_was_on_its_way_when_the_approval_came_decides_nothing(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        daemon.ask("t1", approval(clock))
        await client.until("May exec run?")
        client.look()
        clock.advance(SEEN_SECONDS - 0.1)
        client.look()
        client.type("y")
        clock.advance(10 * HOLD_SECONDS)
        assert "clear the input to answer" in client.text()
        await client.send("y")
        await client.until("y\n")
    assert daemon.decided == []


@pytest.mark.promise("P-approval")
async def test_an_approval_is_answered_only_after_its_beginning_and_its_end_were_seen_long_enough(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    def looked(in_view: InView) -> str:
        for _ in range(3):
            client.look(in_view)
            clock.advance(SEEN_SECONDS)
        client.look(in_view)
        return client.doing

    begin, end = InView(begin=True, end=False), InView(begin=False, end=True)
    async with stage.unseen() as client:
        daemon.ask("t1", approval(clock))
        await client.until("May exec run?")
        assert "scroll through all of it" in looked(end), "of a long call the end alone"
        client.approving.choose(client.card("q1"), ALLOW)
        assert "scroll through all of it" in looked(begin), "then the beginning alone"
        assert MAY in looked(end), "both, one after the other"
        assert "scroll through all of it" in looked(NOTHING), "out of view"
        client.type("y")
        await client.send("y")
        assert daemon.decided == []


async def test_the_newest_of_two_is_answered_and_the_other_one_wants_a_look_of_its_own(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        await asked(client, daemon, clock, approval(clock, "q1", about="first"))
        daemon.ask("t1", approval(clock, "q2", about="second"))
        await client.until("scroll through all of it")
        assert "May second run? · y allow" in seen_by(client, clock)
        client.type("y")
        await client.send("y")
        await until_decided(daemon)
        await client.until("May second run?  allowed by you")
        client.type("y")
        assert await client.send("y"), "words, not an answer"
        assert "May first run? · y allow" in seen_by(client, clock)
    assert daemon.decided == [("q2", ALLOW)]


async def test_a_question_is_answered_by_the_next_message_and_shows_what_was_said(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        daemon.ask("t1", COLOUR)
        text = await client.until("Which colour")
        assert "1  red" in text and "2  blue" in text and "for " + SESSION not in text
        assert "your next message is the answer" in client.doing
        client.type("y")
        await client.send("yellow, like\nthe sun")
        text = await client.until("answered by you")
        assert text.count("ellow, like") == 1 and "the sun" in text and "Which colour" not in text
    assert [heard.text for heard in daemon.heard] == ["yellow, like\nthe sun"]


async def test_an_answer_that_comes_too_late_is_said_to_be_lost(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        daemon.late = True
        await client.send("red")
        assert "red" in await client.until("Not accepted as an answer")
        assert not client.conversation.waiting


async def test_what_somebody_else_decides_closes_the_card_everywhere_and_is_said(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as first, stage.unseen() as second:
        daemon.begin("telegram:1", "from my phone", sender="telegram:5")
        daemon.ask("telegram:1", approval(clock, asker="telegram:5"))
        for client in (first, second):
            text = await client.until("May exec run?")
            assert "for telegram:5" in text and text.count("telegram:5") == 2
        daemon.close("q1", ALLOW, "telegram:5")
        for client in (first, second):
            text = await client.until("May exec run?  allowed by telegram:5")
            assert "pip install" not in text


async def test_two_clients_answer_the_same_approval_once(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as first, stage.unseen() as second:
        await asked(first, daemon, clock, approval(clock))
        await second.until("May exec run?")
        assert MAY in seen_by(second, clock)
        first.type("y")
        await first.send("y")
        for client in (first, second):
            await client.until("allowed by you")
            assert MAY not in client.text()
    assert daemon.decided == [("q1", ALLOW)]


async def test_a_decision_that_is_not_taken_says_so_and_is_not_repeated(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.unseen() as client:
        await asked(client, daemon, clock, approval(clock))
        daemon.questions.clear()
        client.type("y")
        await client.send("y")
        await client.until("This question does not exist")
        assert MAY not in seen_by(client, clock)
        client.type("y")
        assert await client.send("y"), "words, not an answer"
        client.approving.choose(client.card("q1"), DENY)
        await client.until("This question does not exist")
    assert daemon.decided == [("q1", ALLOW)]


@pytest.mark.parametrize(
    ("late", "words"), [(False, "no longer needed"), (True, "nobody answered in time")], ids=["stopped", "expired"]
)
async def test_a_question_that_nobody_answered_says_why_it_is_gone(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock, late: bool, words: str
) -> None:
    async with stage.unseen() as client:
        daemon.ask("t1", approval(clock))
        await client.until("30 min left")
        clock.advance(1_780)
        client.tick()
        assert "20 s left" in client.text()
        if late:
            clock.advance(20)
        daemon.close("q1", "", "")
        daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.STOPPED, "Stopped."))
        await client.until(words)


@pytest.mark.promise("P-terminal-history")
async def test_what_is_open_is_shown_after_an_attach_and_after_a_break_nothing_twice(
    stage: Stage, clock: SteppedClock
) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            daemon.ask("t1", approval(clock, "q1", about="first"))
            daemon.ask("t1", approval(clock, "q2", about="second"))
            opened = stage.unseen()
            client = await opened.__aenter__()
            text = await client.until("May second run?")
            assert text.count("May first run?") == 1
        await client.until("reconnecting")
        daemon.questions = [question for question in daemon.questions if question.id != "q1"]
        async with stage.daemon() as daemon:
            text = await client.until("May first run?  answered meanwhile")
            assert text.count("May second run?") == 1
            assert "May second run? · y allow" in seen_by(client, clock)
            client.type("n")
            await client.send("n")
            await client.until("May second run?  denied by you")
            await opened.__aexit__(None, None, None)
    assert daemon.decided == [("q2", DENY)]


async def test_what_a_restart_of_the_daemon_asks_again_stands_there_once(stage: Stage, clock: SteppedClock) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            daemon.ask("t1", approval(clock))
            opened = stage.unseen()
            client = await opened.__aenter__()
            await client.until("May exec run?")
            daemon.close("q1", "", "")
            await client.until("no longer needed")
        await client.until("reconnecting")
        daemon.questions.append(approval(clock))
        async with stage.daemon() as daemon:
            text = await client.until("pip install")
            assert text.count("May exec run?") == 1
            assert MAY in seen_by(client, clock)
            await opened.__aexit__(None, None, None)


@pytest.mark.promise("P-approval")
async def test_without_a_connection_nothing_is_decided_and_the_person_is_told(
    stage: Stage, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "RETRY_SECONDS", 0.5)  # a try that fails between the two keys lets go of the first
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            opened = stage.unseen()
            client = await opened.__aenter__()
            await asked(client, daemon, clock, approval(clock))
        await client.until("reconnecting")
        client.type("y")
        assert await client.send("y") == ""
        assert any(told.startswith("Not connected") for told in client.host.told)
        async with stage.daemon() as daemon:
            await client.until("● connected")
            assert MAY in seen_by(client, clock)
            await opened.__aexit__(None, None, None)
    assert daemon.decided == []


@pytest.mark.promise("P-terminal-safe-text")
async def test_nothing_of_a_call_stays_hidden(daemon: FakeGateway, stage: Stage, clock: SteppedClock) -> None:
    trick = approval(clock)
    text = trick.text.replace("left-pad", "a\u202eb\u200bc \\u001b[2K")
    async with stage.unseen() as client:
        daemon.ask("t1", Question("q1", "approval", SESSION, trick.title, text, (ALLOW, DENY), about="exec"))
        await client.until(r"a\u202eb\u200bc \u001b[2K")
