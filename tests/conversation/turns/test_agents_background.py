"""Agents in the background: tasks like commands there, known to their person only, and lost with the daemon."""

import re
from pathlib import Path
from typing import Any

import pytest

from goclaw.channels.memory import HERE as SOMEBODY
from goclaw.common.core.events import Actor, Notice, QuestionAsked
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Risk, SideEffect
from goclaw.tools.builtin.agent import agent
from goclaw.tools.builtin.background_tasks import task_output, task_stop
from goclaw.tools.execution.tasks.base import Owner, TaskInfo, TaskState
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.conversation.sessions.agents import HERE, agents_of, asks_for, handing, results, says, until
from tests.conversation.sessions.approving import CHEF, PEOPLE
from tests.harness import Answer, Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

NOTE = ToolCall("n1", "note", {})
BEHIND = handing("look at x", description="Look at x", run_in_background=True)
SCRIPT = [
    asks_for("do it", BEHIND),
    says("in the background", "It is under way."),
    asks_for("look at x", NOTE),
    says("noted", "x is fine"),
    says("how is it", "I look."),
]


def world_of(folder: Path, trail: Trail, script: list[Answer] | None = None, **config: Any) -> World:
    note = acting("note", trail.leave_slowly)
    return World(folder, script or SCRIPT, tools=[agent, note, task_output, task_stop], **config)


async def tasks_of(core: Core, person: str = SOMEBODY.key) -> list[TaskInfo]:
    return list(await core.sessions.ports.environment.tasks.of(Owner(HERE, person)))


async def ended(core: Core, person: str = SOMEBODY.key) -> TaskInfo:
    """The one task, when it has ended."""
    (info,) = await tasks_of(core, person)
    return await core.sessions.ports.environment.tasks.wait(info.id, info.owner, 20)


async def test_the_turn_goes_on_and_its_person_is_told_of_the_end(tmp_path: Path) -> None:
    trail = Trail("noted")
    world = world_of(tmp_path, trail)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        assert world.texts() == ["It is under way."]
        await until(lambda: trail.times == 1)
        assert "general: Look at x" in await core.command("/status")
        trail.gate.set()
        await until(lambda: any(isinstance(event, Notice) and "completed" in event.text for event in core.seen))
        (info,) = await tasks_of(core)
        assert info.state is TaskState.COMPLETED and info.label == "general: Look at x"
        assert await core.sessions.ports.environment.tasks.tail(info.id, info.owner, 100) == "x is fine"
        (theirs,) = await agents_of(core)
        assert results(await core.messages(theirs)) == ["noted"]
        await core.outbox.flush(5)
        assert world.texts()[-1:] == [f"Background task {info.id} (`general: Look at x`) completed."]
        with pytest.raises(Exception, match="unknown task"):
            await core.sessions.ports.environment.tasks.tail(info.id, Owner(HERE, "memory:bob"), 100)


async def test_the_model_is_told_of_the_end_with_its_next_request(tmp_path: Path) -> None:
    trail = Trail("noted")
    trail.gate.set()
    world = world_of(tmp_path, trail)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (info,) = await tasks_of(core)
        await until(lambda: any(isinstance(event, Notice) and info.id in event.text for event in core.seen))
        await core.say("how is it")
        await core.settled()
    assert f"The background task {info.id} is completed" in world.script.requests[-1].reminder


async def test_somebodys_stop_ends_it_and_leaves_its_call_a_result(tmp_path: Path) -> None:
    trail = Trail("noted")
    world = world_of(tmp_path, trail)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        await until(lambda: trail.times == 1)
        (info,) = await tasks_of(core)
        assert (await core.sessions.ports.environment.tasks.stop(info.id, info.owner)).state is TaskState.STOPPED
        (theirs,) = await agents_of(core)
        assert results(await core.messages(theirs)) == ['{"error": "stopped by the user"}']
        assert trail.cancelled == 1 and core.sessions.agents.of(HERE) == []


async def test_one_that_fails_says_why(tmp_path: Path) -> None:
    trail = Trail("noted")
    trail.gate.set()
    script = [*SCRIPT[:2], asks_for("look at x", NOTE, ToolCall("n2", "note", {}))]
    world = world_of(tmp_path, trail, script, agents={"kinds": {"reader": {"policy": {"max_tool_calls": 1}}}})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        info = await ended(core)
        assert info.state is TaskState.FAILED
        said = await core.sessions.ports.environment.tasks.tail(info.id, info.owner, 500)
        assert "tool calls in one turn" in said


@tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH)
async def risky(ctx: ToolContext) -> str:
    """Need somebody's word."""
    return "noted"


async def test_what_it_wants_is_asked_where_the_person_is(tmp_path: Path) -> None:
    script = [*SCRIPT[:2], asks_for("look at x", ToolCall("r1", "risky", {})), SCRIPT[3]]
    world = World(tmp_path, script, tools=[agent, risky], users=PEOPLE)
    chef = Actor(CHEF, "memory")
    async with world.running() as core:
        await core.say("do it", actor=chef)
        await until(lambda: core.sessions.ports.questions.of(HERE))
        (question,) = core.sessions.ports.questions.of(HERE)
        assert question.title == "Chef's agent general (Look at x) wants to use `risky`"
        await until(lambda: any(isinstance(event, QuestionAsked) and event.session == HERE for event in core.seen))
        await core.command(f"/approve {question.id}", actor=chef)
        assert (await ended(core, CHEF)).state is TaskState.COMPLETED


async def test_an_agent_starts_none_in_the_background(tmp_path: Path) -> None:
    script = [
        asks_for("do it", handing("go deeper")),
        asks_for("go deeper", handing("deepest", "d1", run_in_background=True)),
        says("none in the background", "I cannot."),
        says("I cannot", "Well."),
    ]
    world = world_of(tmp_path, Trail(), script)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.texts() == ["Well."]


async def do_it(core: Core) -> None:
    await core.say("do it", message_id="1")
    await core.settled()


async def test_a_restart_loses_it_says_so_and_starts_it_at_most_once(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [*SCRIPT, says("outcome unknown", "Nobody knows.")]
    world = world_of(tmp_path, trail, script)

    async def until_it_works(core: Core) -> None:
        await do_it(core)
        await until(lambda: trail.times == 1)

    moments = await recorded(world, until_it_works, trail)
    for moment in moments:
        with moment.restored():
            await check_lost(world, trail)
    assert moments[-1].write >= 10, "every write was tried"


async def check_lost(world: World, trail: Trail) -> None:
    """The next life starts none again whose outcome could be known to somebody."""
    first = trail.times
    trail.gate.set()
    async with world.running() as core:
        await do_it(core)
        (result,) = results(await core.messages())
        states = [
            (await core.sessions.ports.environment.tasks.wait(info.id, info.owner, 20)).state
            for info in await tasks_of(core)
        ]
    assert trail.times <= 1, "what it does is done once at most"
    if "outcome unknown" in result or first:
        assert set(states) <= {TaskState.LOST}
    else:
        assert re.search("started task-", result) and states[-1:] in ([TaskState.COMPLETED], [TaskState.LOST])


async def test_a_mode_that_is_chosen_meanwhile_holds_for_it(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [*SCRIPT[:3], asks_for("noted", ToolCall("r1", "risky", {})), says("plan mode", "I may not.")]
    world = world_of(tmp_path, trail, script)
    world.tools = type(world.tools)([*world.tools.listed, risky])
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        await until(lambda: trail.times == 1)
        core.sessions.contexts.forget(HERE)  # as when it was not used for long
        await core.command("/mode plan")
        core.sessions.contexts.forget(HERE)
        trail.gate.set()
        assert (await ended(core)).state is TaskState.COMPLETED
        (theirs,) = await agents_of(core)
        assert "the session is in plan mode" in results(await core.messages(theirs))[-1]
