"""A model that is shown a few tools and comes by the others: what it is shown, and what becomes of its calls."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core import catalog
from goclaw.common.core.events import Actor, ToolFinished, ToolStarted
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult
from goclaw.common.core.plugins import load
from goclaw.llm.base import ModelPorts
from goclaw.llm.scripted import Answer, ScriptedModel
from goclaw.llm.token_counts import estimate_text, estimate_tools
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.offering import CORE, SMALL_CORE
from tests.acceptance.waiting import eventually
from tests.conversation.sessions.approving import asked_so_far, reconfigure, results
from tests.conversation.sessions.looking import talk
from tests.harness import PATIENCE, World
from tests.llm.asking import model_ports
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, lines
from tests.llm.wires import OLLAMA, part
from tests.parts import Trail, acting

BUILT_IN = [load(path, Tool) for path in catalog.TOOLS.values()]
ITSELF = {"tool_search", "tool_call"}


def by_call(name: str, *, number: int = 1, **arguments: Any) -> Answer:
    return Answer(calls=(ToolCall(f"c{number}", "tool_call", {"name": name, "arguments": arguments}),))


def world_of(folder: Path, *answers: Answer, window: int = 100_000, **options: Any) -> tuple[World, ScriptedModel]:
    script = ScriptedModel(answers, rest=Answer("Well."), context_window=window)
    return World(folder, tools=options.pop("tools", BUILT_IN), model=script, **options), script


def offered(script: ScriptedModel) -> list[set[str]]:
    return [{spec.name for spec in request.tools} for request in script.requests if request.tools]


@pytest.mark.parametrize(("window", "core"), [(16_384, SMALL_CORE), (16_385, CORE)])
async def test_what_a_model_is_shown_follows_its_window(tmp_path: Path, window: int, core: frozenset[str]) -> None:
    world, script = world_of(tmp_path, window=window)
    async with world.running() as core_:
        await talk(core_, "hello")
    assert offered(script) == [core | ITSELF]
    assert ("\nglob: Find files" in script.requests[0].system) is (core == CORE)


async def test_context_counts_the_index_beside_the_core_as_the_request_then_has_them(tmp_path: Path) -> None:
    world, script = world_of(tmp_path)
    async with world.running() as core:
        text = await core.command("/context")
        await talk(core, "hello")
    request = script.requests[0]
    index = request.system[request.system.index("More tools;") :]
    assert f"\n  Tools: {estimate_tools(request.tools):,} (" in text and "), the core\n" in text
    assert (
        f"\n  Index: {estimate_text(index):,} (" in text and f"for each of {len(index.splitlines()) - 1} more" in text
    )
    prompt = estimate_text(request.system) - estimate_text(index)
    assert f"\n  Prompt: {prompt:,} (" in text


@pytest.mark.promise("P-cache-stable")
async def test_tools_and_prompt_stay_the_same_through_plan_mode_and_a_restart(tmp_path: Path) -> None:
    world, script = world_of(tmp_path, by_call("exit_plan_mode", plan="1. Tea"))
    async with world.running() as core:
        await talk(core, "/mode plan")
        await core.say("plan it")
        await eventually(lambda: asked_so_far(core))
        await talk(core, "Keep planning", "/mode default", "after it")
    async with world.running() as core:
        await talk(core, "after a restart")
    assert len(script.requests) > 3
    shown = [([id(spec) for spec in request.tools], request.system) for request in script.requests[:-1]]
    assert all(each == shown[0] for each in shown)
    last = script.requests[-1]  # another life: other objects that say the same
    assert (list(last.tools), last.system) == (list(script.requests[0].tools), shown[0][1])


@pytest.mark.promise("P-audit")
async def test_a_call_by_tool_call_is_one_of_the_tool_for_people_log_audit_and_transcript(tmp_path: Path) -> None:
    trail = Trail()
    tools = [*BUILT_IN, acting("touch", trail.leave, idempotent=False)]
    world, script = world_of(tmp_path, by_call("touch"), tools=tools)
    async with world.running() as core:
        await talk(core, "touch it")
        events = [event.name for event in core.seen if isinstance(event, ToolStarted | ToolFinished)]
        answers = [each for each in await core.messages() if isinstance(each, AssistantMessage) and each.calls]
    assert trail.times == 1 and events == ["touch", "touch"]
    assert [call.name for call in answers[0].calls] == ["touch"]
    assert [entry.object for entry in world.audited if entry.action == "tool.use"] == ["touch"]
    assert [message.name for message in script.requests[1].messages if isinstance(message, ToolResult)] == ["touch"]


@pytest.mark.promise("P-tool-once")
async def test_a_call_by_tool_call_that_a_kill_cut_is_not_made_again(tmp_path: Path) -> None:
    trail = Trail()
    tools = [*BUILT_IN, acting("touch", trail.leave_slowly, idempotent=False)]
    world, _ = world_of(tmp_path, by_call("touch"), tools=tools)
    async with world.running() as core:
        await core.say("touch it", message_id="1")
        await asyncio.wait_for(trail.begun.wait(), PATIENCE)
        core.database.dead.set()
    async with world.running() as core:
        await core.settled()
        said = await results(core)
    assert trail.times == 1 and "outcome unknown" in said[0]


@pytest.mark.promise("P-tools-per-user")
async def test_nobody_gets_more_by_tool_call_and_learns_of_nothing_that_is_not_theirs(tmp_path: Path) -> None:
    allowed = frozenset({"tool_search", "tool_call", "read", "list"})
    calls = [by_call("glob", pattern="*"), by_call("list", number=2)]
    search = Answer(calls=(ToolCall("c3", "tool_search", {"query": "find files by a pattern"}),))
    world, script = world_of(tmp_path, *calls, search, users=[User("memory:anna", allowed_tools=allowed)])
    async with world.running() as core:
        await core.say("look", actor=Actor("memory:anna", "memory"), chat="anna")
        await core.settled()
        said = await results(core, "memory:anna")
    assert offered(script)[0] == {"read", "tool_search", "tool_call"}
    assert said[0] == '{"error": "unknown tool: glob"}' and "error" not in said[1]
    assert "glob" not in said[2] and "glob" not in script.requests[0].system
    assert [entry.allowed for entry in world.audited if entry.action == "tool.use"] == [False, True, True]


@pytest.mark.promise("P-approval")
async def test_a_call_by_tool_call_asks_under_the_tools_own_name(tmp_path: Path) -> None:
    world, _ = world_of(tmp_path, by_call("touch"), tools=[*BUILT_IN, acting("touch", Trail().leave)])
    reconfigure(world, policy={"always_ask": ["touch"]})
    async with world.running() as core:
        await core.say("touch it")
        await eventually(lambda: asked_so_far(core))
        [question] = asked_so_far(core)
        await core.command(f"/deny {question.id}")
        await core.settled()
    assert question.title == "The agent wants to use `touch`"
    assert "tool_call" not in f"{question.text} {question.details}"


async def test_a_direct_call_by_the_name_of_a_tool_from_the_index_works(tmp_path: Path) -> None:
    call = ToolCall("c1", "glob", {"pattern": "*.md"})
    world, script = world_of(tmp_path, Answer(calls=(call,)), window=4_096)
    (world.root / "tea.md").write_text("Green.")
    async with world.running() as core:
        await talk(core, "which notes are there?")
        assert "tea.md" in (await results(core))[0]
    assert "glob" not in offered(script)[0]


async def test_the_index_tells_which_agents_may_be_started(tmp_path: Path) -> None:
    kinds = {"cook": {"description": "Knows recipes."}}
    world, script = world_of(tmp_path, agents={"kinds": kinds})
    async with world.running() as core:
        await talk(core, "hello")
    assert "- cook: Knows recipes." in script.requests[0].system and "agent" not in offered(script)[0]


@pytest.fixture
async def ollama() -> AsyncIterator[FakeProvider]:
    async with fake_provider() as server:
        shown = {"capabilities": ["completion", "tools"], "model_info": {"m.context_length": 8_192}}
        server.routes["/api/show"] = lines(shown)
        yield server


@pytest.fixture
async def ports() -> AsyncIterator[ModelPorts]:
    async with model_ports() as given:
        yield given


def saying(*, calls: Any = ()) -> Reply:
    ending = part(done=True, done_reason="stop", prompt_eval_count=900, eval_count=4)
    told = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    message = {"role": "assistant", "content": "" if told else "So it is.", "tool_calls": told}
    return lines({"model": "m", "message": message, "done": False}, ending)


@pytest.mark.promise("P-cache-stable")
async def test_a_model_whose_window_its_server_knows_is_shown_the_same_from_its_first_request_on(
    tmp_path: Path, ollama: FakeProvider, ports: ModelPorts
) -> None:
    given = {"name": "glob", "arguments": {"pattern": "*"}}
    ollama.will(saying(calls=[("tool_call", given)]), saying())
    model = OLLAMA.open(ollama.url, ports, context_window=None)
    async with World(tmp_path, tools=BUILT_IN, model=model).running() as core:
        await talk(core, "hello", "and?")
    first, *others = [received.body for received in ollama.asked]
    assert len(others) == 2 and {tool["function"]["name"] for tool in first["tools"]} == SMALL_CORE | ITSELF
    for before, after in pairwise([first, *others]):
        assert after["tools"] == before["tools"]
        spoken = before["messages"]
        assert after["messages"][: len(spoken)] == spoken
    call, result = others[0]["messages"][-2:]
    assert call["tool_calls"] == [{"function": {"name": "tool_call", "arguments": given}}]
    assert (result["role"], result["tool_name"]) == ("tool", "tool_call")
