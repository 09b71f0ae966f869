"""Permission modes and denials in whole turns: what the model reads, what runs, and what a restart changes."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.auth.users import User
from goclaw.common.config.values import Mode
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import DENY, Actor, Outcome, TurnFinished
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.specs import SideEffect
from goclaw.conversation.sessions.modes import PLANNING
from goclaw.llm.scripted import Answer
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.conversation.compaction.test_maintenance_flush import NotedWorld, files, turns
from tests.conversation.sessions.approving import asked_so_far, open_questions, reconfigure, results
from tests.harness import PATIENCE, World

ANN = Actor("telegram:5", "telegram")
BOSS = Actor("telegram:6", "telegram")
USERS = (User("telegram:5"), User("telegram:6", roles=frozenset({"admin"})))
CHANGE, REACH, PLAN = ToolCall("c1", "change", {}), ToolCall("c2", "reach", {}), ToolCall("c3", "settle_plan", {})


@tool(side_effect=SideEffect.MUTATING)
async def change(ctx: ToolContext) -> str:
    """Change something."""
    return "changed"


@tool(side_effect=SideEffect.NETWORK)
async def reach(ctx: ToolContext) -> str:
    """Reach out."""
    return "reached"


@tool(side_effect=SideEffect.NONE)
async def settle_plan(ctx: ToolContext, mode: Mode = "default") -> str:
    """Go on as the person agreed."""
    await ctx.leave_plan(mode)
    return "agreed"


TOOLS = (change, reach, settle_plan)


def calling(*calls: ToolCall) -> list[Answer]:
    """A model that makes each call in an answer of its own, and then is done."""
    return [*(Answer(calls=(call,)) for call in calls), Answer("Done.")]


@pytest.mark.promise("P-modes")
@pytest.mark.promise("P-what-runs-what-asks")
async def test_in_plan_mode_nothing_is_changed_and_the_model_is_told_so_until_the_plan_is_approved(
    tmp_path: Path,
) -> None:
    again = ToolCall("c4", "change", {})
    world = World(tmp_path, calling(CHANGE, PLAN, again), tools=TOOLS, users=USERS, policy={"mode": "plan"})
    async with world.running() as core:
        await core.say("go", actor=ANN, session=ANN.key)
        await core.settled()
        assert await results(core, ANN.key) == [
            '{"error": "refused: change has medium risk, and the session is in plan mode"}',
            "agreed",
            "changed",
        ]
    told = [PLANNING.text[:40] in request.reminder for request in world.script.requests]
    assert told == [True, True, False, False]
    assert [(entry.object, entry.actor) for entry in world.audited if entry.action == "session.mode"] == [
        ("default", ANN)
    ]


async def test_an_approved_plan_gives_no_bypass_to_who_is_no_admin(tmp_path: Path) -> None:
    bypass = ToolCall("c1", "settle_plan", {"mode": "bypass"})
    policy = {"mode": "plan", "allow_bypass": True}
    world = World(tmp_path, calling(bypass), tools=TOOLS, users=USERS, policy=policy)
    async with world.running() as core:
        await core.say("go", actor=ANN, session=ANN.key)
        await core.settled()
        (said,) = await results(core, ANN.key)
        assert "permission denied: this person may not choose the mode bypass" in said
        assert await core.sessions.choices.modes.of(ANN.key, ANN) == "plan"


@pytest.mark.promise("P-modes")
async def test_after_a_restart_a_bypass_that_is_allowed_no_more_asks_anew(tmp_path: Path) -> None:
    world = World(tmp_path, [*calling(REACH), *calling(REACH)], tools=TOOLS, users=USERS)
    reconfigure(world, policy={"allow_bypass": True})
    async with world.running() as core:
        await core.command("/mode bypass", actor=BOSS, session=BOSS.key)
        await core.say("go", actor=BOSS, session=BOSS.key)
        await core.settled()
        assert await results(core, BOSS.key) == ["reached"] and not asked_so_far(core)
    reconfigure(world, policy={"allow_bypass": False})
    async with world.running() as core:
        await core.say("again", actor=BOSS, session=BOSS.key)
        async with asyncio.timeout(PATIENCE):
            while not asked_so_far(core):  # noqa: ASYNC110  # the core has no event for it
                await asyncio.sleep(0)
        assert await core.sessions.choices.modes.of(BOSS.key, BOSS) == "default"


@pytest.mark.promise("P-modes")
async def test_a_call_that_waits_for_approval_over_a_restart_is_judged_by_the_mode_of_then(tmp_path: Path) -> None:
    world = World(tmp_path, calling(REACH), tools=TOOLS, users=USERS)
    async with world.running() as core:
        await core.say("go", actor=BOSS, session=BOSS.key)
        async with asyncio.timeout(PATIENCE):
            while not open_questions(core):  # noqa: ASYNC110  # the core has no event for it
                await asyncio.sleep(0)
        await core.command("/mode plan", actor=BOSS, session=BOSS.key)
    async with world.running() as core:
        await core.settled()
        assert await results(core, BOSS.key) == [
            '{"error": "refused: reach has high risk, and the session is in plan mode"}'
        ]


@pytest.mark.promise("P-one-result")
@pytest.mark.parametrize("ends", [True, False])
async def test_a_denial_ends_the_turn_when_every_call_has_its_result(tmp_path: Path, ends: bool) -> None:
    policy = {"deny_ends_turn": ["reach"] if ends else []}
    both = Answer("Both.", calls=(REACH, CHANGE))
    world = World(tmp_path, [both, Answer("Another way.")], tools=TOOLS, users=USERS, policy=policy)
    async with world.running() as core:
        await core.say("go", actor=ANN, session=ANN.key)
        async with asyncio.timeout(PATIENCE):
            while not (found := open_questions(core)):  # noqa: ASYNC110  # the core has no event for it
                await asyncio.sleep(0)
        await core.sessions.ports.questions.decide(ANN, found[0].id, DENY)
        await core.settled()
        denied, changed = await results(core, ANN.key)
        assert "denied" in denied and changed == "changed"
        (end,) = [event for event in core.seen if isinstance(event, TurnFinished)]
    sentence = "I stopped: my call of reach was refused. Tell me how to continue."
    assert (end.outcome, end.text) == ((Outcome.LIMITED, sentence) if ends else (Outcome.ANSWERED, "Another way."))


def test_that_a_denial_ends_the_turn_is_journaled() -> None:
    codec: Codec[ToolResult] = Codec(ToolResult)
    assert codec.from_json(codec.to_json(ToolResult("c1", "reach", "no", ends_turn=True))).ends_turn
    assert not codec.from_json('{"call_id": "c1", "name": "reach", "content": "of an older version"}').ends_turn


@pytest.mark.promise("P-modes")
async def test_nothing_is_noted_while_a_session_is_in_plan_mode(tmp_path: Path) -> None:
    world = NotedWorld(tmp_path, 120, 130)
    async with world.running() as core:
        await core.command("/mode plan")
        await turns(core)
        assert (world.asked, files(world)) == (0, {})
        await core.command("/mode default")
        await turns(core)
        assert world.asked == 1
