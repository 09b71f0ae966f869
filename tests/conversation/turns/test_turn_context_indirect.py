"""What holds for a direct call holds for one by `tool_call`: hooks, rules, its turn. Agents have cores of their own."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core import catalog
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.plugins import load
from goclaw.common.specs import Risk, SideEffect
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.offering import CORE, SMALL_CORE
from tests.acceptance.waiting import eventually
from tests.conversation.sessions.agents import handing
from tests.conversation.sessions.approving import asked_so_far, reconfigure, results
from tests.conversation.sessions.looking import talk
from tests.conversation.turns.test_turn_parallel import risky, writing
from tests.harness import PATIENCE, World
from tests.parts import Trail, acting

BUILT_IN = [load(path, Tool) for path in catalog.TOOLS.values()]
ITSELF = {"tool_search", "tool_call"}


def indirect(name: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, "tool_call", {"name": name, "arguments": arguments})


def world_of(folder: Path, *answers: Answer, tools: Sequence[Tool] = (), **config: Any) -> tuple[World, ScriptedModel]:
    model = ScriptedModel(answers, rest=Answer("Well."), context_window=100_000)
    return World(folder, tools=[*BUILT_IN, *tools], model=model, **config), model


async def test_a_hook_for_the_tool_hears_of_the_call_and_may_forbid_it(tmp_path: Path) -> None:
    heard: list[tuple[str, object]] = []

    async def guard(event: HookEvent) -> HookAnswer:
        heard.append((event.tool, event.input))
        return HookAnswer(deny="not on Sundays")

    trail = Trail()
    world, _ = world_of(tmp_path, Answer(calls=(indirect("touch"),)), tools=[acting("touch", trail.leave)])
    world.hooks = Hooks([Registered("guard", frozenset({"pre_tool"}), guard, frozenset({"touch"}))])
    async with world.running() as core:
        await talk(core, "touch it")
        said = await results(core)
    assert heard == [("touch", {})] and trail.times == 0 and "not on Sundays" in said[0]


@pytest.mark.parametrize("direct", [True, False])
async def test_calls_that_write_the_same_file_wait_for_each_other(tmp_path: Path, *, direct: bool) -> None:
    first, second = Trail(), Trail()
    calls = (ToolCall("c1", "first", {}) if direct else indirect("first"), indirect("second", "c2"))
    tools = [writing("first", first), writing("second", second)]
    world, _ = world_of(tmp_path, Answer(calls=calls), tools=tools)
    async with world.running() as core:
        await core.say("write")
        async with asyncio.timeout(PATIENCE):
            await first.begun.wait()
        assert second.times == 0
        first.gate.set()
        second.gate.set()
        await core.settled()
    assert (first.times, second.times) == (1, 1)


@pytest.mark.promise("P-approval")
async def test_a_rule_for_a_tool_is_none_for_every_call_of_tool_call(tmp_path: Path) -> None:
    @tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH)
    async def take(ctx: ToolContext) -> str:
        """Need somebody's word."""
        return "taken"

    answers = [Answer(calls=(indirect(name, name),)) for name in ("risky", "take")]
    world, _ = world_of(tmp_path, *answers, tools=[risky, take])
    reconfigure(world, policy={"auto_allow": ["risky"]})
    async with world.running() as core:
        await core.say("do both")
        await eventually(lambda: asked_so_far(core))
        await core.command(f"/deny {asked_so_far(core)[0].id}")
        await core.settled()
        questions, said = [question.text for question in asked_so_far(core)], await results(core)
    assert said[0] == "risky" and len(questions) == 1 and "take" in questions[0]


async def test_agents_have_a_core_and_a_profile_of_their_own(tmp_path: Path) -> None:
    agents = {
        "main": {"tools": ["glob", "agent", "set:filesystem", "set:index"]},
        "kinds": {"cook": {"tools_profile": "core"}},
    }
    world, script = world_of(tmp_path, Answer(calls=(handing("cook tea"),)), agents=agents)
    async with world.running() as core:
        await talk(core, "tea, please")
    mine, theirs = script.requests[0], script.requests[1]
    assert {spec.name for spec in mine.tools} == {"glob", "agent"} | ITSELF
    assert "\nlist: " in mine.system and "todo_write" not in mine.system
    shown = {spec.name for spec in theirs.tools}
    assert shown == {"read", "write", "edit"} | ITSELF, "of what main has, which holds for those that it starts"
    assert "More tools" not in theirs.system


@pytest.mark.parametrize(("option", "shown"), [("core", SMALL_CORE), ("index", CORE)])
async def test_a_model_has_a_profile_of_its_own(tmp_path: Path, option: str, shown: frozenset[str]) -> None:
    models = {"options": {"scripted:test": {"tools_profile": option}}}
    world, script = world_of(tmp_path, models=models)
    async with world.running() as core:
        await talk(core, "hello")
    assert {spec.name for spec in script.requests[0].tools} == shown | ITSELF
