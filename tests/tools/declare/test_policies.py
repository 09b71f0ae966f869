"""Policies in code are those of the configuration, word by word."""

import pytest
from pydantic import ValidationError

from goclaw.common.config.agents import RunPolicySettings
from goclaw.common.config.policies import LimitSettings
from goclaw.conversation.agent.limits import rules_of
from goclaw.tools.declare import (
    after_system,
    after_tools,
    budget,
    cache,
    compress,
    default_caps,
    history,
    interrupts_allowed,
    keep_recent_turns,
    max_consecutive_failed_tool_calls,
    max_cost,
    max_tokens,
    max_tool_calls,
    on_missing_fields,
    plan,
    run_policy,
    time_budget,
    timing,
    tools,
)


def test_a_whole_policy_is_what_the_configuration_would_say() -> None:
    """The complete example of the source document."""
    declared = run_policy(
        default_caps(max_tool_calls(8), max_consecutive_failed_tool_calls(3), max_tokens(1_000), max_cost(0.5)),
        timing(budget("5m"), plan("30s"), tools("1m")),
        interrupts_allowed(True),
        on_missing_fields("await_clarification"),
        history(compress(30, 10)),
        cache(after_system(), after_tools()),
    )
    written = {
        "max_tool_calls": 8,
        "max_consecutive_failed_tool_calls": 3,
        "max_tokens": 1_000,
        "max_cost": 0.5,
        "timing": {"budget": "5m", "plan": "30s", "tools": "1m"},
        "interrupts_allowed": True,
        "on_missing_fields": "await_clarification",
        "history": {"compress": {"trigger_at": 30, "keep_recent": 10}},
        "cache": {"after_system": True, "after_tools": True},
    }
    assert declared == RunPolicySettings.model_validate(written)
    rules = rules_of(LimitSettings(), declared)
    assert (rules.calls.total.most, rules.calls.failed.most, rules.time.budget.most) == (8, 3, 300)
    assert rules.time.plan and rules.time.plan.most == 30 and rules.time.tools == 60


def test_the_simple_forms() -> None:
    declared = run_policy(time_budget("2m"), history(keep_recent_turns(20)), cache(after_system()))
    rules = rules_of(LimitSettings(), declared)
    assert rules.time.budget.most == 120 and rules.history.keep_recent_turns == 20
    assert (rules.cache.after_system, rules.cache.after_tools) == (True, False)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: run_policy(time_budget("2m"), time_budget("3m")), "time_budget is said twice"),
        (lambda: run_policy(time_budget("2m"), timing(plan("3s"))), "excludes `time_budget`"),
        (lambda: run_policy(default_caps(max_tool_calls(0))), "greater than or equal to 1"),
        (lambda: run_policy(history(compress(5, 5))), "should be less than `trigger_at`"),
        (lambda: run_policy(time_budget("soon")), "should be a time such as"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(make: object, fault: str) -> None:
    with pytest.raises((ValueError, ValidationError), match=fault):
        make()  # type: ignore[operator]  # each is a function
