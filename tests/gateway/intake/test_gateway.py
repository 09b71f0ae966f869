"""What becomes of a message: nobody's, a command, or a turn; each taken once."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import AcceptKind, Actor, Address, Inbound, Notice
from goclaw.common.core.messages import AssistantMessage, UserMessage
from tests.harness import PATIENCE, Answer, World

ANNA = Actor("telegram:5", "telegram", name="Anna")
STRANGER = Actor("telegram:666", "telegram", name="Mallory")
LOCAL = Address("local", "tui:me")


def world_of(tmp_path: Path, *answers: Answer, **options: object) -> World:
    return World(tmp_path, answers, users=[User("telegram:5")], **options)  # type: ignore[arg-type]  # passed on


@pytest.mark.promise("P-strangers-ignored")
async def test_a_stranger_is_ignored_and_logged_once_a_minute_by_numeric_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        for text in ("hello", "/help", "/stop", "let me in"):
            receipt = await core.say(text, actor=STRANGER, session="telegram:666")
            assert receipt.kind is AcceptKind.IGNORED
        assert "ignored a message from telegram:666 via telegram" in caplog.text
        assert caplog.text.count("ignored a message") == 1
        assert "Mallory" not in caplog.text and "let me in" not in caplog.text
        world.clock.advance(61)
        await core.say("again", actor=STRANGER, session="telegram:666")
        assert caplog.text.count("ignored a message") == 2
        await core.settled()
        assert await core.messages("telegram:666") == []
    assert world.texts() == [] and world.script.requests == []


@pytest.mark.promise("P-strangers-ignored")
async def test_a_user_cannot_write_into_somebody_elses_session(tmp_path: Path) -> None:
    async with world_of(tmp_path).running() as core:
        receipt = await core.say("hi", actor=ANNA, session="telegram:6")
        assert receipt.kind is AcceptKind.IGNORED


@pytest.mark.promise("P-answered-once")
async def test_a_message_that_comes_again_is_dropped(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("Hello"))
    async with world.running() as core:
        assert (await core.say("hi", message_id="1")).kind is AcceptKind.TURN
        assert (await core.say("hi", message_id="1")).kind is AcceptKind.DUPLICATE
        await core.settled()
    async with world.running() as core:
        again = await core.say("hi", message_id="1")
        await core.settled()
    assert (again.kind, again.turn) == (AcceptKind.DUPLICATE, "memory:1")
    assert world.texts() == ["Hello"]


@pytest.mark.promise("P-answered-once")
async def test_a_command_that_comes_again_is_dropped(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        await asyncio.gather(*(core.say("/help", message_id="1") for _ in range(3)))
        await core.settled()
        assert (await core.say("/help", message_id="1")).kind is AcceptKind.DUPLICATE
        await core.settled()
    assert len(world.texts()) == 1


@pytest.mark.promise("P-commands-at-once")
async def test_commands_are_answered_while_a_turn_hangs(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("a long answer"))
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        await core.say("and then?")
        await core.say("and after that?")
        async with asyncio.timeout(PATIENCE):
            await world.script.streaming.wait()
            for command in ("/status", "/help", "/whoami", "/start", "/clear", "/nonsense"):
                assert await core.command(command)
                assert (await core.room.heard()).delivery.text
        assert core.engine.running("memory:here") and core.engine.waiting("memory:here") == 2
        assert await core.command("/stop") == "Stopped. 2 waiting messages follow now."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/nonsense", "Unknown command: /nonsense. Send /help for the list."),
        ("/statsu", "Unknown command: /statsu. Did you mean /status? Send /help for the list."),
    ],
)
async def test_an_unknown_command_says_so_and_points_to_help(tmp_path: Path, text: str, answer: str) -> None:
    world = world_of(tmp_path)
    async with world.running() as core:
        assert await core.command(text) == answer
        await core.settled()
        assert await core.messages() == []
    assert world.texts() == [answer]


@pytest.mark.parametrize("text", ["/HELP", "/help@our_bot", "  /help \n", "/Help me please"])
async def test_a_command_is_known_in_any_dress(tmp_path: Path, text: str) -> None:
    async with world_of(tmp_path).running() as core:
        assert (await core.command(text)).startswith("Available commands:")


async def test_what_was_forwarded_is_no_command_however_it_begins(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("So they say."))
    async with world.running() as core:
        address = Address("telegram", "5")
        forwarded = Inbound("telegram:1", ANNA, "telegram:5", "/help", address, world.clock.now(), forwarded=True)
        assert (await core.gateway.accept(forwarded)).kind is AcceptKind.TURN


@pytest.mark.parametrize("text", ["/etc/hosts is where?", "/", "// comment", "what is /help", "/5"])
async def test_not_everything_with_a_slash_is_a_command(tmp_path: Path, text: str) -> None:
    world = world_of(tmp_path, Answer("Hm."))
    async with world.running() as core:
        assert (await core.say(text)).kind is AcceptKind.TURN
        await core.settled()
    assert world.texts() == ["Hm."]


@pytest.mark.promise("P-limits")
async def test_a_full_queue_is_said_to_be_full_and_a_repetition_is_none(tmp_path: Path) -> None:
    world = world_of(tmp_path, *(Answer(str(n)) for n in range(3)), limits={"queued_messages": 2})
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        for number in range(3):
            await core.say("go", message_id=str(number))
            async with asyncio.timeout(PATIENCE):
                await world.script.streaming.wait()
        full = await core.say("one more", message_id="9")
        assert full.text == "2 messages are already waiting. Try /stop."
        assert (await core.say("go", message_id="2")).kind is AcceptKind.DUPLICATE
        assert (await core.say("go", message_id="2", chat="elsewhere")).kind is AcceptKind.DUPLICATE
        world.script.gate.set()
        await core.settled()
    assert world.texts() == [full.text, "0", "1", "2"]


async def test_users_json_may_name_another_session(tmp_path: Path) -> None:
    world = World(tmp_path, [Answer("Hi all")], users=[User("telegram:5", session="team")])
    async with world.running() as core:
        await core.say("hello", actor=ANNA, session="telegram:5", chat="5")
        await core.settled()
        assert await core.messages("team") == [UserMessage("hello"), AssistantMessage("Hi all")]
        assert core.gateway.session_for(ANNA, "telegram:5") == "team"
        assert core.gateway.session_for(ANNA, "telegram:-100") == "telegram:-100"


async def test_text_that_no_database_holds_is_taken_all_the_same(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("What?"))
    inbound = Inbound("1", Actor("telegram:5", "telegram", name="A\ud800"), "telegram:5", "\udfffhi", LOCAL, 0.0)
    async with world.running() as core:
        assert (await core.gateway.accept(inbound)).kind is AcceptKind.TURN
        await core.settled()
        assert (await core.messages("telegram:5"))[0] == UserMessage("?hi")


async def test_a_terminal_gets_its_answers_from_the_transcript_alone(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("Hello"))
    owner = Actor("tui:me", "socket", owner=True)
    async with world.running() as core:
        await core.gateway.accept(Inbound("1", owner, "tui:me", "hi", LOCAL, 0.0))
        await core.settled()
        assert len(await core.messages("tui:me")) == 2
        assert (await core.gateway.accept(Inbound("2", owner, "tui:me", "/help", LOCAL, 0.0))).text
        await core.gateway.report(Inbound("3", owner, "tui:me", "", LOCAL, 0.0), "done")
        await asyncio.sleep(0)
        assert Notice("tui:me", "done") in core.seen
        assert (await core.outbox.resume(), core.outbox.waiting()) == (0, 0)
    assert world.texts() == []


async def test_history_partial_and_numbers_are_there_for_clients(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("A long answer"), Answer("Hi"))
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("go")
        async with asyncio.timeout(PATIENCE), core.gateway.subscribe("memory:here") as events:
            await anext(events)
            while not (await core.gateway.now("memory:here")).text:
                await anext(events)
        assert (await core.gateway.now("memory:here")).text == "A long "
        world.script.gate.set()
        await core.settled()
        rows = await core.gateway.history("memory:here")
        assert [row.message for row in rows] == [UserMessage("go"), AssistantMessage("A long answer")]
        assert await core.gateway.history("memory:here", after=rows[0].row) == rows[1:]
        numbers = await core.gateway.status("memory:here", Actor("tui:me", "socket", owner=True))
        assert (numbers["messages"], numbers["model"]) == (2, "scripted:test")
        assert str(numbers["text"]).startswith("Session Status\n")
        assert (await core.gateway.decide(ANNA, "1", "allow")).text == (
            "This question does not exist, or is already closed."
        )
