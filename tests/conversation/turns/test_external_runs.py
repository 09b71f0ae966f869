"""Calls from outside of every conversation: agents work for them, and none goes on when its caller has left."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.access import ChosenMode
from goclaw.common.auth.users import User
from goclaw.common.config.values import Mode
from goclaw.common.core.events import LOCAL, Actor, Address
from goclaw.common.core.messages import ToolCall, ToolResult, UserMessage
from goclaw.common.specs import Risk, SideEffect
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.toolkit.agent_tasks import AgentPort, AgentReport, AgentTask, Forward
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.scope import CallScope
from goclaw.tools.toolkit.services import TurnServices
from tests.conversation.sessions.agents import agents_of, asks_for, results, says
from tests.conversation.sessions.exporting import PLAN, exporting, planning, world_with
from tests.harness import Core, World
from tests.kills import recorded
from tests.parts import Trail, acting

ANN = "tui:ann"
ASKED = "Plan for a party, please."
NOTE = ToolCall("n1", "note", {})
NOTING = [asks_for(ASKED, NOTE), says("noted", "cake")]
RISKING = [asks_for(ASKED, ToolCall("r1", "risky", {})), says("was risked", "cake"), says("", "I was not let.")]


@tool(side_effect=SideEffect.NETWORK, risk=Risk.HIGH)
async def risky(ctx: ToolContext) -> str:
    """Ask before it runs."""
    return "was risked"


class Waiting(TurnServices):
    """The client that waits for the call."""

    agents: AgentPort

    def __init__(self, approves: bool = False) -> None:
        self.approves = approves
        self.asked: list[tuple[str, str]] = []

    async def approve_for_agent(self, wanted: ApprovalRequest, agent: str) -> Approval:
        self.asked.append((wanted.call.name, agent))
        return Approval(wanted.digest) if self.approves else Approval(refusal="no")

    async def call(self, core: Core, call: ToolCall) -> ToolResult:
        """Make the call as the MCP server does."""
        scope = CallScope(
            actor=Actor(ANN, "mcp"),
            session=ANN,
            address=Address(LOCAL, ANN),
            services=self,
            turn="mcp",
        )
        async with core.sessions.external_runs.open_port(scope, f"visit-{call.id}", self, None) as self.agents:
            return await core.sessions.ports.dispatcher.call(call, scope)

    async def spawn(self, task: AgentTask, step: str, call_id: str) -> AgentReport:
        return await self.agents.spawn(task, step, call_id)

    async def forward(self, wanted: Forward, step: str, call_id: str) -> ToolResult:
        return await self.agents.forward(wanted, step, call_id)


def world_of(folder: Path, script: Sequence[Any], *own: Any, role: str = "user") -> World:
    users = [User(ANN, roles=frozenset({role}))]
    return world_with(folder, script, own, users=users, agents=exporting({"create_plan": PLAN}))


async def test_after_a_kill_nothing_goes_on_and_nothing_is_there_twice(tmp_path: Path) -> None:
    trail = Trail("noted")
    world = world_of(tmp_path, NOTING, acting("note", trail.leave, idempotent=False))

    async def calling(core: Core) -> None:
        await Waiting().call(core, planning())

    moments = await recorded(world, calling, trail)
    for moment in moments:
        with moment.restored():
            await check_nothing_goes_on(world, trail)
    assert moments[-1].write >= 5, "every write of the call was tried"


async def check_nothing_goes_on(world: World, trail: Trail) -> None:
    """The next life leaves it, and the same call can be made again."""
    before = trail.times
    async with world.running() as core:
        await core.settled()
        assert not core.sessions.agents.of(ANN) and trail.times == before <= 1
        assert not await core.sessions.ports.store.journal.steps("visit-c1"), "nothing is left to be taken up"
        for theirs in await agents_of(core, ANN):
            assert (await core.messages(theirs)).count(UserMessage(ASKED)) <= 1
        assert (await Waiting().call(core, planning(call_id="c2"))).content == "cake", "made again it is another run"
    assert trail.times == before + 1


@pytest.mark.promise("P-interim")
async def test_an_mcp_client_gets_all_that_the_agent_said(tmp_path: Path) -> None:
    script = [asks_for(ASKED, NOTE, text="A cake, and tea."), says("noted", "Done.")]
    world = world_of(tmp_path, script, acting("note", Trail("noted").leave))
    async with world.running() as core:
        assert (await Waiting().call(core, planning())).content == "A cake, and tea.\n\nDone."


@pytest.mark.promise("P-modes")
@pytest.mark.parametrize("mode", ["plan", "bypass"])
async def test_what_was_chosen_in_the_persons_conversation_does_not_count(tmp_path: Path, mode: Mode) -> None:
    world, waiting = world_of(tmp_path, RISKING, risky, role="admin"), Waiting(approves=True)
    async with world.running() as core:
        (await core.sessions.contexts.session(ANN)).settings.mode = ChosenMode(mode, "default")
        assert (await waiting.call(core, planning())).content == "cake"
    assert [name for name, _ in waiting.asked] == ["risky"]


async def test_whoever_waits_is_asked_and_told_which_agent_wants_it(tmp_path: Path) -> None:
    world, waiting = world_of(tmp_path, RISKING, risky), Waiting(approves=True)
    async with world.running() as core:
        assert (await waiting.call(core, planning())).content == "cake"
        (theirs,) = await agents_of(core, ANN)
        assert results(await core.messages(theirs)) == ["was risked"]
        assert core.sessions.ports.questions.of(ANN) == (), "nobody is asked in the person's conversation"
    assert waiting.asked == [("risky", "planner: create_plan")]


async def test_it_costs_what_it_costs_and_status_shows_it_while_it_lasts(tmp_path: Path) -> None:
    trail = Trail("noted")
    world = world_of(tmp_path, NOTING, acting("note", trail.leave_slowly))
    async with world.running() as core:
        calling = asyncio.create_task(Waiting().call(core, planning()))
        await trail.begun.wait()
        (line,) = await core.sessions.agents.lines(ANN)
        assert line.startswith("planner: create_plan (") and ", for an MCP client)" in line
        trail.gate.set()
        await calling
        spent = await core.sessions.ports.store.spending.of_turn(ANN, "visit-c1")
        assert spent.requests == 2 and await core.sessions.agents.lines(ANN) == []
