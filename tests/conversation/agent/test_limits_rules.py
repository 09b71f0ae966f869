"""What an agent's policy says, what `limits` says where it says nothing, and the key behind each number."""

import pytest

from goclaw.common.config.agents import RunPolicySettings
from goclaw.common.config.policies import LimitSettings
from goclaw.conversation.agent.limits import Cap, TurnRules, in_words, rules_of
from goclaw.llm.base import UNCACHED

LIMITS = LimitSettings(turn_tokens=1_000)


def rules(**policy: object) -> TurnRules:
    return rules_of(LIMITS, RunPolicySettings.model_validate(policy))


def test_what_a_policy_leaves_open_is_as_the_limits_say() -> None:
    found = rules()
    assert found.calls.total == Cap(50, "limits.tool_calls")
    assert found.calls.failed == Cap(5, "limits.failed_calls")
    assert found.time.budget == Cap(900, "limits.turn_seconds")
    assert found.tokens == Cap(1_000, "limits.turn_tokens")
    assert [found.cost, found.time.plan, found.time.tools] == [None] * 3


def test_what_a_policy_says_goes_before_the_limits_and_brings_its_key() -> None:
    place = "agents.main.policy"
    found = rules(
        max_tool_calls=8,
        max_consecutive_failed_tool_calls=3,
        max_tokens=10,
        max_cost=0.5,
        timing={"budget": "10m", "plan": "45s", "tools": "2m"},
        cache={"after_system": False, "after_tools": False},
    )
    assert found.calls.total == Cap(8, f"{place}.max_tool_calls")
    assert found.calls.failed == Cap(3, f"{place}.max_consecutive_failed_tool_calls")
    assert found.tokens == Cap(10, f"{place}.max_tokens")
    assert found.cost == Cap(0.5, f"{place}.max_cost")
    assert found.time.budget == Cap(600, f"{place}.timing.budget")
    assert found.time.plan == Cap(45, f"{place}.timing.plan")
    assert found.time.tools == 120
    assert found.cache == UNCACHED
    assert rules(time_budget="2m").time.budget == Cap(120, f"{place}.time_budget")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.5, "0.5s"), (45, "45s"), (60, "1m"), (90, "1m30s"), (900, "15m"), (5400, "1h30m")]
)
def test_spans_are_told_as_they_are_written(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_what_holds_is_told_in_few_lines() -> None:
    told = rules(
        max_cost=1,
        timing={"plan": "45s"},
        history={"compress": {"trigger_at": 30}},
        interrupts_allowed=False,
        on_missing_fields="finalize",
    ).lines()
    assert list(told) == [
        ("A turn", "at most 50 tool calls, 5 failures in a row, 15m, 1,000 tokens, $1.00"),
        ("An answer", "at most 45s"),
        ("History", "summarised at 30 turns, the last 10 kept"),
        ("Interrupts", "not allowed"),
        ("Missing fields", "finalize"),
    ]
