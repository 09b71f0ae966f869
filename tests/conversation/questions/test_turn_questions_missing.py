"""Calls that lack required arguments: left to the model, the end of the turn, asked for, or passed over."""

import asyncio
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import pytest
from pydantic import Field

from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import SideEffect
from goclaw.conversation.questions.turn_questions import missing_in, parsed
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.harness import PATIENCE, Answer, Core, World

HERE = "memory:here"


def booking(made: list[tuple[Any, ...]]) -> Tool:
    """A tool with arguments of several types."""

    @tool(side_effect=SideEffect.NONE)
    async def book(
        ctx: ToolContext,
        place: Annotated[str, Field(description="Where to")],
        seats: int,
        window: bool,
        rank: Literal["first", "second"],
        note: str = "",
    ) -> str:
        """Book a journey."""
        made.append((place, seats, window, rank, note))
        return "booked"

    return book


def world_of(folder: Path, made: list[tuple[Any, ...]], mode: str, *inputs: dict[str, Any]) -> World:
    calls = [Answer(calls=(ToolCall(f"c{number}", "book", given),)) for number, given in enumerate(inputs)]
    policy = {"on_missing_fields": mode, "max_consecutive_failed_tool_calls": 2}
    return World(folder, [*calls, Answer("done")], tools=[booking(made)], agents={"main": {"policy": policy}})


def errors(world: World) -> list[str]:
    """What the model read of calls that failed, in its last request."""
    results = [message for message in world.script.requests[-1].messages if isinstance(message, ToolResult)]
    return [str(orjson.loads(result.content)["error"]) for result in results if result.is_error]


async def asked(core: Core, before: Collection[str] = ()) -> str:
    """Wait for a question that was not asked before; its id."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for question in core.sessions.ports.questions.of(HERE):
                if question.id not in before:
                    return question.id
            await asyncio.sleep(0)


async def test_what_is_missing_is_asked_for_a_question_each_and_the_call_runs_with_the_answers(tmp_path: Path) -> None:
    made: list[tuple[Any, ...]] = []
    seen: set[str] = set()
    world = world_of(tmp_path, made, "await_clarification", {"note": "quiet"})
    async with world.running() as core:
        await core.say("book it")
        for answer in ("Rome", "3"):
            seen.add(await asked(core, seen))
            assert (await core.say(answer)).text == "Thank you."
    async with world.running() as core:  # a restart asks nothing again
        for answer in ("yes", "second"):
            seen.add(await asked(core, seen))
            assert (await core.say(answer)).text == "Thank you."
        await core.settled()
    assert made == [("Rome", 3, True, "second", "quiet")]
    assert world.texts()[-1] == "done"
    assert "Where to" in world.texts()[0]


async def test_a_question_that_is_declined_is_an_error_for_the_model(tmp_path: Path) -> None:
    made: list[tuple[Any, ...]] = []
    world = world_of(tmp_path, made, "await_clarification", {"seats": 1, "window": True, "rank": "first"})
    async with world.running() as core:
        await core.say("book it")
        await core.command(f"/deny {await asked(core)}")
        await core.settled()
    assert errors(world) == ["the user cancelled the question"]
    assert not made


async def test_words_that_are_no_such_value_are_judged_like_the_models_own(tmp_path: Path) -> None:
    made: list[tuple[Any, ...]] = []
    world = world_of(tmp_path, made, "await_clarification", {"place": "Rome", "window": True, "rank": "first"})
    async with world.running() as core:
        await core.say("book it")
        await asked(core)
        await core.say("a few")
        await core.settled()
    assert errors(world) == ['field "seats": expected integer, got string']


async def test_the_turn_ends_where_that_is_wanted_and_says_what_was_missing(tmp_path: Path) -> None:
    made: list[tuple[Any, ...]] = []
    world = world_of(tmp_path, made, "finalize", {"place": "Rome", "seats": 1})
    async with world.running() as core:
        await core.say("book it")
        await core.settled()
        last = (await core.messages())[-2]
    assert world.texts() == ["I stopped: my call of book lacked required fields: window, rank."]
    assert isinstance(last, ToolResult)
    assert last.is_error


async def test_the_turn_goes_on_where_that_is_wanted_and_no_failure_is_counted(tmp_path: Path) -> None:
    made: list[tuple[Any, ...]] = []
    world = world_of(tmp_path, made, "resume", {"seats": 1}, {"seats": 2}, {"seats": 3})
    async with world.running() as core:
        await core.say("book it")
        await core.settled()
    assert errors(world) == ["missing required fields: place, window, rank"] * 3
    assert world.texts() == ["done"]


async def test_where_nothing_is_said_the_model_reads_what_is_wrong(tmp_path: Path) -> None:
    made: list[tuple[Any, ...]] = []
    world = world_of(tmp_path, made, "", {"place": "Rome", "seats": 1, "window": True})
    async with world.running() as core:
        await core.say("book it")
        await core.settled()
    (error,) = errors(world)
    assert error.startswith('field "rank": expected ')
    assert world.texts() == ["done"]


def test_a_call_with_names_that_the_tool_does_not_know_is_the_models_to_mend() -> None:
    spec = booking([]).spec
    assert missing_in(spec, ToolCall("c", "book", {"where": "Rome"})) == ()
    assert missing_in(spec, ToolCall("c", "book", {"place": "Rome"})) == ("seats", "window", "rank")


@pytest.mark.parametrize(
    ("words", "schema", "value"),
    [
        ("3", {"type": "string"}, "3"),
        ("3", {"type": "integer"}, 3),
        ("2.5", {"type": "number"}, 2.5),
        ("three", {"type": "integer"}, "three"),
        ("a, b", {"type": "array"}, ["a", "b"]),
        ('["a, b"]', {"type": "array"}, ["a, b"]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("7", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 7),
        ("null", {"anyOf": [{"type": "string"}, {"type": "null"}]}, "null"),
        ("x", {}, "x"),
    ],
)
def test_words_become_values_of_the_fields_type(words: str, schema: dict[str, Any], value: object) -> None:
    assert parsed(words, schema) == value
