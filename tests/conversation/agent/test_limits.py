"""The limits of a turn, counted."""

import asyncio

import pytest

from goclaw.common.config.agents import MissingFields, RunPolicySettings, TimingSettings
from goclaw.common.config.policies import LimitSettings
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.conversation.agent.limits import RunPolicy, rules_of
from goclaw.errors import LimitReached, ModelError
from tests.conversation.sessions.agents import until

GOOD, BAD = ToolResult("1", "read", "text"), ToolResult("1", "read", '{"error": "no"}', is_error=True)
MALFORMED = ToolResult("1", "read", '{"error": "field"}', is_error=True, malformed=True)


def policy(**limits: float) -> RunPolicy:
    return RunPolicy(rules_of(LimitSettings.model_validate(limits)))


def read(path: str) -> ToolCall:
    return ToolCall("id", "read", {"path": path})


def test_as_many_calls_as_allowed_are_fine() -> None:
    limited = policy(tool_calls=3)
    limited.before([read("a"), read("b")])
    limited.before([read("c")])
    with pytest.raises(LimitReached, match=r"after 3 tool calls in one turn\.$") as reached:
        limited.before([read("d")])
    assert reached.value.key == "limits.tool_calls"


def test_one_answer_that_asks_for_too_much_is_caught_before_any_of_it_runs() -> None:
    with pytest.raises(LimitReached, match="after 2 tool calls"):
        policy(tool_calls=2).before([read("a"), read("b"), read("c")])


def test_the_same_call_over_and_over_is_caught() -> None:
    limited = policy(repeated_calls=3)
    limited.before([read("a"), read("a")])
    limited.before([read("a")])
    with pytest.raises(LimitReached, match=r"same read call more than 3 times in a row\.$") as reached:
        limited.before([read("a")])
    assert reached.value.key == "limits.repeated_calls"


def test_another_call_between_starts_the_count_anew() -> None:
    limited = policy(repeated_calls=2)
    for path in "aabaabaab":
        limited.before([read(path)])


def test_failures_in_a_row_are_caught() -> None:
    limited = policy(failed_calls=3)
    limited.after([BAD, BAD])
    with pytest.raises(LimitReached, match=r"3 failed tool calls in a row\.$") as reached:
        limited.after([BAD])
    assert reached.value.key == "limits.failed_calls"


def test_a_success_between_starts_the_count_anew() -> None:
    limited = policy(failed_calls=2)
    for result in (BAD, GOOD, BAD, GOOD, BAD):
        limited.after([result])


def tried(limited: RunPolicy, *results: ToolResult) -> bool:
    """Count an answer with different calls; return whether malformed ones get the schema."""
    limited.before([read(f"{len(results)}{number}") for number, _ in enumerate(results)])
    explains = limited.explains
    limited.after(results)
    return explains


def test_failures_of_form_end_the_turn_only_after_the_schema_was_shown() -> None:
    limited = policy(failed_calls=3, repeated_calls=9)
    assert [tried(limited, MALFORMED) for _ in range(3)] == [False, False, True]
    with pytest.raises(LimitReached, match=r"after 4 failed tool calls in a row\.$") as reached:
        tried(limited, MALFORMED)
    assert reached.value.key == "limits.failed_calls"


def test_calls_of_one_answer_get_the_schema_where_they_reach_the_limit_together() -> None:
    limited = policy(failed_calls=3)
    assert tried(limited, MALFORMED, MALFORMED, MALFORMED, MALFORMED)
    with pytest.raises(LimitReached, match="after 5 failed tool calls"):
        tried(limited, BAD)


@pytest.mark.parametrize("results", [(BAD, MALFORMED, MALFORMED), (MALFORMED, MALFORMED, BAD)])
def test_failures_that_concern_more_than_form_end_the_turn_at_the_limit(results: tuple[ToolResult, ...]) -> None:
    limited = policy(failed_calls=3, repeated_calls=9)
    assert [tried(limited, result) for result in results[:2]] == [False, False]
    with pytest.raises(LimitReached, match="after 3 failed tool calls"):
        tried(limited, results[2])


def test_a_success_after_the_schema_starts_the_count_anew() -> None:
    limited = policy(failed_calls=2, repeated_calls=9)
    shown = [tried(limited, result) for result in (MALFORMED, MALFORMED, GOOD, MALFORMED, MALFORMED)]
    assert shown == [False, True, False, False, True]


def test_the_same_malformed_call_gets_the_schema_before_its_repetition_ends_the_turn() -> None:
    limited = policy(repeated_calls=3)
    assert [tried(limited, MALFORMED) for _ in range(3)] == [False, False, True]
    with pytest.raises(LimitReached, match="same read call"):
        tried(limited, MALFORMED)


async def test_time_is_a_limit() -> None:
    with pytest.raises(LimitReached, match=r"longer than 0\.01 s\.$") as reached:
        async with policy(turn_seconds=0.01).time_budget():
            await asyncio.Event().wait()
    assert reached.value.key == "limits.turn_seconds"


async def test_the_time_of_a_tool_ends_and_stands_still_as_that_of_the_turn_does() -> None:
    async def wait_longer() -> None:
        late = asyncio.get_running_loop().time() + 0.03
        await until(lambda: asyncio.get_running_loop().time() > late)

    limited = policy()
    async with limited.limit(0.02):
        with limited.pause_clock():
            await wait_longer()
            async with limited.limit(0.02):
                await wait_longer()
    with limited.pause_clock():
        pass
    with pytest.raises(TimeoutError):
        async with limited.limit(0.01):
            await asyncio.Event().wait()


async def test_somebody_elses_time_out_is_not_taken_for_the_limit() -> None:
    with pytest.raises(TimeoutError):
        async with policy(turn_seconds=60).time_budget():
            raise TimeoutError("a tool's own")


async def test_the_time_of_an_answer_is_a_limit_and_what_is_asked_again_counts_into_it() -> None:
    planning = RunPolicy(rules_of(LimitSettings(), RunPolicySettings(timing=TimingSettings(plan=0.05)))).planning()
    async with planning.request():
        pass
    with pytest.raises(ModelError, match=r"longer than 0\.05 s to answer\.$"):
        async with planning.request():
            await asyncio.Event().wait()
    with pytest.raises(ModelError, match="longer than"):
        async with planning.request():
            await asyncio.Event().wait()


async def test_an_answer_may_take_its_time_where_nobody_limits_it_and_a_time_out_of_its_own_stays_one() -> None:
    with pytest.raises(TimeoutError):
        async with policy().planning().request():
            raise TimeoutError("its own")


def lacking(mode: MissingFields) -> RunPolicy:
    limits = LimitSettings(failed_calls=2)
    return RunPolicy(rules_of(limits, RunPolicySettings(on_missing_fields=mode)))


LACKS = ToolResult("1", "write", '{"error": "…"}', is_error=True, lacking=("path", "content"))


def test_a_call_that_lacks_arguments_ends_the_turn_where_the_policy_says_so() -> None:
    with pytest.raises(LimitReached, match=r"write lacked required fields: path, content\.$") as reached:
        lacking("finalize").after([LACKS])
    assert reached.value.key == "agents.main.policy.on_missing_fields"


def test_a_call_that_lacks_arguments_is_neither_a_failure_nor_a_success_where_the_turn_goes_on() -> None:
    going_on = lacking("resume")
    going_on.after([BAD, LACKS, LACKS, LACKS])
    with pytest.raises(LimitReached, match="2 failed tool calls in a row"):
        going_on.after([LACKS, BAD])


def test_a_call_that_lacks_arguments_is_a_failure_like_others_where_the_policy_says_nothing() -> None:
    with pytest.raises(LimitReached, match="2 failed tool calls in a row"):
        lacking("").after([LACKS, LACKS])
