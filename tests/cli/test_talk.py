"""`goclaw send` while a turn waits for a person: it says so and how to answer, whoever asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.cli import talk
from goclaw.events import GONE, Question, QuestionAsked, TurnEvent
from goclaw.messages import ToolCall
from goclaw.servers.socket import open_socket
from goclaw.specs import Risk, SideEffect
from goclaw.state import open_state
from goclaw.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.ask_user import ask_user
from tests.harness import PATIENCE, Answer, Core, World

SESSION = "tui:me"


def dig() -> Tool:
    """A tool that asks before it runs."""

    @tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH, name="dig")
    async def run(ctx: ToolContext, where: str) -> str:
        """Dig a hole."""
        return f"dug {where}"

    return run


def digging(folder: Path) -> World:
    call = ToolCall("c1", "dig", {"where": "here"})
    return World(folder, [Answer("I will.", calls=(call,), when="go"), Answer("Done.", when="dug")], tools=[dig()])


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


async def test_what_a_turn_waits_for_is_said_on_standard_error_with_the_command_that_answers_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = digging(tmp_path)
    async with daemon(world) as core:
        sending = asyncio.create_task(talk.send(world.config, "go", SESSION))
        question = await asked(core)
        command = f"/approve {question.id}"
        assert await talk.send(world.config, command, SESSION) == ("Allowed.", True)
        assert await sending == ("Done.", True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "May dig run?" in err and '"where": "here"' in err
    assert f"goclaw send --session {SESSION} '{command}'" in err


async def test_as_json_it_is_an_event_among_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = digging(tmp_path)
    async with daemon(world) as core:
        sending = asyncio.create_task(talk.send(world.config, "go", SESSION, as_json=True))
        question = await asked(core)
        await talk.send(world.config, f"/deny {question.id}", SESSION)
        await sending
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in out.splitlines()]
    named = {event["name"]: event for event in events}
    assert named["QuestionAsked"]["question"]["id"] == named["QuestionAnswered"]["question_id"] == question.id
    assert "waiting" not in err


@pytest.mark.parametrize("as_json", [False, True])
async def test_a_message_behind_a_turn_that_waits_says_what_holds_it_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    world = digging(tmp_path)
    world.script.add(Answer("Hello yourself.", when="hello"))
    async with daemon(world) as core:
        first = asyncio.create_task(talk.send(world.config, "go", SESSION))
        question = await asked(core)
        capsys.readouterr()
        second = asyncio.create_task(talk.send(world.config, "hello", SESSION, as_json=as_json))
        await until_queued(core)
        await talk.send(world.config, f"/approve {question.id}", SESSION)
        await first
        assert (await second)[1]
    out, err = capsys.readouterr()
    assert question.id in (out if as_json else err)
    assert ("not finished" in err) is not as_json


async def test_a_message_may_be_the_answer_and_one_that_is_too_late_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = asking(tmp_path)
    async with daemon(world) as core:
        sending = asyncio.create_task(talk.send(world.config, "go", SESSION))
        question = await asked(core)
        assert await talk.send(world.config, "2", SESSION) == ("Thank you.", True)
        assert await sending == ("Done.", True)
        assert await talk.send(world.config, f"/deny {question.id}", SESSION) == (GONE, False)
    assert "2. blue" in capsys.readouterr().err
