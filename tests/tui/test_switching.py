"""From one session to another: what is shown, what is sent where, and what happens where nobody may go."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.errors import StateError
from goclaw.events import Acceptance, Inbound, SessionInfo, Todo
from goclaw.messages import AssistantMessage, UserMessage
from goclaw.tui.app import Terminal
from tests.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Screen, Stage

OTHER = "tui:work"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path)
    gateway, now = made.gateway, made.clock.now()
    gateway.known_sessions = [
        SessionInfo(OTHER, 2, now - 9_000, now - 8_000, "Plan the work"),
        SessionInfo(SESSION, 1, now - 9_000, now - 200_000, "Hello me"),
        SessionInfo("telegram:5", 1_204, now - 9_000, now - 300_000, "Anna's question"),
    ]
    gateway.store("m1", UserMessage("Hello me"))
    gateway.store("w1", UserMessage("Plan the work"), session=OTHER)
    gateway.store("w1", AssistantMessage("The plan."), session=OTHER)
    return made


@pytest.fixture
async def daemon(stage: Stage) -> AsyncIterator[FakeGateway]:
    async with stage.daemon() as gateway:
        yield gateway


async def pick(screen: Screen, *typed: str) -> None:
    """Open the list, type, take the first line."""
    await screen.type("/sessions")
    await screen.press("enter")
    await screen.until("Enter opens")
    await screen.until("1,204 m")
    for text in typed:
        await screen.type(text)
    await screen.press("enter")


async def heard(daemon: FakeGateway, screen: Screen, number: int) -> list[tuple[str, str]]:
    """Wait for that many messages; where each was said, and what."""
    async with asyncio.timeout(PATIENCE):
        while len(daemon.heard) < number:
            await screen.pilot.pause()
    return [(inbound.session, inbound.text) for inbound in daemon.heard]


async def test_another_session_takes_the_place_of_this_one(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal((120, 30)) as screen:
        daemon.plan("m1", Todo("pack the bags"))
        await screen.until("pack the bags")
        daemon.todos = ()
        await pick(screen, "work")
        text = await screen.until("This is the session tui:work")
        assert "The plan." in text and "Hello me" not in text and "pack the bags" not in text
        assert "│ tui:work │" in await screen.until("12.3k of 200k tokens")

        daemon.tell("m2", UserMessage("not for these eyes"))
        daemon.tell("w2", UserMessage("for these eyes"), session=OTHER)
        assert "not for these eyes" not in await screen.until("for these eyes")

        await screen.type("said at work")
        await screen.press("enter")
        assert await heard(daemon, screen, 1) == [(OTHER, "said at work")]

        await pick(screen, "tui:me")
        text = await screen.until("not for these eyes")
        assert "The plan." not in text and text.count("Hello me") == 1


async def test_the_running_turn_of_the_session_before_is_not_that_of_the_next(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.terminal() as screen:
        daemon.begin("m2", "a long task")
        daemon.stream("m2", "Working on it")
        await screen.until("Esc stops")
        await pick(screen, "work")
        text = await screen.until("The plan.")
        assert "Esc stops" not in text and "Working on it" not in text
        await screen.press("escape")
        await pick(screen, "tui:me")
        text = await screen.until("Working on it")
        assert "Esc stops" in text
    assert daemon.heard == []


@pytest.mark.promise("P-terminal-typing")
async def test_what_was_not_sent_goes_to_the_session_that_it_was_written_in(stage: Stage) -> None:
    async with asyncio.timeout(2 * PATIENCE):
        async with stage.daemon():
            terminal = stage.terminal()
            screen = await terminal.__aenter__()
            await screen.type("/sessions")
            await screen.press("enter")
            await screen.until("Plan the work")
        await screen.until("reconnecting")
        await screen.press("escape")
        await screen.type("for me alone")
        await screen.press("enter")
        await screen.until("for me alone")
        await screen.type("/sessions")
        await screen.press("enter")
        await screen.until("Waiting for the daemon")
        await screen.type("work")
        await screen.press("enter")
        await screen.until("for me alone", gone=True)
        await screen.type("for work alone")
        await screen.press("enter")
        async with stage.daemon() as daemon:
            said = await heard(daemon, screen, 2)
            await screen.until("The plan.")
            assert sorted(said) == [(SESSION, "for me alone"), (OTHER, "for work alone")]
            assert screen.text().count("for me alone") == 0
            await terminal.__aexit__(None, None, None)


@pytest.mark.promise("P-terminal-typing")
async def test_who_comes_back_before_it_was_sent_sees_it_wait_and_sends_it_once(stage: Stage) -> None:
    async with asyncio.timeout(2 * PATIENCE), stage.terminal() as screen:
        await screen.until("no daemon")
        await screen.type("early bird")
        await screen.press("enter")
        for name in ("work", "me"):
            await screen.type("/sessions")
            await screen.press("enter")
            await screen.until("Waiting for the daemon")
            await screen.type(name)
            await screen.press("enter")
            await screen.until("Enter opens", gone=True)
        await screen.until("early bird")
        async with stage.daemon() as daemon:
            await screen.until("Hello me")
            assert await heard(daemon, screen, 1) == [(SESSION, "early bird")]
            assert screen.text().count("early bird") == 1


async def test_what_is_refused_elsewhere_is_told_with_its_text(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(2 * PATIENCE), stage.terminal((120, 30)) as screen:
        await screen.until("no daemon")
        await screen.type("too much")
        await screen.press("enter")
        await screen.type("/sessions")
        await screen.press("enter")
        await screen.until("Waiting for the daemon")
        await screen.type("work")
        await screen.press("enter")

        async def accept(inbound: Inbound) -> Acceptance:
            raise StateError("no room.")

        monkeypatch.setattr(stage.gateway, "accept", accept)
        async with stage.daemon():
            await screen.until("not taken: no room. It was: too much")


async def test_a_new_name_begins_a_session(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        await pick(screen, "my  project")
        await screen.until("This is the session tui:my-project")
        await screen.type("hello")
        await screen.press("enter")
        assert await heard(daemon, screen, 1) == [("tui:my-project", "hello")]


async def test_a_session_that_is_not_open_leads_back_with_a_word(daemon: FakeGateway, stage: Stage) -> None:
    daemon.closed = {"telegram:5"}
    async with stage.terminal((120, 30)) as screen:
        await pick(screen, "anna")
        await screen.until("The session telegram:5 is not open to you")
        text = await screen.until("● connected")
        await screen.until("Hello me")
        assert "│ tui:me │" in text
        await screen.type("still here")
        await screen.press("enter")
        assert await heard(daemon, screen, 1) == [(SESSION, "still here")]


async def test_rights_that_are_taken_away_are_said_once_and_typing_waits(stage: Stage) -> None:
    async with asyncio.timeout(2 * PATIENCE):
        async with stage.daemon():
            terminal = stage.terminal((120, 30))
            screen = await terminal.__aenter__()
            await screen.until("Hello me")
        stage.gateway.closed = {SESSION}
        async with stage.daemon() as daemon:
            await screen.until("not allowed")
            text = await screen.until("now waits.")
            await screen.type("hello?")
            await screen.press("enter")
            assert text.count("is not open to you") == 1
            assert daemon.heard == []
            await terminal.__aexit__(None, None, None)


async def test_a_first_session_that_is_not_open_ends_the_program_with_the_reason(
    daemon: FakeGateway, stage: Stage
) -> None:
    daemon.closed = {SESSION}
    terminal = Terminal(stage.place, SESSION)
    async with asyncio.timeout(PATIENCE):
        async with terminal.run_test() as pilot:
            while terminal.failure is None:
                await pilot.pause()
    assert isinstance(terminal.failure, StateError)
    assert str(terminal.failure).startswith("the session tui:me is not open to you (tui:me is not a session of tui:me)")
    assert "`goclaw tui --pick`" in str(terminal.failure)


async def test_the_program_can_begin_with_the_list(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal(pick=True, ready="1,204 m") as screen:
        await screen.type("work")
        await screen.press("enter")
        await screen.until("The plan.")


async def test_the_own_keys_of_the_list_reach_nothing_behind_it(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.terminal() as screen:
        daemon.begin("m2", "a long task")
        await screen.until("Esc stops")
        await screen.type("/sessions")
        await screen.press("enter")
        await screen.until("1,204 m")
        await screen.press("ctrl+l", "ctrl+o", "pageup", "tab")
        await screen.press("ctrl+c")
        await screen.until("Enter opens", gone=True)
        await screen.type("still typing")
        await screen.until("still typing")
    assert daemon.heard == [], "nothing was stopped"
