"""Every limit ends the turn with a sentence to the user that names the limit; the log names its key."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.events import Outcome, TurnFinished
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult
from goclaw.common.specs import SideEffect
from goclaw.errors import ToolError
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.harness import Answer, World
from tests.parts import Trail, acting


def calls(count: int, *, same: bool = False) -> list[Answer]:
    """Answers that ask for one tool each."""
    return [Answer(calls=(ToolCall(f"c{n}", "look", {} if same else {"n": n}),)) for n in range(count)]


async def fail() -> str:
    raise ToolError("file not found: x")


@pytest.mark.promise("P-limits")
@pytest.mark.parametrize(
    ("limits", "answers", "sentence"),
    [
        (
            {"tool_calls": 2},
            calls(3),
            "I stopped after 2 tool calls in one turn.",
        ),
        (
            {"repeated_calls": 2},
            calls(3, same=True),
            "I stopped: I repeated the same look call more than 2 times in a row.",
        ),
        (
            {"failed_calls": 2},
            calls(3, same=True),
            "I stopped after 2 failed tool calls in a row.",
        ),
        (
            {"turn_seconds": 2},  # in which a slow machine, too, asks and hears the first words
            [Answer("Let me think", seconds=60)],
            "I stopped: this took longer than 2 s.",
        ),
    ],
)
async def test_a_limit_names_itself_to_the_user_and_its_key_to_the_log(
    tmp_path: Path, limits: dict[str, Any], answers: list[Answer], sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    written = "Let me\n\n[stopped here]\n" if "turn_seconds" in limits else ""
    world = World(tmp_path, answers, tools=[acting("look", fail)], limits=limits)
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        stored = await core.messages()
        assert [event.outcome for event in core.seen if isinstance(event, TurnFinished)] == [Outcome.LIMITED]
    assert world.texts() == [f"{written}{sentence}"]
    notice = f"[stopped here]\n{sentence}" if written else f"[{sentence}]"
    assert stored[-1] == AssistantMessage(notice, notice=True)
    assert not written or stored[-2] == AssistantMessage("Let me")
    assert f"the turn reached limits.{next(iter(limits))}" in caplog.messages


@tool(side_effect=SideEffect.READ_ONLY)
async def look_up(ctx: ToolContext, word: str) -> str:
    """Look up a word."""
    return f"{word}: a thing"


@pytest.mark.promise("P-limits")
@pytest.mark.parametrize(("name", "given"), [("look_up", {"term": "tree"}), ("lok_up", {})])
async def test_calls_of_wrong_form_end_no_turn_before_the_schema_was_shown(
    name: str, given: dict[str, Any], tmp_path: Path
) -> None:
    wrong = [Answer(calls=(ToolCall(f"c{n}", name, {**given, "n": n}),)) for n in range(5)]
    right = Answer(calls=(ToolCall("right", "look_up", {"word": "tree"}),))
    world = World(tmp_path, [*wrong, right, Answer("A thing.")], tools=[look_up])
    async with world.running() as core:
        await core.say("what is a tree?")
        await core.settled()
        results = [message for message in await core.messages() if isinstance(message, ToolResult)]
    shown = [json.loads(result.content).get("schemas") for result in results[:-1]]
    assert shown[:4] == [None] * 4
    assert shown[4]["look_up"]["required"] == ["word"]
    assert results[-1].content == "tree: a thing"
    assert world.texts() == ["A thing."]


@pytest.mark.promise("P-limits")
async def test_what_a_limit_kept_from_running_has_a_result_and_the_next_turn_begins_anew(tmp_path: Path) -> None:
    trail = Trail()
    many = Answer(calls=tuple(ToolCall(f"c{n}", "look", {}) for n in range(5)))
    world = World(
        tmp_path,
        [many, Answer("Fine.")],
        tools=[acting("look", trail.leave)],
        limits={"tool_calls": 4, "repeated_calls": 9},
    )
    async with world.running() as core:
        await core.say("go")
        await core.settled()
        stored = await core.messages()
        await core.say("and now?")
        await core.settled()
    results = [message for message in stored if isinstance(message, ToolResult)]
    assert [result.call_id for result in results] == [call.id for call in many.calls]
    assert {result.content for result in results} == {'{"error": "not finished: the turn reached a limit"}'}
    assert trail.times == 0, "nothing of an answer runs that asks for too much"
    assert world.texts()[-1] == "Fine."


@pytest.mark.promise("P-limits")
async def test_a_tool_is_cut_when_the_turn_has_taken_too_long(tmp_path: Path) -> None:
    trail = Trail()
    world = World(
        tmp_path, calls(1, same=True), tools=[acting("look", trail.leave_slowly)], limits={"turn_seconds": 0.2}
    )
    async with world.running() as core:
        await core.say("go")
        await core.settled()
    assert trail.cancelled == trail.times <= 1
    assert world.texts() == ["I stopped: this took longer than 0.2 s."]
