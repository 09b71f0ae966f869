"""What is said of messages that are written while a turn runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.tui.waiting import waiting_words
from tests.tui.fake_daemon import PATIENCE, FakeGateway, Screen, Stage


@pytest.mark.parametrize(
    ("mode", "typing", "sent"),
    [
        ("", "", "2 queued"),
        ("queue", "Enter queues", "2 queued"),
        ("collect", "Enter queues", "2 queued, answered together"),
        ("steer", "Enter steers the answer", "2 waiting to steer the answer"),
        ("interrupt", "Enter interrupts the answer", "2 interrupting the answer"),
        ("of a newer daemon", "", "2 queued"),
    ],
)
def test_each_mode_says_what_sending_does_and_what_was_sent_waits_for(mode: str, typing: str, sent: str) -> None:
    assert waiting_words(mode, unsent=0, sent=0, is_running=True, is_typing=True) == typing
    assert waiting_words(mode, unsent=0, sent=2, is_running=True, is_typing=True) == sent
    assert waiting_words(mode, unsent=0, sent=2, is_running=False, is_typing=True) == ""
    assert waiting_words(mode, unsent=3, sent=2, is_running=True, is_typing=True) == "3 not sent yet"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
async def daemon(stage: Stage) -> AsyncIterator[FakeGateway]:
    async with stage.daemon() as gateway:
        yield gateway


async def send(daemon: FakeGateway, screen: Screen, text: str) -> str:
    """Type and send; returns the turn that it becomes."""
    number = len(daemon.heard)
    await screen.type(text)
    await screen.press("enter")
    async with asyncio.timeout(PATIENCE):
        while len(daemon.heard) == number:
            await screen.pilot.pause()
    return daemon.heard[-1].id


@pytest.mark.promise("P-terminal-typing")
async def test_queued_messages_are_counted_until_their_turns_come(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        first = await send(daemon, screen, "first")
        assert "queued" not in screen.text()
        daemon.begin(first, "first")
        await screen.until("Esc stops")
        second = await send(daemon, screen, "second")
        await screen.until("1 queued")
        await send(daemon, screen, "third")
        await screen.until("2 queued")
        daemon.answer(first, "answer one")
        daemon.begin(second, "second")
        text = await screen.until("1 queued")
        assert text.index("second") < text.index("third")
        await screen.press("escape")
        await screen.until("1 queued")
    assert [inbound.text for inbound in daemon.heard] == ["first", "second", "third", "/stop"]


async def test_the_mode_of_the_session_is_said_while_somebody_types(daemon: FakeGateway, stage: Stage) -> None:
    daemon.numbers["queue_mode"] = "steer"
    async with stage.terminal() as screen:
        turn = await send(daemon, screen, "go")
        daemon.begin(turn, "go")
        assert "Enter steers" not in await screen.until("Esc stops")
        await screen.type("more")
        await screen.until("Enter steers the answer")
        await screen.press("enter")
        await screen.until("1 waiting to steer the answer")


async def test_a_turn_from_a_chat_is_not_steered_from_here(daemon: FakeGateway, stage: Stage) -> None:
    daemon.numbers["queue_mode"] = "steer"
    async with stage.terminal() as screen:
        daemon.begin("telegram:77", "from the chat", "telegram:5")
        await screen.until("Esc stops")
        await send(daemon, screen, "from here")
        assert "steer" not in await screen.until("1 queued")
