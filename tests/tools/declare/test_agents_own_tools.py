"""Toolsets declared in an agent are its own: others have them if it shares or exports them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User, Users
from goclaw.common.core.events import Actor, QuestionAsked, ToolFinished
from goclaw.common.core.messages import ToolCall
from goclaw.llm.scripted import ANSWERS, Answer
from goclaw.program.app.bench import open_agent
from goclaw.testing import open_bench
from goclaw.tools.builtin.agent import agent as starting
from goclaw.tools.declare import SideEffect, agent, bind_to, export, own_tools, passthrough, tool, toolset, use
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Registered
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.parts import AgentPart, PackageParts
from tests.conversation.sessions.agents import agents_of, asks_for, handing, results, says
from tests.conversation.sessions.approving import ANNA, BOB, reconfigure
from tests.harness import PATIENCE, Core, Tools, World, before_the_next_look
from tests.kills import recorded
from tests.parts import Trail, acting
from tests.plugin import merged

COMMON = toolset("common", acting("search", Trail().leave), acting("answer", Trail("common").leave))


def answering(says: str) -> Any:
    return tool("answer", "Answer.", bind_to(lambda: says, side_effect=SideEffect.READ_ONLY))


def listening(name: str, told: list[str]) -> Registered:
    async def hook(event: HookEvent) -> HookAnswer:
        assert event.tool == "answer"
        told.append(event.tool_id)
        return HookAnswer()

    return Registered(name, frozenset({"pre_tool"}), hook, frozenset({name}))


def tools_of(part: AgentPart) -> dict[str, str]:
    """The tools that come with an agent: by id, what its model calls them."""
    return {each.spec.id: each.spec.name for toolset in part.toolsets for each in toolset.tools}


def world_of(folder: Path, script: Sequence[Answer], *agents: AgentPart, more: Sequence[Tool] = ()) -> World:
    world = World(folder, script)
    parts = PackageParts(agents={part.name: part for part in agents})
    world.config = merged(parts, world.config)
    world.tools = Tools([starting, *more, *(each for _, listed in parts.tools for each in listed)])
    return world


def test_a_model_knows_an_own_tool_by_its_name_as_far_as_the_agent_has_no_other_of_it() -> None:
    assert tools_of(agent("a", "", use("helpers", answering("")))) == {"a.helpers.answer": "answer"}
    twice = agent("a", "", use("one", answering("")), use("two", answering("")))
    assert all(name.startswith(each) for name, each in zip(tools_of(twice).values(), ["one-a", "two-a"], strict=True))
    beside = use("helpers", answering(""))
    assert tools_of(agent("a", "", use(COMMON), beside))["a.helpers.answer"].startswith("helpers-answer-")
    assert tools_of(agent("a", "", use(COMMON, "search"), beside))["a.helpers.answer"] == "answer"
    assert tools_of(agent("a", "", uses=["lint", answering("")]))["a.tools.answer"] == "answer"
    assert tools_of(agent("a", "", uses=["answer", answering("")]))["a.tools.answer"].startswith("tools-answer-")
    built_in = agent("a", "", use("helpers", acting("read", Trail().leave)))
    assert tools_of(built_in)["a.helpers.read"].startswith("helpers-read-")


def test_what_an_agent_shares_or_exports_is_for_everyone() -> None:
    assert tools_of(agent("a", "", use("helpers", answering(""), share=True))) == {"answer": "answer"}
    answer = answering("")
    assert tools_of(agent("a", "", uses=[answer], exports=[answer])) == {"answer": "answer"}
    log = tool("log", "Log.", passthrough(answer))
    assert tools_of(agent("a", "", uses=[answer], exports=[export("logs", log)])) == {"answer": "answer"}
    with pytest.raises(ValueError, match="common: is shared already"):
        use(COMMON, share=True)


async def test_two_agents_have_a_tool_of_one_name_each_and_the_main_agent_has_neither(tmp_path: Path) -> None:
    script = [
        asks_for("do it", ToolCall("c0", "answer", {}), ToolCall("c1", "tool_call", {"name": "answer"})),
        asks_for("unknown tool", handing("ask one", "c2", kind="one"), handing("ask two", "c3", kind="two")),
        asks_for("ask one", ToolCall("n", "answer", {})),
        asks_for("ask two", ToolCall("n", "answer", {})),
        says("left", "one is fine"),
        says("right", "two is fine"),
        says("two is fine", "Done."),
    ]
    one, two = (
        agent(name, "A.", use("helpers", answering(said))) for name, said in (("one", "left"), ("two", "right"))
    )
    world = world_of(tmp_path, script, one, two)
    heard: dict[str, list[str]] = {"answer": [], "one.helpers.answer": [], "two": []}
    world.hooks = Hooks([listening(name, told) for name, told in heard.items()])
    async with world.running() as core:
        await core.say("do it")
        await core.settled()
        told = results(await core.messages())
        theirs = [results(await core.messages(session)) for session in await agents_of(core)]
    assert world.texts() == ["Done."]
    assert [each.split("\\")[0] for each in told[:2]] == ['{"error": "unknown tool: answer"}'] * 2
    assert sorted(told[2:]) == ["one is fine", "two is fine"] and sorted(theirs) == [["left"], ["right"]]
    assert sorted(heard["answer"]) == ["one.helpers.answer", "two.helpers.answer"] and heard["two"] == []
    assert heard["one.helpers.answer"] == ["one.helpers.answer"]
    called = [entry.object for entry in world.audited if entry.action == "tool.use" and entry.allowed]
    assert {"one.helpers.answer", "two.helpers.answer"} <= set(called)
    shown = {tuple(spec.name for spec in request.tools) for request in world.script.requests}
    assert shown == {("agent",), ("answer",)}


@pytest.mark.promise("P-approval")
async def test_who_may_answer_about_an_own_tool_needs_the_right_to_that_very_one(tmp_path: Path) -> None:
    script = [
        asks_for("do it", handing("first task", kind="helper")),
        asks_for("first task", ToolCall("n", "note", {})),
        says("noted", "fine"),
        says("fine", "Done."),
    ]
    note, common = acting("note", Trail("noted").leave), acting("note", Trail("everyone's").leave)
    world = world_of(tmp_path, script, agent("helper", "Helps.", use("helpers", note)), more=[common])
    role = {"approves": "all", "sessions": "all", "tools": ["note"]}
    reconfigure(world, policy={"always_ask": ["helper.helpers.note"]}, roles={"chef": role})
    own = frozenset({"agent", "set:helper/helpers"})
    world.users = Users([User(ANNA, allowed_tools=own), User(BOB, roles=frozenset({"chef"}))])
    anna, bob = (Actor(key, "memory") for key in (ANNA, BOB))
    async with world.running() as core:
        await core.say("do it", actor=anna, session=ANNA)
        async with asyncio.timeout(PATIENCE):
            while not (asked := [each for each in core.seen if isinstance(each, QuestionAsked)]):
                await before_the_next_look()
        question = asked[0].question
        assert (await core.gateway.choose(bob, question.id, 0)).text == f"Only {ANNA} or an admin can answer this."
        assert (await core.gateway.choose(anna, question.id, 0)).text == "Allowed."
        await core.settled()
    assert world.texts()[-1] == "Done."
    assert {each.object for each in world.audited if each.action == "tool.approval"} == {"helper.helpers.note"}


async def test_a_bench_of_tools_tries_an_agents_own(tmp_path: Path) -> None:
    chat = agent("chat", "Talks.", use("one", answering("yes")), use("two", answering("no")))
    async with open_bench(tmp_path, chat.toolsets[1]) as bench:
        assert (await bench.call("answer", {})).content == "no"


async def test_an_exported_tool_is_passed_on_to_the_agents_own(tmp_path: Path) -> None:
    offered = tool("log_it", "Log.", passthrough("answer"), args={"type": "object", "properties": {}})
    logger = agent("logger", "Logs.", uses=[answering("kept")], exports=[export("logs", offered, own_tools())])
    chat = agent("chat", "Talks.", uses=["set:logs", answering("mine")])
    script = tmp_path / "script.json"
    calls = (ToolCall("c1", "log_it", {}), ToolCall("c2", "answer", {}))
    script.write_bytes(ANSWERS.dump_json((Answer(calls=calls), Answer("Done."))))
    parts = PackageParts(agents={"l": logger, "c": chat})
    async with open_agent(tmp_path, parts, "chat", model=f"scripted:{script}") as bench, asyncio.timeout(30):
        assert await bench.say("Log") == "Done."
        said = {event.name: event.content for event in bench.events if isinstance(event, ToolFinished)}
    assert said == {"log_it": "kept", "answer": "mine"}


@pytest.mark.promise("P-tool-once")
async def test_a_turn_begun_when_the_tool_was_for_everyone_is_taken_up(tmp_path: Path) -> None:
    noting = Trail("noted")
    note = acting("note", noting.leave, idempotent=False)
    script = [
        asks_for("do it", handing("first task", kind="helper")),
        asks_for("first task", ToolCall("n", "note", {})),
        says("noted", "fine"),
        says("outcome unknown", "fine"),
        says("fine", "All is well."),
    ]

    async def do_it(core: Core) -> None:
        await core.say("do it", message_id="1")
        await core.settled()

    helper = agent("helper", "Helps.", use("tools", note, share=True))
    world = world_of(tmp_path, script, helper)
    moments = await recorded(world, do_it, noting)
    upgraded = replace(note, spec=replace(note.spec, name="tools-note-1", local_id="helper.tools.note"))
    world.tools = Tools([starting, upgraded])
    for moment in moments:
        with moment.restored():
            async with world.running() as core:
                await do_it(core)
                (session,) = await agents_of(core)
                theirs = results(await core.messages(session))
        assert noting.times <= 1 and len(theirs) == 1 and "unknown tool" not in theirs[0]
        assert world.texts()[-1:] == ["All is well."]
    assert moments[-1].write >= 10, "every write was tried"
