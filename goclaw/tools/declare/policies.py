"""Run policies in the words of the source document; they compile to an agent's `policy` of the configuration."""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from goclaw.common.config.agents import MissingFields, RunPolicySettings
from goclaw.tools.declare.options import Option, collect, refuse_leftovers

Time = str | float
"""`2m`, `45s`, `1h30m`, or seconds."""


class PolicyOption(Option, forms=("run_policy",)):
    """Stands in `run_policy`."""


class CapOption(Option, forms=("default_caps",)):
    """Stands in `default_caps`."""


class TimingOption(Option, forms=("timing",)):
    """Stands in `timing`."""


class HistoryOption(Option, forms=("history",)):
    """Stands in `history`."""


class CacheOption(Option, forms=("cache",)):
    """Stands in `cache`."""


class PolicyKeywords(TypedDict, total=False):
    """What a run policy may say by keyword."""

    max_tool_calls: int
    max_consecutive_failed_tool_calls: int
    max_tokens: int
    max_cost: float
    time_budget: Time
    interrupts_allowed: bool
    on_missing_fields: MissingFields


def RunPolicy(*options: PolicyOption, **said: Unpack[PolicyKeywords]) -> RunPolicySettings:
    """Declare the run policy of an agent: `RunPolicy(max_tool_calls=8, time_budget="2m")`, and more word by word.

    Raises:
        ValueError: something is said twice, stands elsewhere or cannot be, or two things exclude each other.
    """
    found = _collect(options, PolicyOption, "run_policy")
    found = {**found.pop("default_caps", {}), **found}
    if twice := sorted(found.keys() & said.keys()):
        raise ValueError(f"run_policy: {twice[0]} is said twice")
    return RunPolicySettings.model_validate({**found, **said})


run_policy = RunPolicy
"""The same by its name among the words."""


def default_caps(*caps: CapOption) -> PolicyOption:
    """Set the limits of a turn."""
    return PolicyOption("default_caps", _collect(caps, CapOption, "default_caps"))


def max_tool_calls(number: int) -> CapOption:
    """Tool calls in one turn."""
    return CapOption("max_tool_calls", number)


def max_consecutive_failed_tool_calls(number: int) -> CapOption:
    """Tool calls that fail one after the other."""
    return CapOption("max_consecutive_failed_tool_calls", number)


def max_tokens(number: int) -> CapOption:
    """Set the tokens of one turn."""
    return CapOption("max_tokens", number)


def max_cost(dollars: float) -> CapOption:
    """US dollars of one turn."""
    return CapOption("max_cost", dollars)


def time_budget(time: Time) -> PolicyOption:
    """Set the time limit of a turn; excludes `timing`."""
    return PolicyOption("time_budget", time)


def timing(*parts: TimingOption) -> PolicyOption:
    """Set the time limits in detail."""
    return PolicyOption("timing", _collect(parts, TimingOption, "timing"))


def budget(time: Time) -> TimingOption:
    """Set the time limit of the whole turn."""
    return TimingOption("budget", time)


def plan(time: Time) -> TimingOption:
    """Set the time limit of one answer of the model."""
    return TimingOption("plan", time)


def tools(time: Time) -> TimingOption:
    """Set the time limit of one call of a tool that declares none of its own."""
    return TimingOption("tools", time)


def history(part: HistoryOption) -> PolicyOption:
    """Set which turns the model is shown, by one policy."""
    return PolicyOption("history", _collect([part], HistoryOption, "history"))


def keep_recent_turns(number: int) -> HistoryOption:
    """Keep the last so many turns."""
    return HistoryOption("keep_recent_turns", number)


def compress(trigger_at: int, keep_recent: int, *, model: str | None = None) -> HistoryOption:
    """Put a summary in place of older turns; `model` writes it, else `models.summary`."""
    return HistoryOption("compress", {"trigger_at": trigger_at, "keep_recent": keep_recent, "model": model})


def cache(*points: CacheOption) -> PolicyOption:
    """Mark where the prompt stays the same; positions not named are not marked."""
    said = _collect(points, CacheOption, "cache")
    return PolicyOption("cache", {"after_system": False, "after_tools": False, **said})


def after_system() -> CacheOption:
    """After the system prompt."""
    return CacheOption("after_system", True)


def after_tools() -> CacheOption:
    """After the tools."""
    return CacheOption("after_tools", True)


def interrupts_allowed(allowed: bool) -> PolicyOption:
    """Set whether `/pause` may hold a turn."""
    return PolicyOption("interrupts_allowed", allowed)


def on_missing_fields(action: MissingFields) -> PolicyOption:
    """Set the treatment of a call that lacks arguments."""
    return PolicyOption("on_missing_fields", action)


def _collect(options: Sequence[Option], kind: type[Option], form: str) -> dict[str, Any]:
    refuse_leftovers(options, kind, form, form)
    return collect(options, form)
