"""What asks first while an agent works for a client: put to the person there where that can be done, else refused."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import Risk, SideEffect
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from tests.conversation.sessions.agents import asks_for, says
from tests.conversation.sessions.exporting import PLAN
from tests.gateway.servers.mcp.exporting import living, offering, world_of
from tests.gateway.servers.mcp.test_approving import Person
from tests.gateway.servers.mcp.test_tools import said
from tests.gateway.servers.mcp.test_tools_agents import ASKED, ERAS, plans
from tests.parts import Trail

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
RISKING = [
    asks_for(ASKED, ToolCall("r1", "risky", {})),
    says("noted", "cake"),
    says("approval required", "I was not let."),
    says("did not approve", "They said no."),
]
KEEP = {"description": "Keep a plan.", "arguments": {}, "passthrough": {"tool": "risky"}}
ASKING = {"elicitation": True}


def risky(trail: Trail) -> Tool:
    async def run(ctx: ToolContext) -> str:
        """Need somebody's word."""
        return await trail.leave()

    return tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH, name="risky", idempotent=False)(run)


@pytest.mark.parametrize(("action", "answer", "times"), [("accept", "cake", 1), ("decline", "They said no.", 0)])
async def test_the_person_at_an_older_client_is_asked_and_told_which_agent_wants_it(
    tmp_path: Path, action: str, answer: str, times: int
) -> None:
    trail, person = Trail("noted"), Person(action)
    world = world_of(tmp_path, RISKING, [risky(trail)], ASKING, agents=offering(PLAN))
    async with living(world) as home, home.client(mode="legacy", elicitation_callback=person.answer) as client:
        assert said(await plans(client)) == answer
    assert len(person.asked) == 1 and "The agent planner (create_plan) wants to use `risky`" in person.asked[0]
    assert trail.times == times
    asked = [(each.object, each.allowed) for each in home.audited if each.action == "tool.approval"]
    assert asked == [("risky", action == "accept")]


@pytest.mark.parametrize("server", [ASKING, {}])
async def test_a_newer_client_is_not_asked_in_the_middle_and_the_agent_reads_why(tmp_path: Path, server: Any) -> None:
    trail, person = Trail("noted"), Person("accept")
    world = world_of(tmp_path, RISKING, [risky(trail)], server, agents=offering(PLAN))
    async with living(world) as home, home.client(mode="2026-07-28", elicitation_callback=person.answer) as client:
        assert said(await plans(client)) == "I was not let."
    assert person.asked == [] and trail.times == 0
    assert ("cannot be asked while an agent works" in str(world.script.requests[-1].messages)) is bool(server)


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_call_is_handed_on_to_asks_by_itself(tmp_path: Path, era: str) -> None:
    trail, person = Trail("noted"), Person("accept")
    world = world_of(tmp_path, [], [risky(trail)], ASKING, agents=offering(PLAN, KEEP))
    async with living(world) as home, home.client(mode=era, elicitation_callback=person.answer) as client:
        assert said(await client.call_tool("keep_plan", {})) == "noted"
    assert len(person.asked) == 1 and trail.times == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("action", "asked", "times"), [("accept", 2, 1), ("decline", 1, 0)])
async def test_both_may_ask_the_tool_and_the_one_that_it_hands_on_to(
    tmp_path: Path, era: str, action: str, asked: int, times: int
) -> None:
    trail, person = Trail("noted"), Person(action)
    keep = {**KEEP, "confirm": {"prompt": "Keep it?"}}
    world = world_of(tmp_path, [], [risky(trail)], ASKING, agents=offering(PLAN, keep))
    async with living(world) as home, home.client(mode=era, elicitation_callback=person.answer) as client:
        found = await client.call_tool("keep_plan", {})
        assert found.is_error is (times == 0)
        assert len(person.asked) == asked and trail.times == times
        again = await client.call_tool("keep_plan", {})
        assert again.is_error is (times == 0) and len(person.asked) == 2 * asked, "a yes is good for one call"
