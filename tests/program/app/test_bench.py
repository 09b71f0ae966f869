"""An agent at work on a bench: the daemon's own parts, one person, and a script."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.declare import RunPolicy, agent, tool
from goclaw.testing import AgentBench, Answer, open_bench

WATERED: list[str] = []


def place_of(plant: str) -> str:
    """Say where a plant grows best."""
    return f"{plant}: in the sun"


@tool(confirm="Water {{ plant }}?")
def water(plant: str) -> str:
    """Water a plant."""
    WATERED.append(plant)
    return f"{plant} got water"


GARDENER = agent("gardener", "Knows plants.", uses=[place_of, water], policy=RunPolicy(max_tool_calls=2))
SCRIPT = [Answer(calls=(ToolCall("c1", "water", {"plant": "rose"}),)), Answer("Done.")]


async def say(bench: AgentBench, text: str) -> str:
    async with asyncio.timeout(30):
        return await bench.say(text)


@pytest.mark.parametrize("agrees", [True, False])
async def test_an_agent_answers_by_its_script_and_its_tools_ask_the_person(agrees: bool, tmp_path: Path) -> None:
    WATERED.clear()
    async with open_bench(tmp_path, GARDENER, script=SCRIPT) as bench:
        bench.agrees = agrees
        assert await say(bench, "Water the rose") == "Done."
        assert [question.about for question in bench.asked] == ["gardener.tools.water"]
        assert "Water rose?" in bench.asked[0].title + bench.asked[0].text
    assert (["rose"] if agrees else []) == WATERED


async def test_its_caps_hold_and_a_command_is_answered(tmp_path: Path) -> None:
    calls = tuple(ToolCall(f"c{number}", "place_of", {"plant": "fern"}) for number in range(3))
    async with open_bench(tmp_path, GARDENER, script=[Answer(calls=calls), Answer("Done.")]) as bench:
        assert "I stopped after 2 tool calls" in await say(bench, "Where?")
        assert "gardener" in await say(bench, "/agent")


async def test_declared_tools_and_toolsets_are_tried_as_tools_are(tmp_path: Path) -> None:
    async with open_bench(tmp_path, water) as bench:
        assert (await bench.call("water", {"plant": "fern"})).content == "fern got water"
