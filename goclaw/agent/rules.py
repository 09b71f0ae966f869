"""The rules of a turn: an agent's policy, completed by `limits`, and the key behind each number."""

from collections.abc import Iterator
from dataclasses import field

from goclaw.config.agents import HistorySettings, MissingFields, RunPolicySettings
from goclaw.config.policies import LimitSettings
from goclaw.llm.base import CachePoints
from goclaw.records import record

MAIN = "agents.main.policy"
"""The configuration key of the main agent's policy."""


@record
class Cap:
    """A number that must not be passed, and the key that sets it."""

    most: float
    key: str


@record
class TurnRules:
    """The rules of one turn."""

    tool_calls: Cap
    failed_calls: Cap
    repeated_calls: Cap
    budget: Cap
    """Seconds of the whole turn."""
    plan: Cap | None = None
    """Seconds of one answer of the model."""
    tool_seconds: float | None = None
    """Seconds of a tool that declares no time of its own; None: `tools.timeout`."""
    tokens: Cap | None = None
    cost: Cap | None = None
    daily_tokens: Cap | None = None
    daily_cost: Cap | None = None
    history: HistorySettings = field(default_factory=HistorySettings)
    cache: CachePoints = field(default_factory=CachePoints)
    interrupts_allowed: bool = True
    on_missing_fields: MissingFields = ""
    continue_cut: bool = False
    place: str = MAIN
    """The section that the policy stands in."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of what holds, for people."""
        per_turn = [
            f"{self.tool_calls.most:g} tool calls",
            f"{self.failed_calls.most:g} failures in a row",
            in_words(self.budget.most),
        ]
        if self.tokens:
            per_turn.append(f"{self.tokens.most:,.0f} tokens")
        if self.cost:
            per_turn.append(f"${self.cost.most:,.2f}")
        yield "A turn", f"at most {', '.join(per_turn)}"
        if self.plan:
            yield "An answer", f"at most {in_words(self.plan.most)}"
        if self.history.keep_recent_turns:
            yield "History", f"the last {self.history.keep_recent_turns} turns are shown"
        if (compress := self.history.compress).trigger_at:
            yield "History", f"summarised at {compress.trigger_at} turns, the last {compress.keep_recent} kept"
        if not self.interrupts_allowed:
            yield "Interrupts", "not allowed"
        if self.on_missing_fields:
            yield "Missing fields", self.on_missing_fields


def rules_of(limits: LimitSettings, policy: RunPolicySettings | None = None, place: str = MAIN) -> TurnRules:
    """Return the rules of an agent with its policy at `place` in the configuration."""
    own = policy or RunPolicySettings.model_construct()
    timing = own.timing
    budget = _first((own.time_budget, f"{place}.time_budget"), (timing.budget, f"{place}.timing.budget"))
    return TurnRules(
        tool_calls=_first((own.max_tool_calls, f"{place}.max_tool_calls"))
        or Cap(limits.tool_calls, "limits.tool_calls"),
        failed_calls=_first((own.max_consecutive_failed_tool_calls, f"{place}.max_consecutive_failed_tool_calls"))
        or Cap(limits.failed_calls, "limits.failed_calls"),
        repeated_calls=Cap(limits.repeated_calls, "limits.repeated_calls"),
        budget=budget or Cap(limits.turn_seconds, "limits.turn_seconds"),
        plan=_first((timing.plan, f"{place}.timing.plan")),
        tool_seconds=timing.tools,
        tokens=_first((own.max_tokens, f"{place}.max_tokens"), (limits.turn_tokens, "limits.turn_tokens")),
        cost=_first((own.max_cost, f"{place}.max_cost"), (limits.turn_cost, "limits.turn_cost")),
        daily_tokens=_first((limits.daily_tokens, "limits.daily_tokens")),
        daily_cost=_first((limits.daily_cost, "limits.daily_cost")),
        history=own.history,
        cache=CachePoints(own.cache.after_system is not False, own.cache.after_tools is not False),
        interrupts_allowed=own.interrupts_allowed,
        on_missing_fields=own.on_missing_fields,
        continue_cut=limits.continue_cut,
        place=place,
    )


def in_words(seconds: float) -> str:
    """Return a span as it may be written in the configuration: `1h30m`."""
    if seconds < 60 or seconds % 1:
        return f"{seconds:g}s"
    parts = (int(seconds // 3600), "h"), (int(seconds % 3600 // 60), "m"), (int(seconds % 60), "s")
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def _first(*candidates: tuple[float | None, str]) -> Cap | None:
    """Return the first number that is set."""
    return next((Cap(number, key) for number, key in candidates if number is not None), None)
