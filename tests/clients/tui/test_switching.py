"""From one session to another: what is shown, what is sent where, and what happens with sessions that are refused."""

import asyncio
from pathlib import Path

import pytest

from goclaw.clients.tui.app import Terminal
from goclaw.common.core.events import Acceptance, Inbound, SessionInfo, Todo
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.errors import StateError
from tests.clients.tui.fake_daemon import PATIENCE, SESSION, FakeGateway, Screen, Stage
from tests.clients.tui.unseen import Unseen, open_unseen
from tests.harness import before_the_next_look

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


async def go(client: Unseen, session: str) -> None:
    """Open the list and choose."""
    client.switching.pick()
    client.host.pick(session)
    async with asyncio.timeout(PATIENCE):
        while client.link.session != session:
            await before_the_next_look()


async def heard(daemon: FakeGateway, number: int) -> list[tuple[str, str]]:
    """Wait for that many messages; where each was said, and what."""
    async with asyncio.timeout(PATIENCE):
        while len(daemon.heard) < number:
            await before_the_next_look()
    return [(inbound.session, inbound.text) for inbound in daemon.heard]


async def test_another_session_takes_the_place_of_this_one(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        daemon.plan("m1", Todo("pack the bags"))
        await client.until("pack the bags")
        daemon.todos = ()
        await go(client, OTHER)
        text = await client.until("You are now in the session tui:work")
        assert "The plan." in text and "Hello me" not in text and "pack the bags" not in text
        assert "│ tui:work │" in await client.until("12.3k of 200k tokens")

        daemon.tell("m2", UserMessage("not for these eyes"))
        daemon.tell("w2", UserMessage("for these eyes"), session=OTHER)
        assert "not for these eyes" not in await client.until("for these eyes")

        await client.send("said at work")
        assert await heard(daemon, 1) == [(OTHER, "said at work")]

        await go(client, SESSION)
        text = await client.until("not for these eyes")
        assert "The plan." not in text and text.count("Hello me") == 1


async def test_two_changes_at_once_lead_to_the_second_session(daemon: FakeGateway, stage: Stage) -> None:
    async with stage.unseen() as client:
        await client.until("Hello me")
        client.switching.switch(OTHER)
        client.switching.switch("telegram:5")  # before the link to the first one has begun
        await client.until("You are now in the session telegram:5")
        await client.send("said there")
        assert await heard(daemon, 1) == [("telegram:5", "said there")]


async def test_the_running_turn_of_the_session_before_is_not_that_of_the_next(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.unseen() as client:
        daemon.begin("m2", "a long task")
        daemon.stream("m2", "Working on it")
        await client.until("Esc stops")
        await go(client, OTHER)
        text = await client.until("The plan.")
        assert "Esc stops" not in text and "Working on it" not in text
        client.incoming.stop()
        await go(client, SESSION)
        text = await client.until("Working on it")
        assert "Esc stops" in text
    assert daemon.heard == []


async def test_nothing_of_the_session_before_stays_while_no_daemon_answers(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE):
        async with stage.daemon() as daemon:
            opened = stage.unseen()
            client = await opened.__aenter__()
            daemon.begin("m2", "a long task")
            daemon.plan("m2", Todo("pack the bags"))
            await client.until("pack the bags")
        await client.until("reconnecting")
        await go(client, OTHER)
        await client.until("pack the bags", gone=True)
        assert client.lines == [] and not client.incoming.running
        assert client.bar.line(100).plain.endswith("│ tui:work"), "no numbers, no time"
        await opened.__aexit__(None, None, None)


@pytest.mark.promise("P-terminal-typing")
async def test_what_was_not_sent_goes_to_the_session_that_it_was_written_in(stage: Stage) -> None:
    async with asyncio.timeout(2 * PATIENCE):
        async with stage.daemon():
            opened = stage.unseen()
            client = await opened.__aenter__()
        await client.until("reconnecting")
        await client.send("for me alone")
        await go(client, OTHER)
        await client.until("for me alone", gone=True)
        assert client.switching.unsent() == ["(to tui:me) for me alone"]
        await client.send("for work alone")
        async with stage.daemon() as daemon:
            said = await heard(daemon, 2)
            await client.until("The plan.")
            assert sorted(said) == [(SESSION, "for me alone"), (OTHER, "for work alone")]
            assert "for me alone" not in client.text()
            await opened.__aexit__(None, None, None)


@pytest.mark.promise("P-terminal-typing")
async def test_who_comes_back_before_it_was_sent_sees_it_wait_and_sends_it_once(stage: Stage) -> None:
    async with asyncio.timeout(2 * PATIENCE), stage.unseen() as client:
        await client.until("no daemon")
        await client.send("early bird")
        await go(client, OTHER)
        await client.until("early bird", gone=True)
        await go(client, SESSION)
        await client.until("early bird")
        async with stage.daemon() as daemon:
            await client.until("Hello me")
            assert await heard(daemon, 1) == [(SESSION, "early bird")]
            assert client.text().count("early bird") == 1


async def test_what_is_refused_elsewhere_is_told_with_its_text(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asyncio.timeout(2 * PATIENCE), stage.unseen() as client:
        await client.until("no daemon")
        await client.send("too much")
        await go(client, OTHER)

        async def accept(inbound: Inbound) -> Acceptance:
            raise StateError("no room.")

        monkeypatch.setattr(stage.gateway, "accept", accept)
        async with stage.daemon():
            await client.until("tui:me: not accepted: no room. Your message: too much")


async def test_a_session_that_is_not_open_leads_back_with_a_word(daemon: FakeGateway, stage: Stage) -> None:
    daemon.closed = {"telegram:5"}
    async with stage.unseen() as client:
        await go(client, "telegram:5")
        await client.until("You have no access to the session telegram:5")
        await client.until("Hello me")
        await client.until("● connected │ tui:me │")
        await client.send("still here")
        assert await heard(daemon, 1) == [(SESSION, "still here")]


async def test_rights_that_are_taken_away_are_said_once_and_typing_waits(stage: Stage) -> None:
    async with asyncio.timeout(2 * PATIENCE):
        async with stage.daemon():
            opened = stage.unseen()
            client = await opened.__aenter__()
            await client.until("Hello me")
        stage.gateway.closed = {SESSION}
        async with stage.daemon() as daemon:
            await client.until("not allowed")
            text = await client.until("will wait.")
            await client.send("hello?")
            assert text.count("have no access") == 1
            assert "your message will wait | 1 not sent yet" in client.doing
            assert daemon.heard == []
            await opened.__aexit__(None, None, None)


async def test_a_first_session_that_is_not_open_ends_the_program_with_the_reason(
    daemon: FakeGateway, stage: Stage
) -> None:
    daemon.closed = {SESSION}
    async with asyncio.timeout(PATIENCE), open_unseen(stage.place, SESSION, stage.clock) as client:
        while not client.host.has_ended:
            await before_the_next_look()
        refusal = client.switching.refusal
    assert isinstance(refusal, StateError)
    assert str(refusal).startswith("you have no access to the session tui:me (tui:me is not a session of tui:me)")
    assert "`goclaw tui --pick`" in str(refusal)


async def test_the_list_is_asked_for_again_when_a_daemon_comes_back(stage: Stage) -> None:
    async with asyncio.timeout(PATIENCE), stage.unseen() as client:
        await client.until("no daemon")
        client.switching.pick()
        picker = client.host.picker
        assert picker is not None and not picker.has_sessions
        async with stage.daemon():
            while not picker.has_sessions:
                await before_the_next_look()


# On a screen


async def pick(screen: Screen, typed: str) -> None:
    """Open the list, type, take the first line."""
    await screen.type("/sessions")
    await screen.press("enter")
    await screen.until("1,204 m")
    await screen.type(typed)
    await screen.press("enter")


@pytest.mark.screen
async def test_the_list_opens_finds_and_begins_sessions_and_its_keys_reach_nothing_behind_it(
    daemon: FakeGateway, stage: Stage
) -> None:
    async with stage.terminal((120, 30), pick=True, ready="1,204 m") as screen:
        await screen.type("me")
        await screen.press("enter")
        await screen.until("Hello me")
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
        await screen.press("shift+home", "backspace")

        await pick(screen, "work")
        text = await screen.until("You are now in the session tui:work")
        assert "The plan." in text and "Hello me" not in text

        await pick(screen, "my  project")
        await screen.until("You are now in the session tui:my-project")
        await screen.type("hello")
        await screen.press("enter")
        assert await heard(daemon, 1) == [("tui:my-project", "hello")]


@pytest.mark.screen
async def test_a_program_whose_first_session_is_not_open_ends_by_itself(daemon: FakeGateway, stage: Stage) -> None:
    daemon.closed = {SESSION}
    terminal = Terminal(stage.place, SESSION)
    async with asyncio.timeout(PATIENCE):
        async with terminal.run_test() as pilot:
            while terminal.failure is None:
                await pilot.pause()
    assert isinstance(terminal.failure, StateError)
