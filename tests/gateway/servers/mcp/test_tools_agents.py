"""Tools that agents export, for clients: each call is a run of the agent for the user of the token, and no more."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult

from goclaw.common.auth.users import User
from goclaw.common.core.messages import AssistantMessage, ToolCall, UserMessage
from goclaw.common.specs import SideEffect
from goclaw.gateway.servers.mcp.backend import NoExternalRuns
from goclaw.tools.builtin.agent import agent
from goclaw.tools.builtin.teams import send_message, team_create
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.conversation.sessions.agents import agents_of, asks_for, results, says
from tests.conversation.sessions.exporting import PLAN, exporting
from tests.gateway.servers.mcp.exporting import living, offering, world_of
from tests.gateway.servers.mcp.house import ANN, BOB
from tests.gateway.servers.mcp.test_tools import said
from tests.gateway.servers.mcp.test_watching import until
from tests.parts import Trail, acting

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
ERAS = ["legacy", "2026-07-28"]
ASKED = "Plan for a party, please."
OBJECT = {"plan": "string", "steps": {"type": "integer", "minimum": 1}}
NOTE = ToolCall("n1", "note", {})
NOTING = [asks_for(ASKED, NOTE), says("noted", "cake"), says("unknown tool", "I cannot.")]
KEEP = {"description": "Keep a plan.", "arguments": {}, "passthrough": {"tool": "note"}}


def noting(trail: Trail | None = None) -> Tool:
    return acting("note", (trail or Trail("noted")).leave)


async def plans(client: Client, **options: Any) -> CallToolResult:
    return await client.call_tool("create_plan", {"goal": "a party"}, **options)


async def names(client: Client) -> list[str]:
    return sorted(each.name for each in (await client.list_tools()).tools)


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_a_run_of_the_agent_for_the_user_of_the_token(tmp_path: Path, era: str) -> None:
    world = world_of(tmp_path, NOTING, [noting()], agents=offering(PLAN))
    async with living(world) as home:
        async with home.listener() as listener, listener.client(await listener.token("ann", ANN), era) as client:
            assert await names(client) == ["create_plan", "note"]
            found = await plans(client)
            assert said(found) == "cake" and not found.is_error
        (theirs,) = await agents_of(home.core, ANN)
        messages = await home.core.messages(theirs)
        spent = await home.core.sessions.ports.store.spending.of_person(ANN, 0.0)
        assert messages[0] == UserMessage(ASKED) and messages[-1] == AssistantMessage("cake")
        assert results(messages) == ["noted"] and spent.requests == 2
        assert await home.core.messages(ANN) == [], "nothing is said in the person's own conversation"
    audited = [(each.object, each.result, each.actor.key, each.actor.entry) for each in home.audited]
    assert audited == [("note", "ok", ANN, "mcp"), ("create_plan", "ok", ANN, "mcp")]


async def test_a_result_is_mended_and_comes_as_fields(tmp_path: Path) -> None:
    script = [
        says("Plan for a party", "I would bake a cake."),
        says("got other text", '{"plan": "cake", "steps": 2}'),
    ]
    async with living(world_of(tmp_path, script, agents=offering({**PLAN, "result": OBJECT}))) as home:
        async with home.client() as client:
            found = await plans(client)
    assert found.structured_content == {"plan": "cake", "steps": 2} and not found.is_error


async def test_a_result_that_never_fits_is_told_in_words(tmp_path: Path) -> None:
    script = [says("Plan for a party", "cake"), says("That cannot be used", "cake")]
    async with living(world_of(tmp_path, script, agents=offering({**PLAN, "result": OBJECT}))) as home:
        async with home.client() as client:
            found = await plans(client)
    assert found.is_error and "answered with something else than what create_plan_result" in said(found)


async def test_a_passthrough_calls_its_tool_and_the_fields_are_its_own(tmp_path: Path) -> None:
    trail = Trail('{"plan": "cake", "steps": 1}')
    tools = offering(PLAN, {**KEEP, "result": OBJECT})
    async with living(world_of(tmp_path, [], [noting(trail)], agents=tools)) as home, home.client() as client:
        found = await client.call_tool("keep_plan", {})
        assert found.structured_content == {"plan": "cake", "steps": 1} and trail.times == 1
        assert not await home.core.sessions.ports.store.journal.steps(home.audited[0].turn)
    assert [(each.object, each.result) for each in home.audited] == [("note", "ok"), ("keep_plan", "ok")]


async def test_who_may_not_use_it_neither_sees_nor_calls_it(tmp_path: Path) -> None:
    users = [User(ANN, allowed_tools=frozenset({"note"})), User(BOB)]
    world = world_of(tmp_path, NOTING, [noting()], agents=offering(PLAN), users=users)
    async with living(world) as home:
        async with home.client(ANN) as ann, home.client(BOB) as bob:
            assert await names(ann) == ["note"]
            assert said(await plans(ann)) == "unknown tool: create_plan"
            assert said(await plans(bob)) == "cake"
        assert not await agents_of(home.core, ANN)


async def test_only_what_is_published_or_chosen_is_for_clients(tmp_path: Path) -> None:
    own = [noting(), agent, team_create, send_message]
    everything = {"tools": ["create_plan", "tag:agents", "tag:conversation"]}
    (tmp_path / "all").mkdir()
    async with living(world_of(tmp_path, [], own, agents=exporting({"create_plan": PLAN}))) as home:
        async with home.client() as client:
            assert await names(client) == ["note"]
            assert said(await plans(client)) == "unknown tool: create_plan"
    world = world_of(tmp_path / "all", [], own, everything, agents=exporting({"create_plan": PLAN}))
    async with living(world) as home, home.client() as client:
        assert await names(client) == ["agent", "create_plan"], "nobody leads a team from outside"
        behind = await client.call_tool("agent", {"task": "look", "run_in_background": True})
        assert behind.is_error and "starts no agent in the background" in said(behind)


async def test_where_no_agents_work_for_others_none_is_offered(tmp_path: Path) -> None:
    tools = offering(PLAN, KEEP)
    world = world_of(tmp_path, [], [noting(), agent], agents=tools, limits={"agent_depth": 0})
    async with living(world) as home, home.client() as client:
        assert await names(client) == ["keep_plan", "note"]


@pytest.mark.parametrize(("own", "noted"), [(False, 0), (True, 1)])
async def test_the_agent_has_what_clients_are_offered_at_most_unless_the_export_gives_it_its_own(
    tmp_path: Path, own: bool, noted: int
) -> None:
    trail = Trail("noted")
    server = {"tools": ["create_plan"]}
    world = world_of(tmp_path, NOTING, [noting(trail)], server, agents=offering(PLAN, own_tools=own))
    async with living(world) as home, home.client() as client:
        assert said(await plans(client)) == ("cake" if own else "I cannot.")
    assert trail.times == noted


async def test_several_work_at_once_and_no_more_than_may(tmp_path: Path) -> None:
    trail = Trail("noted")
    note = acting("note", trail.leave_slowly)
    world = world_of(tmp_path, NOTING, [note], agents=offering(PLAN), limits={"agents_at_once": 2})
    async with living(world) as home, home.client() as client:
        calling = [asyncio.create_task(plans(client)) for _ in range(2)]
        await until(lambda: trail.times == 2)
        (status,) = [await home.core.sessions.agents.lines(ANN)]
        assert len(status) == 2 and all("planner: create_plan" in line and "an MCP client" in line for line in status)
        third = await plans(client)
        assert third.is_error and "which is the limit" in said(third)
        trail.gate.set()
        assert [said(each) for each in await asyncio.gather(*calling)] == ["cake", "cake"]
        assert len(await agents_of(home.core, ANN)) == 2 and not home.core.sessions.agents.of(ANN)


async def test_what_a_person_may_spend_holds(tmp_path: Path) -> None:
    world = world_of(tmp_path, NOTING, [noting()], agents=offering(PLAN), limits={"daily_tokens": 1})
    async with living(world) as home, home.client() as client:
        found = await plans(client)
        assert found.is_error and "your requests today used" in said(found)
        (theirs,) = await agents_of(home.core, ANN)
        assert theirs in said(found), "it is said where the rest is kept"


async def test_progress_tells_what_the_agent_does(tmp_path: Path) -> None:
    heard: list[str] = []
    trail = Trail("noted")

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")
        if "note" in heard[-1]:
            trail.gate.set()

    note = acting("note", trail.leave_slowly)
    world = world_of(tmp_path, NOTING, [note], agents=offering(PLAN))
    async with living(world) as home, home.client(mode="legacy") as client:
        assert said(await plans(client, progress_callback=hear)) == "cake"
    assert "planner: create_plan: note" in heard


@pytest.mark.parametrize("tool_name", ["create_plan", "keep_plan"])
async def test_a_call_that_comes_back_to_itself_ends(tmp_path: Path, tool_name: str) -> None:
    """As where two gateways use each other's agents."""
    clients: list[Client] = []
    times = 0

    @tool(side_effect=SideEffect.READ_ONLY, name="note")
    async def around(ctx: ToolContext) -> str:
        """Call what has called this."""
        nonlocal times
        times += 1
        return f"came back with {said(await clients[0].call_tool(tool_name, {'goal': 'a party'}))}"

    keep = {**KEEP, "arguments": {"goal": "string"}, "passthrough": {"tool": "note", "input": {}}}
    script = [asks_for(ASKED, NOTE), says("came back", "It ended."), says("which is the limit", "Full.")]
    world = world_of(tmp_path, script, [around], agents=offering(PLAN, keep), limits={"agents_at_once": 3})
    async with living(world) as home, home.client() as client:
        clients.append(client)
        found = said(await client.call_tool(tool_name, {"goal": "a party"}))
        assert found == "It ended." or "which is the limit" in found
    assert times == 3


async def test_without_the_daemon_it_is_said_how_agents_are_reached(tmp_path: Path) -> None:
    world = world_of(tmp_path, [], [agent], {"tools": ["agent"]})
    async with living(world) as home:
        home.backend = replace(home.backend, external_runs=NoExternalRuns())  # as `goclaw mcp serve` has them
        async with home.client() as client:
            assert [each.name for each in (await client.list_tools()).tools] == []
            found = await client.call_tool("agent", {"task": "look"})
    assert found.is_error and "agents run in the daemon" in said(found) and "mcp.server.enabled" in said(found)
