"""The loop of one turn: ask the model, run its calls, feed the results back, until it makes no more calls.

Every step goes through the journal (see `TurnSteps`), so the same code runs a turn for the first time and resumes it
after a crash. Limits, /stop and failures leave by exception.
"""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Protocol

from goclaw.common.core.messages import AssistantMessage, ToolCall, ToolResult
from goclaw.conversation.agent.limits import RunPolicy
from goclaw.errors import StateError


class TurnSteps(Protocol):
    """The actions of the loop, as journaled steps; the window and the events are updated after each."""

    async def add_user_message(self) -> None:
        """Put the user's message into the transcript."""
        ...

    async def answer(self, number: int) -> AssistantMessage:
        """Take in what joins the turn (`/queue`), make the context fit, then ask the model for the `number`-th time."""
        ...

    async def use(self, number: int, call: ToolCall) -> ToolResult:
        """Run one tool call of the `number`-th answer."""
        ...

    async def request_rest(self, number: int) -> bool:
        """Return whether the `number`-th answer was cut and its rest is requested; the model is informed then."""
        ...

    @property
    def answered(self) -> str:
        """The text of the last answer; of one that was cut and continued, after its earlier parts."""
        ...


async def run_turn(turn: TurnSteps, policy: RunPolicy) -> str:
    """Run a turn to its end and return the text of the last answer, all parts of one that was cut and went on.

    Raises:
        LimitReached: a limit of the policy ended the turn.
        ModelError: no model of the chain gave an answer.
    """
    async with policy.time_budget():
        await turn.add_user_message()
        return await _rounds(turn, policy, 1)


async def continue_turn(turn: TurnSteps, policy: RunPolicy, number: int) -> str:
    """Continue with answer `number` after an objection to the last one; as `run_turn`, with its time restarted."""
    async with policy.time_budget():
        return await _rounds(turn, policy, number)


async def _rounds(turn: TurnSteps, policy: RunPolicy, first: int) -> str:
    for number in count(first):
        answer = await turn.answer(number)
        if answer.calls:
            policy.before(answer.calls)
            policy.after(await _use_all(turn, number, answer.calls))
        elif not await turn.request_rest(number):
            return turn.answered
    raise AssertionError("count never ends")


async def _use_all(turn: TurnSteps, number: int, calls: Sequence[ToolCall]) -> list[ToolResult]:
    refused: list[StateError] = []

    async def use(call: ToolCall) -> list[ToolResult]:
        try:
            return [await turn.use(number, call)]
        except StateError as error:
            refused.append(error)  # the disk's fault: the others end first, so that none of them is cut
            return []

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(use(call)) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from failures  # the code that ends the turn knows errors, not groups
    if refused:
        raise refused[0]
    return [result for task in running for result in task.result()]
