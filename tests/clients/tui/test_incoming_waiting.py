"""What is said of messages that are written while a turn runs."""

import asyncio
from pathlib import Path

import pytest

from goclaw.clients.tui.incoming import waiting_words
from tests.clients.tui.fake_daemon import PATIENCE, FakeGateway, Stage
from tests.harness import before_the_next_look


@pytest.mark.parametrize(
    ("mode", "typing", "sent"),
    [
        ("", "", "2 queued"),
        ("queue", "Enter queues", "2 queued"),
        ("collect", "Enter queues", "2 queued, to be answered together"),
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


async def heard(daemon: FakeGateway, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(daemon.heard) < number:
            await before_the_next_look()


@pytest.mark.promise("P-terminal-typing")
async def test_queued_messages_are_counted_until_their_turns_come(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        first = await client.send("first")
        await heard(daemon, 1)
        assert "queued" not in client.doing
        daemon.begin(first, "first")
        await client.until("Esc stops")
        second = await client.send("second")
        await client.until("1 queued")
        await client.send("third")
        await client.until("2 queued")
        daemon.answer(first, "answer one")
        daemon.begin(second, "second")
        text = await client.until("1 queued")
        assert text.index("second") < text.index("third")
        client.incoming.stop()
        await heard(daemon, 4)
        await client.until("1 queued")
    assert [inbound.text for inbound in daemon.heard] == ["first", "second", "third", "/stop"]


async def test_the_mode_of_the_session_is_said_while_somebody_types(daemon: FakeGateway, stage: Stage) -> None:
    daemon.numbers["queue_mode"] = "steer"
    async with stage.unseen() as client:
        turn = await client.send("go")
        daemon.begin(turn, "go")
        assert "Enter steers" not in await client.until("Esc stops")
        client.type("more")
        assert "Enter steers the answer" in client.doing
        await client.send("more")
        await client.until("1 waiting to steer the answer")


async def test_a_turn_from_a_chat_is_not_steered_from_here(daemon: FakeGateway, stage: Stage) -> None:
    daemon.numbers["queue_mode"] = "steer"
    async with stage.unseen() as client:
        daemon.begin("telegram:77", "from the chat", "telegram:5")
        await client.until("Esc stops")
        await client.send("from here")
        assert "steer" not in await client.until("1 queued")
