"""Approvals and questions in the terminal client: what answers them, and what must not."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.clock import SteppedClock
from goclaw.events import ALLOW, ALWAYS, DENY, Outcome, Question, TurnFinished
from goclaw.tui import link
from goclaw.tui.approving import HOLD_SECONDS
from goclaw.tui.widgets.prompt import Prompt
from goclaw.tui.widgets.question_card import QuestionCard
from goclaw.tui.widgets.question_cards import SEEN_SECONDS
from tests.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Screen, Stage
from tests.tui.screen import SOON_SECONDS

MAY = "y allows"


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


def approval(clock: SteppedClock, name: str = "q1", *, about: str = "exec", asker: str = SESSION) -> Question:
    return Question(
        id=name,
        kind="approval",
        asker=asker,
        title=f"May {about} run?",
        text='exec with network.\n\n```json\n{\n  "command": "pip install left-pad"\n}\n```',
        options=(ALLOW, DENY),
        free_text=False,
        required=True,
        asked_at=clock.now(),
        expires_at=clock.now() + 1_800,
        about=about,
    )


COLOUR = Question("q7", "question", SESSION, "Colour", "Which colour should it be?", ("red", "blue"))


def line_of(card: QuestionCard, words: str) -> int:
    """On which line of the card `words` stand."""
    return next(at for at, line in enumerate(card.render().plain.split("\n")) if words in line)


async def until_asleep(screen: Screen, clock: SteppedClock) -> None:
    """Wait until a pressed letter waits for another one."""
    async with asyncio.timeout(PATIENCE):
        while not clock.sleepers:
            await screen.pilot.pause()


async def until_decided(screen: Screen, daemon: FakeGateway, number: int = 1) -> list[tuple[str, str]]:
    async with asyncio.timeout(PATIENCE):
        while len(daemon.decided) < number:
            await screen.pilot.pause()
    return daemon.decided


async def until_seen(screen: Screen, clock: SteppedClock, words: str = MAY) -> str:
    """Let time go by until a letter would answer the approval that is in view."""
    async with asyncio.timeout(PATIENCE):
        while words not in screen.text():
            clock.advance(SEEN_SECONDS)
            await screen.pilot.pause(2 * SOON_SECONDS)
    return screen.text()


async def asked(screen: Screen, daemon: FakeGateway, clock: SteppedClock, question: Question) -> str:
    """The question stands, and a letter would answer it."""
    daemon.ask("t1", question)
    await screen.until(question.title)
    return await until_seen(screen, clock)


@pytest.mark.parametrize(("letter", "answer", "words"), [("y", ALLOW, "allowed by you"), ("n", DENY, "denied by you")])
@pytest.mark.promise("P-terminal-approval")
async def test_one_letter_answers_an_approval_when_nothing_follows(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock, letter: str, answer: str, words: str
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        text = await asked(screen, daemon, clock, approval(clock))
        assert "pip install left-pad" in text and "30 min left" in text and "/approve q1" in text
        await screen.press(letter)
        await until_asleep(screen, clock)
        assert daemon.decided == []
        clock.advance(HOLD_SECONDS)
        assert await until_decided(screen, daemon) == [("q1", answer)]
        text = await screen.until(f"May exec run?  {words}")
        assert "pip install" not in text and MAY not in text
        assert screen.terminal.query_one(Prompt).text == ""
    assert daemon.heard == []


@pytest.mark.promise("P-terminal-approval")
async def test_always_is_a_letter_of_its_own_and_answers_only_where_it_is_offered(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        assert "a always" not in await asked(screen, daemon, clock, approval(clock))
        await screen.press("a", "enter")
        await screen.until("1 queued")
        assert daemon.decided == [] and [heard.text for heard in daemon.heard] == ["a"]
        offered = replace(approval(clock, "q2"), options=(ALLOW, ALWAYS, DENY))
        daemon.ask("t1", offered)
        await until_seen(screen, clock, "a always")
        await screen.press("a", "enter")
        assert await until_decided(screen, daemon) == [("q2", ALWAYS)]
        await screen.until("allowed for good by you")


async def test_the_letter_with_enter_answers_at_once_and_is_no_message(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        await asked(screen, daemon, clock, approval(clock))
        await screen.press("y", "enter")
        assert await until_decided(screen, daemon) == [("q1", ALLOW)]
        await screen.until("allowed by you")
    assert daemon.heard == []


@pytest.mark.promise("P-approval")
@pytest.mark.promise("P-terminal-approval")
async def test_a_message_that_begins_with_the_letter_decides_nothing(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        await asked(screen, daemon, clock, approval(clock))
        await screen.type("you")
        clock.advance(10 * HOLD_SECONDS)
        await screen.until("empty the input to answer")
        await screen.type(" are slow")
        await screen.press("enter")
        await screen.until("you are slow")
        assert [heard.text for heard in daemon.heard] == ["you are slow"]
    assert daemon.decided == []


@pytest.mark.promise("P-approval")
async def test_a_letter_that_was_on_its_way_when_the_approval_came_decides_nothing(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        daemon.ask("t1", approval(clock))
        await screen.until("May exec run?")
        clock.advance(SEEN_SECONDS - 0.1)
        await screen.press("y")
        clock.advance(10 * HOLD_SECONDS)
        await screen.until("empty the input to answer")
        assert daemon.decided == []
        await screen.press("backspace")
        await until_seen(screen, clock)


@pytest.mark.promise("P-terminal-approval")
async def test_an_approval_that_is_out_of_view_is_not_answered_by_a_letter(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        for number in range(10):
            daemon.stream("t0", f"line {number}\n\n")
        await asked(screen, daemon, clock, approval(clock))
        await screen.press("pageup")
        await screen.until("look at all of it")
        await screen.press("y")
        clock.advance(10 * HOLD_SECONDS)
        await screen.press("backspace", "end")
        await until_seen(screen, clock)
        await screen.press("ctrl+l", "ctrl+l")
        await screen.until("look at all of it")
    assert daemon.decided == []


@pytest.mark.promise("P-approval")
async def test_of_a_call_that_is_longer_than_the_screen_the_beginning_must_have_been_seen(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    long = replace(approval(clock), text="rm -rf ~\n\n" + "\n\n".join(["padding"] * 20))
    async with stage.terminal() as screen:
        daemon.begin("t1", "tidy up")
        daemon.ask("t1", long)
        await screen.until("Deny")
        for _ in range(3):
            clock.advance(SEEN_SECONDS)
            await screen.pilot.pause(2 * SOON_SECONDS)
        await screen.until("look at all of it")
        card = screen.terminal.query_one(QuestionCard)
        await screen.pilot.click(card, offset=(5, line_of(card, "Allow")))
        while "rm -rf" not in screen.text():
            await screen.press("pageup")
        await screen.pilot.pause(2 * SOON_SECONDS)
        await screen.press("end")
        await until_seen(screen, clock)
        assert daemon.decided == []


async def test_the_newest_of_two_is_answered_and_the_other_one_wants_a_look_of_its_own(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal((100, 50)) as screen:
        daemon.begin("t1", "do both")
        await asked(screen, daemon, clock, approval(clock, "q1", about="first"))
        daemon.ask("t1", approval(clock, "q2", about="second"))
        await screen.until("look at all of it")
        await until_seen(screen, clock, "May second run? · y allows")
        await screen.press("y", "enter")
        await until_decided(screen, daemon)
        await screen.until("May second run?  allowed by you")
        await screen.press("y", "enter")
        assert [heard.text for heard in daemon.heard] in ([], ["y"]), "words, not an answer"
        await until_seen(screen, clock, "May first run? · y allows")
    assert daemon.decided == [("q2", ALLOW)]


async def test_a_click_on_an_option_answers_and_a_click_beside_does_not(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal((100, 40)) as screen:
        daemon.begin("t1", "install it")
        daemon.ask("t1", approval(clock))
        await screen.until("Deny")
        card = screen.terminal.query_one(QuestionCard)
        line = line_of(card, "Deny")
        await screen.pilot.click(card, offset=(5, line))
        await screen.pilot.click(card, offset=(5, 0))
        await screen.press("end")
        assert daemon.decided == [], "too early, then beside"
        await until_seen(screen, clock)
        await screen.pilot.click(card, offset=(5, line))
        assert await until_decided(screen, daemon) == [("q1", DENY)]
        await screen.until("denied by you")


async def test_a_question_is_answered_by_the_next_message_and_shows_what_was_said(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "paint it")
        daemon.ask("t1", COLOUR)
        text = await screen.until("Which colour")
        assert "1  red" in text and "2  blue" in text and "for " + SESSION not in text
        await screen.until("what you send is the answer")
        await screen.type("y")
        await screen.type("ellow, like\nthe sun")
        await screen.press("enter")
        text = await screen.until("answered by you")
        assert text.count("ellow, like") == 1 and "the sun" in text and "Which colour" not in text
    assert [heard.text for heard in daemon.heard] == ["yellow, like\nthe sun"]


async def test_an_option_of_a_question_can_be_clicked(daemon: FakeGateway, stage: Stage, clock: SteppedClock) -> None:
    async with stage.terminal((100, 40)) as screen:
        daemon.begin("t1", "paint it")
        daemon.ask("t1", COLOUR)
        await screen.until("blue")
        await screen.until("what you send is the answer")
        card = screen.terminal.query_one(QuestionCard)
        line = line_of(card, "blue")
        async with asyncio.timeout(PATIENCE):
            while not daemon.decided:
                await screen.pilot.click(card, offset=(5, line))
                clock.advance(SEEN_SECONDS)
        assert daemon.decided == [("q7", "blue")]
        await screen.until("✓ Colour  blue (you)")


async def test_an_answer_that_comes_too_late_is_said_to_be_lost(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        await screen.until("working")
        daemon.late = True
        await screen.type("red")
        await screen.press("enter")
        text = await screen.until("Not taken as an answer")
        assert "red" in text


async def test_what_somebody_else_decides_closes_the_card_everywhere_and_is_said(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as first, stage.terminal() as second:
        daemon.begin("telegram:1", "from my phone", sender="telegram:5")
        daemon.ask("telegram:1", approval(clock, asker="telegram:5"))
        for screen in (first, second):
            text = await screen.until("May exec run?")
            assert "for telegram:5" in text and text.count("telegram:5") == 2
        daemon.close("q1", ALLOW, "telegram:5")
        for screen in (first, second):
            text = await screen.until("May exec run?  allowed by telegram:5")
            assert "pip install" not in text


async def test_two_clients_answer_the_same_approval_once(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as first, stage.terminal() as second:
        daemon.begin("t1", "install it")
        daemon.ask("t1", approval(clock))
        for screen in (first, second):
            await screen.until("May exec run?")
            await until_seen(screen, clock)
        await first.press("y", "enter")
        for screen in (first, second):
            await screen.until("allowed by you")
            await screen.until(MAY, gone=True)
    assert daemon.decided == [("q1", ALLOW)]


async def test_a_decision_that_is_not_taken_says_so_and_is_not_repeated(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        await asked(screen, daemon, clock, approval(clock))
        daemon.questions.clear()
        await screen.press("y", "enter")
        await screen.until("There is no such question")
        await screen.until(MAY, gone=True)
        await screen.press("y", "enter")
        await screen.until("There is no such question")
    assert daemon.decided == [("q1", ALLOW)]


@pytest.mark.parametrize(
    ("late", "words"), [(False, "not asked any more"), (True, "nobody answered in time")], ids=["stopped", "expired"]
)
async def test_a_question_that_nobody_answered_says_why_it_is_gone(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock, late: bool, words: str
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        daemon.ask("t1", approval(clock))
        await screen.until("May exec run?")
        if late:
            clock.advance(1_800)
        daemon.close("q1", "", "")
        daemon.bus.publish(TurnFinished("t1", SESSION, Outcome.STOPPED, "Stopped."))
        await screen.until(words)


async def test_the_time_that_is_left_runs(daemon: FakeGateway, stage: Stage, clock: SteppedClock) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        daemon.ask("t1", approval(clock))
        await screen.until("30 min left")
        clock.advance(1_780)
        await screen.until("20 s left")


@pytest.mark.promise("P-terminal-history")
async def test_what_is_open_is_shown_after_an_attach_and_after_a_break_nothing_twice(
    stage: Stage, clock: SteppedClock
) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            daemon.begin("t1", "install it")
            daemon.ask("t1", approval(clock, "q1", about="first"))
            daemon.ask("t1", approval(clock, "q2", about="second"))
            terminal = stage.terminal((100, 60))
            screen = await terminal.__aenter__()
            text = await screen.until("May second run?")
            assert text.count("May first run?") == 1
        await screen.until("reconnecting")
        daemon.questions = [question for question in daemon.questions if question.id != "q1"]
        async with stage.daemon() as daemon:
            text = await screen.until("May first run?  answered meanwhile")
            assert text.count("May second run?") == 1
            await until_seen(screen, clock, "May second run? · y allows")
            await screen.press("n", "enter")
            await screen.until("May second run?  denied by you")
            await terminal.__aexit__(None, None, None)
    assert daemon.decided == [("q2", DENY)]


async def test_what_a_restart_of_the_daemon_asks_again_stands_there_once(stage: Stage, clock: SteppedClock) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            daemon.begin("t1", "install it")
            daemon.ask("t1", approval(clock))
            terminal = stage.terminal((100, 60))
            screen = await terminal.__aenter__()
            await screen.until("May exec run?")
            daemon.close("q1", "", "")
            await screen.until("not asked any more")
        await screen.until("reconnecting")
        daemon.questions.append(approval(clock))
        async with stage.daemon() as daemon:
            text = await screen.until("pip install")
            assert text.count("May exec run?") == 1
            await until_seen(screen, clock)
            await terminal.__aexit__(None, None, None)


@pytest.mark.promise("P-approval")
async def test_without_a_connection_nothing_is_decided_and_the_person_is_told(
    stage: Stage, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "RETRY_SECONDS", 0.5)  # a try that fails between the two keys lets go of the first
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            terminal = stage.terminal((100, 40))
            screen = await terminal.__aenter__()
            daemon.begin("t1", "install it")
            await asked(screen, daemon, clock, approval(clock))
        await screen.until("reconnecting")
        await screen.press("y", "enter")
        await screen.until("Not connected")
        async with stage.daemon() as daemon:
            await screen.until("● connected")
            await until_seen(screen, clock)
            await terminal.__aexit__(None, None, None)
    assert daemon.decided == []


@pytest.mark.promise("P-terminal-safe-text")
async def test_nothing_of_a_call_stays_hidden(daemon: FakeGateway, stage: Stage, clock: SteppedClock) -> None:
    trick = approval(clock)
    text = trick.text.replace("left-pad", "a\u202eb\u200bc \\u001b[2K")
    async with stage.terminal((120, 40)) as screen:
        daemon.begin("t1", "install it")
        daemon.ask("t1", Question("q1", "approval", SESSION, trick.title, text, (ALLOW, DENY), about="exec"))
        await screen.until(r"a\u202eb\u200bc \u001b[2K")
