"""`goclaw send` while a turn waits for a person: it says so and how to answer, another turn, too."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from goclaw.clients.tui import link
from goclaw.clients.tui import link as link_module
from goclaw.common.auth.users import User
from goclaw.common.config.state import open_state
from goclaw.common.core.events import Actor, Address, Delivery, Question, QuestionAsked, TurnEvent
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Risk, SideEffect
from goclaw.errors import StateError
from goclaw.gateway.servers import event_coalescing
from goclaw.gateway.servers.socket_file import open_socket
from goclaw.llm.base import Stop
from goclaw.program.cli import send
from goclaw.tools.builtin.ask_user import ask_user
from goclaw.tools.builtin.message import message
from goclaw.tools.builtin.read import read
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.clients.tui.bad_line import BadLine, open_bad_line
from tests.harness import PATIENCE, Answer, Core, World
from tests.parts import Trail, acting

SESSION = "tui:me"


def dig() -> Tool:
    """A tool that asks before it runs."""

    @tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH, name="dig")
    async def run(ctx: ToolContext, where: str) -> str:
        """Dig a hole."""
        return f"dug {where}"

    return run


def digging(folder: Path, **options: Any) -> World:
    call = ToolCall("c1", "dig", {"where": "here"})
    return World(
        folder, [Answer("I will.", calls=(call,), when="go"), Answer("Done.", when="dug")], tools=[dig()], **options
    )


def asking(folder: Path) -> World:
    call = ToolCall("c1", "ask_user", {"questions": [{"question": "Which?", "options": ["red", "blue"]}]})
    return World(folder, [Answer("Hm.", calls=(call,), when="go"), Answer("Done.", when="blue")], tools=[ask_user])


@asynccontextmanager
async def daemon(world: World) -> AsyncIterator[Core]:
    async with world.running() as core, asyncio.timeout(PATIENCE):
        # The lock tells `goclaw send` that a daemon runs.
        with open_state(world.config):
            async with open_socket(world.config.socket_path, core.gateway, world.clock, lambda: ""):
                yield core


async def asked(core: Core) -> Question:
    """What is asked in the session, as soon as something is."""
    async with core.gateway.subscribe(SESSION) as events:
        if waiting := (await core.gateway.now(SESSION)).questions:
            return waiting[0]
        return await first_question(events)


async def until_queued(core: Core) -> None:
    """Wait until a message stands behind the turn that waits."""
    while True:
        if core.engine.waiting(SESSION):
            return
        await asyncio.sleep(0)


async def first_question(events: AsyncIterator[TurnEvent]) -> Question:
    async for event in events:
        if isinstance(event, QuestionAsked):
            return event.question
    raise AssertionError("nothing was asked")


async def test_it_waits_for_a_daemon_that_is_starting_although_one_that_was_killed_left_its_socket(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, [Answer("Here I am.", when="hi")])
    world.config.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(world.config.socket_path))
    async with world.running() as core, asyncio.timeout(PATIENCE):
        with open_state(world.config):
            sending = asyncio.create_task(send.send_and_wait(world.config, "hi", SESSION))
            await asyncio.sleep(0)
            async with open_socket(world.config.socket_path, core.gateway, world.clock, lambda: ""):
                assert await sending == ("Here I am.", True)


async def test_what_a_turn_waits_for_is_said_on_standard_error_with_the_command_that_answers_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = digging(tmp_path)
    async with daemon(world) as core:
        sending = asyncio.create_task(send.send_and_wait(world.config, "go", SESSION))
        question = await asked(core)
        command = f"/approve {question.id}"
        assert await send.send_and_wait(world.config, command, SESSION) == ("Allowed.", True)
        assert await sending == ("Done.", True)
    out, err = capsys.readouterr()
    assert out == "I will.\n\n", "the last answer is the command's to print"
    assert "wants to use `dig`" in err and "here" in err
    assert f"goclaw send --session {SESSION} '{command}'" in err


async def test_as_json_it_is_an_event_among_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = digging(tmp_path)
    async with daemon(world) as core:
        sending = asyncio.create_task(send.send_and_wait(world.config, "go", SESSION, as_json=True))
        question = await asked(core)
        await send.send_and_wait(world.config, f"/deny {question.id}", SESSION)
        await sending
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in out.splitlines()]
    named = {event["name"]: event for event in events}
    assert named["QuestionAsked"]["question"]["id"] == named["QuestionAnswered"]["question_id"] == question.id
    assert "waiting" not in err


@pytest.mark.promise("P-interim")
async def test_what_is_said_before_tool_calls_is_printed_before_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look = ToolCall("c1", "look", {})
    script = [Answer("Here is ", stop=Stop.LENGTH), Answer("the plan.", calls=(look,)), Answer("")]
    world = World(tmp_path, script, tools=[acting("look", Trail().leave)], limits={"continue_cut": True})
    async with daemon(world):
        assert await send.send_and_wait(world.config, "go", SESSION) == ("", True)
    assert capsys.readouterr().out == "Here is the plan.\n"


@pytest.mark.promise("P-files-given")
async def test_what_the_agent_hands_over_is_printed_a_text_as_its_words_and_files_besides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ToolCall("c1", "message", {"action": "send", "text": "Wait.", "media_path": "sales.csv"})
    answers = [Answer("", calls=(call,), when="go"), Answer("See [it](plot.png).", when="shown")]
    world = World(tmp_path, answers, tools=[message, read])
    (world.root / "sales.csv").write_text("May,3\n")
    (world.root / "plot.png").write_bytes(b"x")
    async with daemon(world):
        assert await send.send_and_wait(world.config, "go", SESSION) == ("See [it](plot.png).", True)
    said = capsys.readouterr()
    assert said.out.split() == ["Wait."]
    assert [line for line in said.err.splitlines() if "▸" in line or "open" in line] == [
        "goclaw: ▸ sales.csv · 6 B",
        f"goclaw:   goclaw open --user {SESSION} sales.csv",
        "goclaw: ▸ plot.png · 1 B",
        f"goclaw:   goclaw open --user {SESSION} plot.png",
    ]


async def test_texts_before_tool_calls_and_the_answer_stand_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [ToolCall(f"c{number}", "look", {}) for number in (1, 2)]
    script = [Answer("First.", calls=(looks[0],)), Answer("Then.", calls=(looks[1],)), Answer("Done.")]
    world = World(tmp_path, script, tools=[acting("look", Trail().leave)])
    async with daemon(world):
        assert await send.send_and_wait(world.config, "go", SESSION) == ("Done.", True)
    assert capsys.readouterr().out == "First.\n\nThen.\n\n"


async def test_what_comes_behind_a_call_is_apart_from_the_text_that_was_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [ToolCall(f"c{number}", "look", {}) for number in (1, 2)]
    cut = Answer("Once upon a ti", stop=Stop.LENGTH)
    script = [cut, Answer("", calls=(looks[0],)), Answer("Next.", calls=(looks[1],)), Answer("Done.")]
    world = World(tmp_path, script, tools=[acting("look", Trail().leave)], limits={"continue_cut": True})
    async with daemon(world):
        assert await send.send_and_wait(world.config, "go", SESSION) == ("Done.", True)
    assert capsys.readouterr().out == "Once upon a ti\n\nNext.\n\n"


@pytest.mark.promise("P-no-silent-cut")
async def test_an_answer_that_was_cut_is_an_outcome_of_its_own_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, [Answer("Once upon a ti", stop=Stop.LENGTH)])
    async with daemon(world):
        told, went_well = await send.send_and_wait(world.config, "go", SESSION, as_json=True)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (end,) = [event for event in events if event["name"] == "TurnFinished"]
    assert (told, went_well, end["outcome"]) == ("", True, "cut") and end["text"].startswith("Once upon a ti")


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_message_behind_a_turn_that_waits_says_what_holds_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    world = digging(tmp_path)
    world.script.add(Answer("Hello yourself.", when="hello"))
    async with daemon(world) as core:
        first = asyncio.create_task(send.send_and_wait(world.config, "go", SESSION))
        question = await asked(core)
        capsys.readouterr()
        second = asyncio.create_task(send.send_and_wait(world.config, "hello", SESSION, as_json=as_json))
        await until_queued(core)
        await send.send_and_wait(world.config, f"/approve {question.id}", SESSION)
        await first
        assert (await second)[1]
    out, err = capsys.readouterr()
    assert question.id in (out if as_json else err)
    assert ("waiting for an earlier message" in err) is not as_json


async def test_a_question_that_holds_up_no_turn_is_not_what_a_message_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ann, bo = Actor("telegram:5", "memory"), Actor("telegram:6", "memory")
    people = [User(SESSION, name="Me", roles=frozenset({"admin"})), User(ann.key, name="Ann"), User(bo.key, name="Bo")]
    world = digging(tmp_path, users=people)
    async with daemon(world) as core:
        others = core.schedules.scheduler.others

        async def ask_for(author: Actor) -> None:
            plan = await others.plan(author, [Delivery(author.key, Address("tui", "me"), "Tea?", session=author.key)])
            await core.database.write(*plan.also)
            plan.start()

        await ask_for(ann)
        async with core.gateway.subscribe(SESSION) as events:
            sending = asyncio.create_task(send.send_and_wait(world.config, "go", SESSION))
            question = await first_question(events)
        await ask_for(bo)
        assert [each.title[:3] for each in (await core.gateway.now(SESSION)).questions][1:] == ["Ann", "Bo "]
        await core.gateway.decide(Actor(SESSION, "socket"), question.id, "allow")
        assert (await sending)[1]
    err = capsys.readouterr().err
    assert question.title in err and "wants to send" not in err


async def test_a_message_may_be_the_answer_and_one_that_is_too_late_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = asking(tmp_path)
    async with daemon(world) as core:
        sending = asyncio.create_task(send.send_and_wait(world.config, "go", SESSION))
        question = await asked(core)
        assert await send.send_and_wait(world.config, "2", SESSION) == ("Thank you.", True)
        assert await sending == ("Done.", True)
        late = await send.send_and_wait(world.config, f"/deny {question.id}", SESSION)
        assert late == ("Already decided: tui:me: blue.", False)
    assert "2. blue" in capsys.readouterr().err


@asynccontextmanager
async def on_a_bad_line(world: World) -> AsyncIterator[BadLine]:
    """A line at the daemon's place, to a daemon elsewhere."""
    with open_state(world.config):
        async with asyncio.timeout(PATIENCE), open_bad_line(world.config.socket_path, world.folder / "d") as line:
            yield line


@asynccontextmanager
async def behind_it(world: World) -> AsyncIterator[Core]:
    async with world.running() as core:
        async with open_socket(world.folder / "d", core.gateway, world.clock, lambda: ""):
            yield core
            core.database.buried.set()


def painting(folder: Path) -> World:
    return World(folder, [Answer("It is blue, all of it.", deltas=4, when="paint")])


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event is a frame of its own, and a client comes back at once."""
    monkeypatch.setattr(link_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(event_coalescing, "MOMENT_SECONDS", 0.0)


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("frames", range(8))
@pytest.mark.usefixtures("at_once")
async def test_a_break_anywhere_ends_in_one_answer(tmp_path: Path, frames: int) -> None:
    world = painting(tmp_path)
    async with behind_it(world) as core, on_a_bad_line(world) as line:
        line.break_after = frames
        assert await send.send_and_wait(world.config, "paint it", SESSION) == ("It is blue, all of it.", True)
        assert line.breaks == 1 and len(await core.messages(SESSION)) == 2


@pytest.mark.parametrize("way", ["lose", "deafen"])
@pytest.mark.parametrize(("text", "answer"), [("paint it", "It is blue, all of it."), ("/stop", "Nothing is running.")])
@pytest.mark.usefixtures("at_once")
async def test_so_does_one_before_or_after_the_message_arrived(
    tmp_path: Path, way: str, text: str, answer: str
) -> None:
    world = painting(tmp_path)
    async with behind_it(world), on_a_bad_line(world) as line:
        setattr(line, way, lambda frame: frame["type"] == "send")
        assert await send.send_and_wait(world.config, text, SESSION) == (answer, True)
        assert line.breaks == 1


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.usefixtures("at_once")
async def test_a_daemon_that_is_restarted_meanwhile_ends_in_one_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool, is_answered: bool
) -> None:
    world = painting(tmp_path)
    world.script.gate = asyncio.Event()
    async with on_a_bad_line(world) as line:
        async with behind_it(world) as core:
            sending = asyncio.create_task(send.send_and_wait(world.config, "paint it", SESSION, as_json=as_json))
            await line.until("TextStreamed")
            line.hang_up()
            if is_answered:
                world.script.gate.set()
                await core.settled()
        world.script.gate.set()
        async with behind_it(world) as core:
            await core.settled()
            line.up.set()
            assert await sending == ("" if as_json else "It is blue, all of it.", True)
            assert len(await core.messages(SESSION)) == 2
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    if as_json:
        names = [event["name"] for event in told]
        assert names.count("MessageStored") == 2 and names.count("TurnFinished") == 1
        assert (names[-1], told[-1]["text"]) == ("TurnFinished", "It is blue, all of it.")


@pytest.mark.usefixtures("at_once")
async def test_a_daemon_that_does_not_come_back_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "RETURN_SECONDS", 0.05)
    world = painting(tmp_path)
    world.script.gate = asyncio.Event()
    async with on_a_bad_line(world) as line, behind_it(world):
        sending = asyncio.create_task(send.send_and_wait(world.config, "paint it", SESSION))
        await line.until("TextStreamed")
        line.hang_up()
        with pytest.raises(StateError, match="the daemon answers it at the next start, in session tui:me"):
            await sending
