"""`exit_plan_mode`: a person approves the plan, or plan mode goes on; in whole turns, over restarts."""

from pathlib import Path
from typing import Any

import pytest

from goclaw.common.auth.users import User
from goclaw.common.core.events import AcceptKind, QuestionAsked
from goclaw.common.core.messages import ToolCall
from goclaw.common.specs import SideEffect
from goclaw.errors import GoclawError
from goclaw.llm.scripted import Answer
from goclaw.tools.builtin.planning import MAX_PLAN, exit_plan_mode
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.conversation.questions.test_questions import asked, results
from tests.harness import Core, World
from tests.tools.builtin.memory_support import surroundings

HERE = "memory:here"
PLAN = ToolCall("c1", "exit_plan_mode", {"plan": "1. Read\n2. Mend"})
CHANGE = ToolCall("c2", "change", {})


@tool(side_effect=SideEffect.MUTATING)
async def change(ctx: ToolContext) -> str:
    """Change something."""
    return "changed"


def planning(folder: Path, *calls: ToolCall, **policy: Any) -> World:
    """A model that makes each call in an answer of its own."""
    return answering(folder, [*(Answer(calls=(call,)) for call in calls), Answer("Done.")], **policy)


def answering(folder: Path, answers: list[Answer], **policy: Any) -> World:
    """A world with these answers of its model."""
    return World(folder, answers, tools=[exit_plan_mode, change], users=[User("memory:anna")], policy=policy)


@pytest.mark.promise("P-modes")
@pytest.mark.parametrize("said", ["approve", "Approve"])
async def test_an_approved_plan_ends_plan_mode(tmp_path: Path, said: str) -> None:
    world = planning(tmp_path, PLAN, CHANGE, mode="plan")
    async with world.running() as core:
        await core.say("go")
        question = await asked(core)
        assert (question.title, question.text) == ("Approve this plan?", "1. Read\n2. Mend")
        assert (await core.say(said)).kind is AcceptKind.ANSWER
        await core.settled()
        approved = "the person approved the plan; the mode is default now. Carry it out"
        assert await results(core) == [approved, "changed"]
        assert await core.sessions.choices.modes.choice_for(HERE) == "default"


@pytest.mark.promise("P-modes")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Keep planning", "did not approve the plan\n"),
        ("Approve it without step 2", "and said:\nApprove it without step 2\n"),
    ],
)
async def test_without_a_yes_plan_mode_goes_on_and_the_model_is_told_what_was_said(
    tmp_path: Path, said: str, told: str
) -> None:
    world = planning(tmp_path, PLAN, CHANGE, mode="plan")
    async with world.running() as core:
        await core.say("go")
        await asked(core)
        await core.say(said)
        await core.settled()
        first, second = await results(core)
        assert told in first and "plan mode goes on" in first
        assert "the session is in plan mode" in second
        assert await core.sessions.choices.modes.choice_for(HERE) == "plan"


async def test_a_plan_that_nobody_wants_to_judge_is_not_approved(tmp_path: Path) -> None:
    async with planning(tmp_path, PLAN, mode="plan").running() as core:
        await core.say("go")
        await core.command(f"/deny {(await asked(core)).id}")
        await core.settled()
        assert "did not approve" in (await results(core))[0]


async def test_the_question_outlives_a_restart_and_its_answer_still_ends_plan_mode(tmp_path: Path) -> None:
    world = planning(tmp_path, PLAN, CHANGE, mode="plan")
    async with world.running() as core:
        await core.say("go")
        await asked(core)
    async with world.running() as core:
        await asked(core)
        await core.say("approve")
        await core.settled()
        assert (await results(core))[1] == "changed"


@pytest.mark.promise("P-modes")
async def test_what_stands_behind_the_plan_in_the_same_answer_is_not_done_with_its_approval(tmp_path: Path) -> None:
    world = answering(tmp_path, [Answer(calls=(PLAN, CHANGE)), Answer("Done.")], mode="plan")
    async with world.running() as core:
        await core.say("go")
        await asked(core)
        await core.say("approve")
        await core.settled()
        said = await results(core)
        assert any("the session is in plan mode" in each for each in said)


async def test_outside_plan_mode_nobody_is_asked(tmp_path: Path) -> None:
    async with planning(tmp_path, PLAN).running() as core:
        await core.say("go")
        await core.settled()
        assert await results(core) == ["there is no plan mode to leave: the mode is default. Nobody was asked; go on"]
        assert questions(core) == []


async def test_the_mode_that_is_configured_is_gone_back_to_but_never_one_in_which_nothing_asks(tmp_path: Path) -> None:
    for number, (configured, afterwards) in enumerate([("accept-edits", "accept-edits"), ("bypass", "default")]):
        (tmp_path / str(number)).mkdir()
        world = planning(tmp_path / str(number), PLAN, mode=configured, allow_bypass=True)
        async with world.running() as core:
            await core.command("/mode plan")
            await core.say("go")
            await asked(core)
            await core.say("approve")
            await core.settled()
            assert await core.sessions.choices.modes.choice_for(HERE) == afterwards


@pytest.mark.parametrize(
    "given", [{}, {"plan": 1}, {"plan": ""}, {"plan": "x" * (MAX_PLAN + 1)}, {"plan": "\ud800"}, {"text": "x"}]
)
async def test_bad_input_asks_nobody(tmp_path: Path, given: dict[str, Any]) -> None:
    async with surroundings(tmp_path) as around:
        with pytest.raises(GoclawError):
            await around.call(exit_plan_mode, given)
        assert around.questions == []


def questions(core: Core) -> list[QuestionAsked]:
    return [event for event in core.seen if isinstance(event, QuestionAsked)]
