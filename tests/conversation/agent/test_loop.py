"""The loop alone: ask, run, feed back, end."""

import asyncio
from dataclasses import dataclass, field

import pytest

from goclaw.common.config.policies import LimitSettings
from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult
from goclaw.conversation.agent.limits import RunPolicy, rules_of
from goclaw.conversation.agent.loop import run_turn
from goclaw.errors import LimitReached, StateError

LOOK, READ = ToolCall("1", "look", {}), ToolCall("2", "read", {})


@dataclass
class Steps:
    """A turn whose model says what is listed. Implements `TurnSteps`."""

    answers: list[AssistantMessage]
    done: list[str] = field(default_factory=list)
    trouble: Exception | None = None
    cut: int = 0
    """Answers of which the rest is asked for."""
    answered: str = ""

    async def add_user_message(self) -> None:
        self.done.append("hear")

    async def answer(self, number: int) -> AssistantMessage:
        self.done.append(f"answer {number}")
        self.answered += self.answers[number - 1].text
        return self.answers[number - 1]

    async def use(self, number: int, call: ToolCall) -> ToolResult:
        if self.trouble and call is READ:
            raise self.trouble
        await asyncio.sleep(0)
        self.done.append(f"use {number} {call.name}")
        return ToolResult(call.id, call.name, "{}", is_error=call.name == "bad")

    async def request_rest(self, number: int) -> bool:
        self.cut -= 1
        return self.cut >= 0


def policy(**limits: int) -> RunPolicy:
    return RunPolicy(rules_of(LimitSettings.model_validate(limits)))


async def test_an_answer_that_was_cut_and_goes_on_is_one_answer() -> None:
    steps = Steps([AssistantMessage("Once upon a ti"), AssistantMessage("me there "), AssistantMessage("was.")], cut=2)
    assert await run_turn(steps, policy()) == "Once upon a time there was."


async def test_an_answer_without_calls_is_the_end() -> None:
    steps = Steps([AssistantMessage("Hello")])
    assert await run_turn(steps, policy()) == "Hello"
    assert steps.done == ["hear", "answer 1"]


async def test_calls_are_run_and_the_model_is_asked_again() -> None:
    steps = Steps([AssistantMessage("", (LOOK, READ)), AssistantMessage("", (LOOK,)), AssistantMessage("Done")])
    assert await run_turn(steps, policy()) == "Done"
    assert steps.done == ["hear", "answer 1", "use 1 look", "use 1 read", "answer 2", "use 2 look", "answer 3"]


async def test_what_is_too_much_is_not_run() -> None:
    steps = Steps([AssistantMessage("", (LOOK, READ))])
    with pytest.raises(LimitReached):
        await run_turn(steps, policy(tool_calls=1))
    assert steps.done == ["hear", "answer 1"]


async def test_failures_are_counted_after_they_ran() -> None:
    steps = Steps([AssistantMessage("", (ToolCall("1", "bad", {}),))] * 3)
    with pytest.raises(LimitReached, match="failed tool calls in a row"):
        await run_turn(steps, policy(failed_calls=2))
    assert steps.done[-1] == "use 2 bad"


async def test_a_journal_that_cannot_be_written_ends_the_turn_by_its_own_name() -> None:
    steps = Steps([AssistantMessage("", (LOOK, READ))], trouble=StateError("the disk is full"))
    with pytest.raises(StateError, match="the disk is full"):
        await run_turn(steps, policy())
