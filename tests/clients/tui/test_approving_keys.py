"""Approvals and questions on a screen: keys, what is in view, clicks."""

import asyncio
from dataclasses import replace

import pytest

from goclaw.clients.tui.approving import HOLD_SECONDS
from goclaw.clients.tui.widgets.prompt import Prompt
from goclaw.clients.tui.widgets.question_cards import SEEN_SECONDS, QuestionCard
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import ALLOW, DENY
from tests.clients.tui.fake_daemon import PATIENCE, FakeGateway, Screen, Stage
from tests.clients.tui.questions_asked import COLOUR, MAY, approval, until_asleep, until_decided
from tests.clients.tui.screen import SOON_SECONDS


async def until_seen(screen: Screen, clock: SteppedClock, words: str = MAY) -> str:
    """Let time go by until a letter would answer the approval that is in view."""
    async with asyncio.timeout(PATIENCE):
        while words not in screen.text():
            clock.advance(SEEN_SECONDS)
            await screen.pilot.pause(2 * SOON_SECONDS)
    return screen.text()


def line_of(card: QuestionCard, words: str) -> int:
    """On which line of the card `words` stand."""
    return next(at for at, line in enumerate(card.render().plain.split("\n")) if words in line)


@pytest.mark.promise("P-terminal-approval")
@pytest.mark.screen
async def test_keys_of_a_real_input_answer_and_words_do_not(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("t1", "install it")
        daemon.ask("t1", approval(clock))
        await screen.until("May exec run?")
        clock.advance(SEEN_SECONDS - 0.1)
        await screen.press("y")
        clock.advance(10 * HOLD_SECONDS)
        await screen.until("clear the input to answer")
        assert daemon.decided == [], "it was on its way when the approval came"
        await screen.press("backspace")
        await until_seen(screen, clock)

        await screen.type("you")
        clock.advance(10 * HOLD_SECONDS)
        await screen.until("clear the input to answer")
        await screen.type(" are slow")
        await screen.press("enter")
        await screen.until("you are slow")
        assert [heard.text for heard in daemon.heard] == ["you are slow"]
        assert daemon.decided == [], "a message that begins with the letter"

        await until_seen(screen, clock)
        await screen.press("n")
        await until_asleep(clock)
        assert daemon.decided == [], "a letter may follow"
        clock.advance(HOLD_SECONDS)
        assert await until_decided(daemon) == [("q1", DENY)]
        await screen.until("denied by you")
        assert screen.terminal.query_one(Prompt).text == ""

        daemon.ask("t1", approval(clock, "q2"))
        await until_seen(screen, clock)
        await screen.press("y", "enter")
        assert await until_decided(daemon, 2) == [("q1", DENY), ("q2", ALLOW)], "with Enter at once"
        await screen.until("allowed by you")

        daemon.ask("t1", approval(clock, "q3", about="peek"))
        await screen.until("May peek run?")
        daemon.close("q3", "", "")
        await screen.until("no longer needed")
        daemon.ask("t1", approval(clock, "q3", about="peek"))
        await screen.until("no longer needed", gone=True)
        assert (await until_seen(screen, clock)).count("May peek run?") == 2, "the card, and the line above the input"
    assert len(daemon.heard) == 1, "letters that answer are no messages"


@pytest.mark.promise("P-terminal-approval")
@pytest.mark.screen
async def test_an_approval_that_is_out_of_view_is_not_answered_by_a_letter(
    daemon: FakeGateway, stage: Stage, clock: SteppedClock
) -> None:
    async with stage.terminal() as screen:
        for number in range(10):
            daemon.stream("t0", f"line {number}\n\n")
        daemon.ask("t1", approval(clock))
        await until_seen(screen, clock)
        await screen.press("pageup")
        await screen.until("scroll through all of it")
        await screen.press("y")
        clock.advance(10 * HOLD_SECONDS)
        await screen.press("backspace", "end")
        await until_seen(screen, clock)
        await screen.press("ctrl+l", "ctrl+l")
        await screen.until("scroll through all of it")
    assert daemon.decided == []


@pytest.mark.promise("P-approval")
@pytest.mark.screen
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
        await screen.until("scroll through all of it")
        card = screen.terminal.query_one(QuestionCard)
        await screen.pilot.click(card, offset=(5, line_of(card, "Allow")))
        while "rm -rf" not in screen.text():
            await screen.press("pageup")
        await screen.pilot.pause(2 * SOON_SECONDS)
        await screen.press("end")
        await until_seen(screen, clock)
        assert daemon.decided == []


@pytest.mark.screen
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
        assert await until_decided(daemon) == [("q1", DENY)]
        await screen.until("denied by you")

        daemon.ask("t1", COLOUR)
        await screen.until("your next message is the answer")
        card = screen.terminal.query(QuestionCard).last()
        line = line_of(card, "blue")
        async with asyncio.timeout(PATIENCE):
            while len(daemon.decided) < 2:
                await screen.pilot.click(card, offset=(5, line))
                clock.advance(SEEN_SECONDS)
        assert daemon.decided[1:] == [("q7", "blue")]
        await screen.until("✓ Colour  blue (you)")
