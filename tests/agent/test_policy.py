"""The limits of a turn, counted."""

import asyncio

import pytest

from goclaw.agent.policy import RunPolicy
from goclaw.agent.rules import rules_of
from goclaw.config.policies import LimitSettings
from goclaw.errors import LimitReached
from goclaw.messages import ToolCall, ToolResult

GOOD, BAD = ToolResult("1", "read", "text"), ToolResult("1", "read", '{"error": "no"}', is_error=True)


def policy(**limits: float) -> RunPolicy:
    return RunPolicy(rules_of(LimitSettings.model_validate(limits)))


def read(path: str) -> ToolCall:
    return ToolCall("id", "read", {"path": path})


def test_as_many_calls_as_allowed_are_fine() -> None:
    limited = policy(tool_calls=3)
    limited.before([read("a"), read("b")])
    limited.before([read("c")])
    with pytest.raises(LimitReached, match=r"after 3 tool calls in one turn \(limits\.tool_calls\)"):
        limited.before([read("d")])


def test_one_answer_that_asks_for_too_much_is_caught_before_any_of_it_runs() -> None:
    with pytest.raises(LimitReached, match=r"limits\.tool_calls"):
        policy(tool_calls=2).before([read("a"), read("b"), read("c")])


def test_the_same_call_over_and_over_is_caught() -> None:
    limited = policy(repeated_calls=3)
    limited.before([read("a"), read("a")])
    limited.before([read("a")])
    with pytest.raises(LimitReached, match=r"same read call more than 3 times in a row \(limits\.repeated_calls\)"):
        limited.before([read("a")])


def test_another_call_between_starts_the_count_anew() -> None:
    limited = policy(repeated_calls=2)
    for path in "aabaabaab":
        limited.before([read(path)])


def test_failures_in_a_row_are_caught() -> None:
    limited = policy(failed_calls=3)
    limited.after([BAD, BAD])
    with pytest.raises(LimitReached, match=r"3 tool calls in a row that failed \(limits\.failed_calls\)"):
        limited.after([BAD])


def test_a_success_between_starts_the_count_anew() -> None:
    limited = policy(failed_calls=2)
    for result in (BAD, GOOD, BAD, GOOD, BAD):
        limited.after([result])


async def test_time_is_a_limit() -> None:
    with pytest.raises(LimitReached, match=r"longer than 0\.01 s \(limits\.turn_seconds\)"):
        async with policy(turn_seconds=0.01).time_budget():
            await asyncio.Event().wait()


async def test_somebody_elses_time_out_is_not_taken_for_the_limit() -> None:
    with pytest.raises(TimeoutError):
        async with policy(turn_seconds=60).time_budget():
            raise TimeoutError("a tool's own")
