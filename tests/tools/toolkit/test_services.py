"""What tools reach of a turn: refused outside of one, and out of reach once their call is over."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from goclaw.common.core.events import Address, Delivery, Question
from goclaw.common.core.messages import AssistantMessage, ToolCall
from goclaw.common.specs import SideEffect
from goclaw.errors import DeliveryError, ToolError
from goclaw.tools.approval.requests import ApprovalRequest
from goclaw.tools.toolkit.agent_tasks import NO_TEAM, AgentTask, Forward
from goclaw.tools.toolkit.base import ToolContext, tool
from goclaw.tools.toolkit.bench import open_bench
from goclaw.tools.toolkit.services import Sample, TurnServices
from tests.tables import table

CALL = ToolCall("c", "change", {})
QUESTION = Question("q", "question", "tui:ann", "Where?", "")
DELIVERY = Delivery("d", Address("telegram", "1"), "hi")
SAMPLE = Sample("x", "", [AssistantMessage("hi")], 10)


@table(
    "use, says",
    [
        (lambda on: on.approve(ApprovalRequest(CALL, "change has high risk", "", "")), "approval required: change has"),
        (lambda on: on.ask(QUESTION, "s"), "nobody can be asked here"),
        (lambda on: on.deliver(DELIVERY), "no channel named telegram is connected here"),
        (lambda on: on.leave_plan("default"), "no session here whose mode could change"),
        (lambda on: on.command("/whoami"), "nobody here who answers commands"),
        (lambda on: on.spawn(AgentTask("x"), "s", "c"), "no agents can be started here"),
        (lambda on: on.forward(Forward("change", {}, "main"), "s", "c"), "change cannot be called from here"),
        (lambda on: on.sample(SAMPLE), "no conversation on whose account"),
        (lambda on: on.teams.send("all", "x"), NO_TEAM),
        (lambda on: on.settings.choose("session.mode", "plan"), "no conversation here for which session.mode"),
    ],
)
async def test_outside_of_a_turn_a_service_is_refused_in_words(
    use: Callable[[TurnServices], Awaitable[object]], says: str
) -> None:
    with pytest.raises((ToolError, DeliveryError)) as refused:
        await use(TurnServices())
    assert says in str(refused.value)


async def test_outside_of_a_turn_nothing_is_recorded_and_a_call_stays_as_it_is(tmp_path: Path) -> None:
    on = TurnServices()
    await on.intend("s")
    await on.keep_todos([])
    assert on.chosen_mode() is None and on.settings.file is None and not await on.settings.of_session()


async def test_a_call_that_is_over_reaches_no_service(tmp_path: Path) -> None:
    kept: list[ToolContext] = []

    @tool(side_effect=SideEffect.READ_ONLY)
    async def keep(ctx: ToolContext) -> str:
        """Keep the context for later."""
        kept.append(ctx)
        return "kept"

    async with open_bench(tmp_path, keep) as bench:
        await bench.call("keep")
        (ctx,) = kept
        for use in (ctx.ask(QUESTION), ctx.deliver(DELIVERY), ctx.keep_todos([]), ctx.sample(SAMPLE)):
            with pytest.raises(ToolError, match="the call was ended"):
                async with asyncio.timeout(5):
                    await use
        for name in ("teams", "settings", "reminders"):
            with pytest.raises(ToolError, match="the call was ended"):
                getattr(ctx, name)
        assert not bench.asked and not bench.delivered and ctx.mode() == "default"
