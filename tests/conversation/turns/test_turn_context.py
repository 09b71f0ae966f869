"""What a turn gets of its agent's policy: the prompt, marks for the cache, the times of answers and tools."""

import asyncio
from pathlib import Path
from typing import Any

from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import SideEffect
from goclaw.llm.base import CachePoints
from goclaw.tools.builtin.ask_user import ask_user
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.conversation.sessions.agents import results, until
from tests.conversation.sessions.approving import asked_so_far
from tests.harness import Answer, World
from tests.parts import Trail, acting
from tests.tables import table

SLOW = Answer(calls=(ToolCall("c", "slow", {}),))


def world_of(folder: Path, *answers: Answer, trail: Trail | None = None, **agent: Any) -> World:
    tools = [acting("slow", (trail or Trail()).leave_slowly)]
    return World(folder, answers, tools=tools, agents={"main": agent})


async def test_the_agents_own_words_end_the_system_prompt_and_its_marks_are_in_the_request(tmp_path: Path) -> None:
    policy = {"cache": {"after_tools": False}}
    world = world_of(tmp_path, Answer("fine"), prompt="Speak like a sailor.", policy=policy)
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    (request,) = world.script.requests
    assert request.system.endswith("\n\nSpeak like a sailor.")
    assert request.cache == CachePoints(after_system=True, after_tools=False)


async def test_an_answer_that_takes_too_long_ends_the_turn_with_the_key(tmp_path: Path) -> None:
    world = world_of(tmp_path, Answer("never"), policy={"timing": {"plan": 0.05}})
    world.script.gate = asyncio.Event()
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    reason = "The model took longer than 0.05 s to answer."
    assert world.texts() == [f"nev\n\n[stopped here]\n{reason}"]


async def test_a_tool_without_a_time_of_its_own_has_the_agents(tmp_path: Path) -> None:
    trail = Trail()
    world = world_of(tmp_path, SLOW, Answer("done"), trail=trail, policy={"timing": {"tools": "0.05s"}})
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
    result = world.script.requests[-1].messages[-1]
    assert isinstance(result, ToolResult)
    assert '{"error": "slow timed out after 0.05 s"}' in result.content
    assert trail.cancelled == 1


@table("declared", [{"own_timeout": True}, {"timeout": 60.0}, {"own_timeout": True, "timeout": 60.0}])
async def test_a_tool_with_a_time_of_its_own_has_no_more_than_the_agents(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    trail = Trail()

    @tool(side_effect=SideEffect.NONE, **declared)
    async def slow(ctx: ToolContext) -> str:
        """Take its time."""
        return await trail.leave_slowly()

    policy = {"timing": {"tools": "0.05s"}}
    world = World(tmp_path, [SLOW, Answer("done")], tools=[slow], agents={"main": {"policy": policy}})
    async with world.running() as core:
        await core.say("hi")
        await core.settled()
        assert results(await core.messages()) == ['{"error": "slow timed out after 0.05 s"}']
    assert trail.cancelled == 1


async def test_the_time_of_a_tool_stands_still_while_it_waits_for_a_person(tmp_path: Path) -> None:
    asking = ToolCall("c", "ask_user", {"questions": [{"question": "Tea?"}]})
    policy = {"timing": {"tools": "0.5s"}}
    answers = [Answer(calls=(asking,)), Answer("done")]
    world = World(tmp_path, answers, tools=[ask_user], agents={"main": {"policy": policy}})
    async with world.running() as core:
        await core.say("hi")
        await until(lambda: asked_so_far(core))
        late = asyncio.get_running_loop().time() + 0.6
        await until(lambda: asyncio.get_running_loop().time() > late)
        await core.say("yes")
        await core.settled()
        (told,) = results(await core.messages())
    assert "yes" in told and "timed out" not in told
