"""Tools that agents offer to each other: a run of their own in the same turn, and never more rights than agreed."""

from pathlib import Path
from typing import Any, cast

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor, AgentProgress
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from goclaw.common.specs import SideEffect
from goclaw.conversation.turns.tool_requests import ForwardedServices
from goclaw.durable.engine.base import Turn
from goclaw.errors import ToolError
from goclaw.tools.builtin.agent import agent
from goclaw.tools.toolkit.agent_tasks import AgentReport, AgentTask, Forward
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.services import TurnServices
from tests.conversation.sessions.agents import (
    HERE,
    agents_of,
    asks_for,
    handing,
    request_that_ends_with,
    results,
    says,
    until,
)
from tests.conversation.sessions.approving import ANNA, asked_so_far, reconfigure
from tests.conversation.sessions.exporting import PLAN, exporting, planning, world_with
from tests.harness import World
from tests.parts import Trail, acting

OBJECT = {"plan": "string", "steps": {"type": "integer", "minimum": 1}}
ASKED = "Plan for a party, please."
SCRIPT = [asks_for("do it", planning()), says(ASKED, "cake"), says("cake", "Done.")]
NOTE = ToolCall("n1", "note", {})
NOTING = [
    asks_for("do it", planning()),
    asks_for(ASKED, NOTE),
    says("noted", "cake"),
    says("unknown tool", "cake"),
    says("cake", "Done."),
]


async def test_a_call_is_a_run_of_the_agent_that_offers_it_and_its_last_words_are_the_result(tmp_path: Path) -> None:
    world = world_with(tmp_path, SCRIPT, agents=exporting({"create_plan": PLAN}))
    async with world.running() as core:
        await core.say("do it", message_id="1")
        await core.settled()
        (theirs,) = await agents_of(core)
        here, there = await core.messages(), await core.messages(theirs)
        spent = await core.sessions.ports.store.spending.of_turn(HERE, "memory:1")
        progress = [event.agent for event in core.seen if isinstance(event, AgentProgress)]
    assert world.texts() == ["Done."] and results(here) == ["cake"]
    assert there == [UserMessage(ASKED), AssistantMessage("cake")]
    assert spent.requests == 3, "its requests are the turn's"
    assert not progress, "it used no tool"
    asked = [(entry.object, entry.result) for entry in world.audited]
    assert ("create_plan", "ok") in asked


async def test_without_a_template_the_task_is_the_description_and_what_was_given(tmp_path: Path) -> None:
    bare = {"description": "Make a plan.", "arguments": {"goal": "string", "days": "integer?"}}
    script = [asks_for("do it", planning()), says("What was given", "cake"), says("cake", "Done.")]
    world = world_with(tmp_path, script, agents=exporting({"create_plan": bare}))
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (theirs,) = await agents_of(core)
        assert (await core.messages(theirs))[0] == UserMessage('Make a plan.\n\nWhat was given: {"goal": "a party"}')


async def test_an_agent_does_not_see_the_tools_by_which_it_would_ask_itself(tmp_path: Path) -> None:
    world = world_with(tmp_path, SCRIPT, [acting("note", Trail().leave)], agents=exporting({"create_plan": PLAN}))
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert [spec.name for spec in request_that_ends_with(world, "do it").tools] == ["note", "create_plan"]
    assert [spec.name for spec in request_that_ends_with(world, ASKED).tools] == ["note"]


async def test_as_deep_as_agents_may_be_nobody_sees_tools_that_ask_an_agent(tmp_path: Path) -> None:
    world = world_with(tmp_path, SCRIPT, limits={"agent_depth": 0}, agents=exporting({"create_plan": PLAN}))
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.script.requests[0].tools == []


@pytest.mark.parametrize(
    ("main", "own", "noted"),
    [
        (None, False, 1),
        (["create_plan"], False, 0),
        (["set:planning.tools"], True, 1),
        (["set:planner/planning.tools"], True, 1),
    ],
)
async def test_the_agent_has_its_callers_tools_at_most_unless_the_export_gives_it_its_own(
    tmp_path: Path, main: list[str] | None, own: bool, noted: int
) -> None:
    trail = Trail("noted")
    agents = exporting({"create_plan": PLAN}, own_tools=own) | {"main": {"tools": main}}
    world = world_with(tmp_path, NOTING, [acting("note", trail.leave)], agents=agents)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.texts() == ["Done."] and trail.times == noted


async def test_whatever_is_exported_the_person_may_no_more_than_before(tmp_path: Path) -> None:
    trail = Trail("noted")
    anna = User(ANNA, allowed_tools=frozenset({"create_plan"}))
    agents = exporting({"create_plan": PLAN}, own_tools=True)
    world = world_with(tmp_path, NOTING, [acting("note", trail.leave)], users=[anna], agents=agents)
    async with world.running() as core:
        await core.say("do it", actor=Actor(ANNA, "memory"), session=ANNA)
        await core.settled()
    assert world.texts() == ["Done."] and trail.times == 0


async def test_a_declared_result_is_an_object_that_was_checked_and_a_wrong_one_is_asked_for_again(
    tmp_path: Path,
) -> None:
    script = [
        asks_for("do it", planning()),
        says("Plan for a party", "I would bake a cake."),
        says("got other text", '```json\n{"plan": "cake", "steps": 0}\n```'),
        says('"steps": expected at least 1', '{"plan": "cake", "steps": 2}'),
        says('{"plan":"cake","steps":2}', "Done."),
    ]
    world = world_with(tmp_path, script, agents=exporting({"create_plan": {**PLAN, "result": OBJECT}}))
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        assert results(await core.messages()) == ['{"plan":"cake","steps":2}']
    assert world.texts() == ["Done."]
    assert "JSON Schema" in str(request_that_ends_with(world, "Plan for a party").messages[-1])


async def test_an_agent_that_never_answers_as_declared_makes_the_call_fail_in_words(tmp_path: Path) -> None:
    script = [
        asks_for("do it", planning()),
        says("Plan for a party", "cake"),
        says("That cannot be used", "cake"),
        says("answered with something else than what create_plan_result", "Sorry."),
    ]
    world = world_with(tmp_path, script, agents=exporting({"create_plan": {**PLAN, "result": OBJECT}}))
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.texts() == ["Sorry."] and len(world.script.requests) == 5


async def test_its_own_policy_bounds_it(tmp_path: Path) -> None:
    agents = exporting({"create_plan": PLAN})
    agents["kinds"]["planner"]["policy"] = {"max_tool_calls": 1}
    script = [
        asks_for("do it", planning()),
        asks_for(ASKED, NOTE, ToolCall("n2", "note", {})),
        says("tool calls in one turn", "It was too much."),
    ]
    trail = Trail("noted")
    world = world_with(tmp_path, script, [acting("note", trail.leave)], agents=agents)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.texts() == ["It was too much."] and trail.times == 0


async def test_stop_ends_the_run_that_an_exported_tool_began(tmp_path: Path) -> None:
    trail = Trail("noted")
    note = acting("note", trail.leave_slowly)
    world = world_with(tmp_path, NOTING, [note], agents=exporting({"create_plan": PLAN}))
    async with world.running() as core:
        await core.say("do it")
        await until(lambda: trail.times)
        assert "planner: create_plan" in await core.command("/status")
        await core.command("/stop")
        await core.settled()
        (theirs,) = await agents_of(core)
        assert (await core.messages(theirs))[-1] == AssistantMessage("[Stopped.]", notice=True)
    assert trail.cancelled == 1


async def test_main_can_offer_tools_to_those_that_it_starts(tmp_path: Path) -> None:
    look = {"description": "Ask the one at the desk.", "prompt": "What does the desk say?", "arguments": {}}
    agents = {"main": {"exports": {"desk": {"tools": {"ask_desk": look}}}}, "kinds": {"worker": {}, "other": {}}}
    script = [
        says("What does the desk say?", "never"),
        asks_for("do it", handing("work", kind="worker")),
        says("work", "fine"),
        says("fine", "Done."),
    ]
    world = world_with(tmp_path, script, [agent], agents=agents)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert [spec.name for spec in request_that_ends_with(world, "work").tools] == ["agent"], "main is at work already"


LOG = {
    "description": "Log a message.",
    "arguments": {"message": "string", "level": {"type": "integer", "default": 1}},
    "passthrough": {"tool": "append", "input": {"text": "{{ level }}: {{ message }}", "where": {"file": "log"}}},
}


def append_tool(lines: list[str], **more: Any) -> Any:
    """A tool that keeps what it is given."""

    async def append(ctx: ToolContext, text: str, where: dict[str, str]) -> str:
        """Append a line."""
        lines.append(f"{where['file']}: {text}")
        return "appended"

    return tool(side_effect=SideEffect.MUTATING, **more)(append)


def logging_world(folder: Path, lines: list[str], **config: Any) -> World:
    call = asks_for("do it", ToolCall("c1", "log_message", {"message": "hello"}))
    script = [call, says("appended", "Logged."), says("error", "It failed."), says("denied", "It failed.")]
    agents = exporting({"log_message": LOG}, own_tools=config.pop("own_tools", False)) | config.pop("agents", {})
    more = config.pop("more", {})
    return world_with(folder, script, [append_tool(lines, **more)], agents=agents, **config)


async def test_a_passthrough_calls_the_other_tool_with_what_was_given_and_asks_no_model(tmp_path: Path) -> None:
    lines: list[str] = []
    world = logging_world(tmp_path, lines)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        assert results(await core.messages()) == ["appended"] and await agents_of(core) == []
    assert world.texts() == ["Logged."] and lines == ["log: 1: hello"]
    assert len(world.script.requests) == 2
    assert [entry.object for entry in world.audited if entry.action == "tool.use"] == ["append", "log_message"]


async def test_the_other_tool_is_authorized_asked_for_and_judged_by_its_own_name(tmp_path: Path) -> None:
    lines: list[str] = []
    world = logging_world(tmp_path, lines)
    reconfigure(world, tools={"disabled": ["append"]})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.texts() == ["It failed."] and lines == []


async def test_what_the_other_tool_asks_is_asked_and_a_no_is_a_no(tmp_path: Path) -> None:
    lines: list[str] = []
    world = logging_world(tmp_path, lines, policy={"always_ask": ["append"]})
    async with world.running() as core:
        await core.say("do it")
        await until(lambda: asked_so_far(core))
        (question,) = asked_so_far(core)
        assert question.about == "append"
        await core.command(f"/deny {question.id}")
        await core.settled()
    assert world.texts()[-1] == "It failed." and lines == []


async def test_an_open_question_of_the_other_tool_outlives_a_restart(tmp_path: Path) -> None:
    lines: list[str] = []
    world = logging_world(tmp_path, lines, policy={"always_ask": ["append"]}, more={"idempotent": False})
    async with world.running() as core:
        await core.say("do it")
        await until(lambda: asked_so_far(core))
        (question,) = asked_so_far(core)
    async with world.running() as core:
        await core.command(f"/approve {question.id}")
        await core.settled()
    assert world.texts()[-1] == "Logged." and lines == ["log: 1: hello"]


@pytest.mark.parametrize(
    ("main", "planner", "own", "done"),
    [
        (["log_message"], None, False, 0),
        (["log_message"], None, True, 1),
        (["log_message"], [], True, 0),
        (None, [], False, 0),
    ],
)
async def test_a_passthrough_reaches_no_tool_that_neither_side_has(
    tmp_path: Path, main: list[str] | None, planner: list[str] | None, own: bool, done: int
) -> None:
    lines: list[str] = []
    world = logging_world(tmp_path, lines, own_tools=own)
    kinds = world.config.agents.kinds["planner"].model_copy(update={"tools": planner})
    agents = world.config.agents.model_copy(
        update={"main": world.config.agents.main.model_copy(update={"tools": main}), "kinds": {"planner": kinds}}
    )
    world.config = world.config.model_copy(update={"agents": agents})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert len(lines) == done


async def test_a_call_that_was_handed_on_is_not_handed_on_again_not_even_to_itself(tmp_path: Path) -> None:
    through = {"tool": "tool_call", "input": {"name": "log_message", "arguments": {"message": "{{ message }}"}}}
    call = asks_for("do it", ToolCall("c1", "log_message", {"message": "hello"}))
    agents = exporting({"log_message": LOG | {"passthrough": through}})
    world = world_with(tmp_path, [call, says("cannot be called from here", "It ends.")], agents=agents)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.texts() == ["It ends."]


async def test_a_call_that_was_handed_on_writes_its_intent_and_changes_nothing_of_the_conversation() -> None:
    intents: list[str] = []

    class Watched(TurnServices):
        async def command(self, text: str) -> str:
            raise AssertionError("a command was given")

        async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
            raise AssertionError("it was handed on again")

        async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
            return AgentReport("a1", "general", "done")

    class Noted:
        async def intend(self, step: str) -> None:
            intents.append(step)

    given = {spawns: ForwardedServices(Watched(), cast(Turn, Noted()), spawns=spawns) for spawns in (True, False)}
    await given[True].intend("tool:1:c1/append")
    assert intents == ["tool:1:c1/append"]
    assert (await given[True].spawn(AgentTask("work"), "s", "c")).answer == "done"
    with pytest.raises(ToolError, match="no agents can be started"):
        await given[False].spawn(AgentTask("work"), "s", "c")
    with pytest.raises(ToolError, match="answers commands"):
        await given[True].command("/mode bypass")
    with pytest.raises(ToolError, match="mode could change"):
        await given[True].leave_plan("default")
    with pytest.raises(ToolError, match="could be chosen"):
        await given[True].settings.choose("session.queue_mode", "steer")
    with pytest.raises(ToolError, match="cannot be called from here"):
        await given[True].forward(Forward("append", {}, "planner"), "s", "c")
