"""Agents that work on a part of a turn: a conversation of their own, limits of their own, and never more rights."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import Actor, AgentProgress, ToolStarted
from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from goclaw.common.specs import Risk, SideEffect
from goclaw.durable.store.forgetting import Forgetting
from goclaw.tools.builtin.agent import agent
from goclaw.tools.toolkit.base import ToolContext, tool
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
from tests.conversation.sessions.approving import CHEF, PEOPLE, asked_so_far, reconfigure
from tests.harness import Answer, World
from tests.parts import Trail, acting

NOTE = ToolCall("n1", "note", {})
SCRIPT = [
    asks_for("do it", handing("look at x", description="Look at x")),
    asks_for("look at x", NOTE),
    says("noted", "x is fine"),
    says("x is fine", "All is well."),
]


def world_of(folder: Path, script: list[Answer], trail: Trail | None = None, **config: Any) -> World:
    note = acting("note", (trail or Trail("noted")).leave)
    return World(folder, script, tools=[agent, note], **config)


async def test_an_agents_conversation_is_its_own_and_its_last_words_are_the_result(tmp_path: Path) -> None:
    world = world_of(tmp_path, SCRIPT)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (theirs,) = await agents_of(core)
        here, there = await core.messages(), await core.messages(theirs)
    assert world.texts() == ["All is well."]
    assert results(here) == ["x is fine"]
    assert [type(message) for message in there[:2]] == [UserMessage, AssistantMessage]
    assert there[0] == UserMessage("look at x") and there[-1] == AssistantMessage("x is fine")
    first = request_that_ends_with(world, "look at x")
    assert len(first.messages) == 1, "it knows nothing of the conversation"
    assert "You are an agent that another agent has started" in first.system


async def test_an_agent_that_said_all_before_its_last_call_has_said_it(tmp_path: Path) -> None:
    script = [SCRIPT[0], asks_for("look at x", NOTE, text="x is fine"), says("noted", ""), SCRIPT[3]]
    world = world_of(tmp_path, script)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        assert results(await core.messages()) == ["x is fine"]
    assert world.texts() == ["All is well."], "what agents say to each other is no message to a person"


async def test_what_an_agent_does_is_seen_where_it_was_started(tmp_path: Path) -> None:
    world = world_of(tmp_path, SCRIPT)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (theirs,) = await agents_of(core)
        progress = [event for event in core.seen if isinstance(event, AgentProgress)]
        started = [(event.session, event.name) for event in core.seen if isinstance(event, ToolStarted)]
    assert [(each.session, each.call_id, each.agent, each.doing) for each in progress] == [
        (HERE, "c1", "general: Look at x", "note")
    ]
    assert started == [(HERE, "agent"), (theirs, "note")]


async def test_an_agent_has_the_tools_that_its_kind_and_everyone_above_it_have(tmp_path: Path) -> None:
    kinds = {"reader": {"tools": ["note", "other"], "prompt": "Read only."}}
    world = world_of(
        tmp_path, SCRIPT, agents={"main": {"tools": ["agent", "note"]}, "kinds": kinds}, limits={"agent_depth": 3}
    )
    world.tools = type(world.tools)([*world.tools.listed, acting("other", Trail().leave)])
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    request = request_that_ends_with(world, "look at x")
    assert [spec.name for spec in request.tools] == ["note"]
    assert request.system.endswith("Read only.")
    assert "- reader" in request_that_ends_with(world, "do it").system


async def test_a_call_of_a_tool_that_the_agent_does_not_have_fails_like_one_that_is_not_there(tmp_path: Path) -> None:
    trail = Trail()
    script = [*SCRIPT[:2], says("unknown tool", "x is fine"), SCRIPT[3]]
    world = world_of(tmp_path, script, trail, agents={"kinds": {"reader": {"tools": []}}})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (theirs,) = await agents_of(core)
        assert results(await core.messages(theirs)) == ['{"error": "unknown tool: note"}']
    assert trail.times == 0 and world.texts() == ["All is well."]


@pytest.mark.parametrize(("depth", "sees"), [(0, []), (1, [["agent", "note"], ["note"]]), (2, [["agent", "note"]] * 2)])
async def test_the_tool_is_there_as_deep_as_the_configuration_says(
    tmp_path: Path, depth: int, sees: list[list[str]]
) -> None:
    world = world_of(tmp_path, SCRIPT, limits={"agent_depth": depth})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    shown = [sorted(spec.name for spec in request.tools) for request in world.script.requests[:2]]
    assert shown == (sees or [["note"], ["note"]])


async def test_more_agents_than_a_turn_may_start_are_refused_also_across_a_restart(tmp_path: Path) -> None:
    script = [
        asks_for("do it", handing("one", "c1")),
        says("one", "first result"),
        asks_for("first result", handing("two", "c2")),
        says("which is the limit", "Enough."),
    ]
    world = world_of(tmp_path, script, limits={"agents_per_turn": 1})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert world.texts() == ["Enough."]


async def test_more_agents_than_may_work_at_once_are_refused(tmp_path: Path) -> None:
    calls = [handing(f"task {number}", f"c{number}") for number in range(3)]
    trail = Trail("noted")
    script = [asks_for("do it", *calls), asks_for("task", NOTE), says("noted", "fine"), says("fine", "ok")]
    script.append(says("which is the limit", "too many"))
    world = World(tmp_path, script, tools=[agent, acting("note", trail.leave_slowly)], limits={"agents_at_once": 2})
    async with world.running() as core:
        await core.say("do it")
        await until(lambda: trail.times == 2)
        trail.gate.set()
        await core.settled()
        told = results(await core.messages())
    first, second, refused = sorted(told)
    assert (first, second) == ("fine", "fine") and "2 agents are at work" in refused


async def test_a_kind_that_is_none_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    script = [asks_for("do it", handing("x", kind="wizard")), says("no kind of agent", "Sorry.")]
    world = world_of(tmp_path, script, agents={"kinds": {"reader": {}, "writer": {}}})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        assert results(await core.messages()) == [
            """{"error": "there is no kind of agent 'wizard': there are reader, writer"}"""
        ]


async def test_an_agent_that_meets_its_limit_fails_its_call_and_the_turn_goes_on(tmp_path: Path) -> None:
    policy = {"max_tool_calls": 1}
    script = [SCRIPT[0], asks_for("look at x", NOTE, ToolCall("n2", "note", {})), says("did not finish", "It stopped.")]
    world = world_of(tmp_path, script, agents={"kinds": {"reader": {"policy": policy}}})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (told,) = results(await core.messages())
    assert "I stopped after 1 tool calls in one turn." in told
    assert world.texts() == ["It stopped."]


async def test_what_agents_spend_counts_into_the_turn_that_they_work_for(tmp_path: Path) -> None:
    world = world_of(tmp_path, SCRIPT, limits={"turn_tokens": 40})  # 15 a request
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert "I stopped: this turn used 45 tokens; the limit is 40." in world.texts()


async def test_stop_reaches_every_agent_and_leaves_each_call_a_result(tmp_path: Path) -> None:
    trail = Trail()
    script = [
        asks_for("do it", handing("go deeper")),
        asks_for("go deeper", handing("deepest", "d1")),
        asks_for("deepest", NOTE),
    ]
    world = World(tmp_path, script, tools=[agent, acting("note", trail.leave_slowly)])
    async with world.running() as core:
        await core.say("do it")
        await until(lambda: trail.times == 1)
        status = await core.command("/status")
        assert await core.command("/stop") == "Stopped."
        await core.settled()
        assert trail.cancelled == 1
        for session in await agents_of(core):
            assert results(await core.messages(session)) == ['{"error": "stopped by the user"}']
        assert results(await core.messages()) == ['{"error": "stopped by the user"}']
    lines = status[status.index("Agents at work") :].splitlines()
    assert [line.split("(")[0] for line in lines[1:3]] == ["  general ", "    general "]
    assert "2 requests, 30 tokens" in lines[1] and "1 request, 15 tokens" in lines[2]


async def test_nobody_writes_into_the_conversation_of_an_agent_and_whoever_reads_the_session_reads_it(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, SCRIPT)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (theirs,) = await agents_of(core)
        access = core.sessions.ports.approvals.access
        owner, stranger = Actor("tui:me", "socket", owner=True), Actor("memory:stranger", "memory")
        assert access.authorize(owner, "session.read", theirs).allowed
        assert not access.authorize(owner, "session.write", theirs).allowed
        assert not access.authorize(stranger, "session.read", theirs).allowed


async def test_a_forgotten_session_takes_the_conversations_of_its_agents_with_it(tmp_path: Path) -> None:
    world = world_of(tmp_path, SCRIPT)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        await core.sessions.forgetter.forget(HERE)
        assert await agents_of(core) == []
        assert await Forgetting(core.database).agents_of(HERE) == []


@tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH)
async def risky(ctx: ToolContext) -> str:
    """Ask before it runs."""
    return "noted"


RISKY = [SCRIPT[0], asks_for("look at x", ToolCall("r1", "risky", {})), *SCRIPT[2:], says("refused", "x is fine")]


@pytest.mark.parametrize("restart", [False, True])
async def test_what_an_agent_wants_is_asked_in_its_name_where_the_person_is(tmp_path: Path, restart: bool) -> None:
    world = World(tmp_path, RISKY, tools=[agent, risky], users=PEOPLE)
    async with world.running() as core:
        await core.say("do it", actor=Actor(CHEF, "memory"))
        await until(lambda: asked_so_far(core))
        (question,) = asked_so_far(core)
        assert question.title == "Chef's agent general (Look at x) wants to use `risky`"
        assert core.sessions.ports.questions.of(HERE) == (question,)
        if not restart:
            await core.command(f"/approve {question.id}", actor=Actor(CHEF, "memory"))
            await core.settled()
    if restart:
        async with world.running() as core:
            assert "Allowed" in await core.command(f"/approve {question.id}", actor=Actor(CHEF, "memory"))
            await core.settled()
    assert world.texts()[-1] == "All is well."


async def test_an_agent_works_in_the_mode_of_the_session(tmp_path: Path) -> None:
    world = World(tmp_path, RISKY, tools=[agent, risky], policy={"mode": "plan"})
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        (theirs,) = await agents_of(core)
        (refused,) = results(await core.messages(theirs))
    assert "the session is in plan mode" in refused and world.texts()[-1] == "All is well."


@pytest.mark.parametrize(
    "config",
    [
        {"tools": {"disabled": ["note"]}},
        {"roles": {"narrow": {"tools": ["agent"]}}},
        {"agents": {"main": {"tools": ["agent"]}}},
        {"agents": {"main": {"tools": ["-note"]}, "kinds": {"wide": {"tools": ["agent", "note"]}}}},
    ],
)
async def test_an_agent_never_has_a_tool_that_whoever_starts_it_has_not(tmp_path: Path, config: dict[str, Any]) -> None:
    trail = Trail("noted")
    deeper = [
        asks_for("do it", handing("go deeper")),
        asks_for("go deeper", NOTE, handing("deepest", "d1")),
        asks_for("deepest", NOTE),
        says("unknown tool", "none of that"),
        says("none of that", "none of that"),
    ]
    role = frozenset({"narrow"} if "roles" in config else {"user"})
    world = world_of(tmp_path, deeper, trail, users=[User("memory:anna", roles=role)])
    reconfigure(world, **config)
    async with world.running() as core:
        await core.say("do it", actor=Actor("memory:anna", "memory"), chat="anna")
        await core.settled()
        sessions = await agents_of(core, "memory:anna")
        told = [text for session in sessions for text in results(await core.messages(session))]
    assert len(sessions) == 2 and told.count('{"error": "unknown tool: note"}') == 2
    assert trail.times == 0, "it never ran"
    assert all(spec.name != "note" for request in world.script.requests for spec in request.tools)


async def test_a_right_that_is_taken_away_is_gone_for_the_agents_at_work(tmp_path: Path) -> None:
    trail = Trail("noted")
    script = [*SCRIPT[:2], asks_for("noted", ToolCall("n2", "note", {})), says("unknown tool", "x is fine"), SCRIPT[3]]
    anna = User("memory:anna")
    world = World(tmp_path, script, tools=[agent, acting("note", trail.leave_slowly)], users=[anna])
    async with world.running() as core:
        await core.say("do it", actor=Actor(anna.key, "memory"), chat="anna")
        await until(lambda: trail.times == 1)
        world.users._users = {anna.key: replace(anna, allowed_tools=frozenset({"agent"}))}
        trail.gate.set()
        await core.settled()
    assert trail.times == 1


async def test_a_pause_holds_the_agents_too(tmp_path: Path) -> None:
    trail = Trail("noted")
    world = World(tmp_path, SCRIPT, tools=[agent, acting("note", trail.leave_slowly)])
    async with world.running() as core:
        await core.say("do it")
        await until(lambda: trail.times == 1)
        await core.command("/pause")
        asked = len(world.script.requests)
        trail.gate.set()
        await until(lambda: any("paused" in getattr(event, "text", "") for event in core.seen))
        assert len(world.script.requests) == asked
        await core.command("/resume")
        await core.settled()
    assert world.texts()[-1] == "All is well."


async def test_the_kind_has_a_model_of_its_own(tmp_path: Path) -> None:
    world = world_of(tmp_path, SCRIPT, agents={"kinds": {"reader": {"model": "scripted:other"}}})
    asked: list[tuple[str, Sequence[str]]] = []

    async def answering(session: str, first: Sequence[str]) -> Any:
        asked.append((session, first))
        return world.script

    world.models.answering = answering  # type: ignore[method-assign]  # what the real one opens is tried elsewhere
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
    assert {(HERE, ()), (HERE, ("scripted:other",))} == set(asked)


async def test_conversations_of_agents_do_not_crowd_the_list_of_sessions(tmp_path: Path) -> None:
    world = world_of(tmp_path, SCRIPT)
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        me = Actor("tui:me", "socket", owner=True)
        listed, everything = [await core.gateway.sessions(me, agents=agents) for agents in (False, True)]
        assert [info.key for info in listed] == [HERE]
        (agent,) = await agents_of(core)
        assert {info.key for info in everything} == {HERE, agent}


async def test_a_turn_and_its_agents_are_priced_apart_and_together(tmp_path: Path) -> None:
    world = world_of(tmp_path, SCRIPT)
    async with world.running() as core:
        accepted = await core.say("do it")
        await core.settled()
        spending = core.sessions.ports.store.spending
        whole, (theirs,) = await spending.of_turn(HERE, accepted.turn), await agents_of(core)
        apart = await spending.of_session(theirs)
    assert (whole.requests, apart.requests) == (4, 2)
