"""The rules of a turn, and the limits counted against them. Each ends it with a sentence; the log has the key.

The rules are an agent's policy, completed by `limits`, and the key of each number.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field, replace
from difflib import SequenceMatcher

from goclaw.common.config.agents import HistorySettings, MissingFields, RunPolicySettings
from goclaw.common.config.policies import LimitSettings
from goclaw.common.core.events import Unattended
from goclaw.common.core.messages import ToolCall, ToolResult
from goclaw.common.core.records import record
from goclaw.errors import MAX_NAME, LimitReached, ModelError, ModelErrorKind
from goclaw.llm.base import CachePoints

log = logging.getLogger(__name__)

MAIN_POLICY = "agents.main.policy"
"""The configuration key of the main agent's policy."""

MAX_DENIALS = 3
"""Denials in a turn after which it ends: a model that goes on does not understand them."""
ALIKE = 0.8
"""Similarity from which two calls count as the same one in other words (`difflib`)."""
_COMPARED = 2_000
"""Maximum characters compared of a call."""
_SHORT, _PIECE = 200, 5
"""Maximum characters that are compared letter by letter, and the length of the pieces of longer texts.

Letter by letter, longer texts can take many seconds.
"""


@record
class Cap:
    """A number that must not be passed, and the key that sets it."""

    most: float
    key: str
    """For the log: people read words."""
    words: str = ""
    """Whose number it is, where it is not everybody's: `the budget of news`."""

    @property
    def note(self) -> str:
        """The words, to stand behind the number."""
        return f" ({self.words})" if self.words else ""

    def stop(self, sentence: str) -> LimitReached:
        """Return the error that ends a turn with this sentence."""
        return LimitReached(sentence, key=self.key)


@record
class CallCaps:
    """The caps on the tool calls of a turn."""

    total: Cap
    failed: Cap
    """In a row."""
    repeated: Cap
    """In a row, with the same arguments."""


@record
class TimeCaps:
    """The caps on the time of a turn, in seconds."""

    budget: Cap
    """Of the whole turn."""
    plan: Cap | None = None
    """Of one answer of the model."""
    tools: float | None = None
    """Of a tool that declares no time of its own; None: `tools.timeout`."""


@record
class TurnRules:
    """The rules of one turn."""

    calls: CallCaps
    time: TimeCaps
    tokens: Cap | None = None
    cost: Cap | None = None
    history: HistorySettings = field(default_factory=HistorySettings)
    cache: CachePoints = field(default_factory=CachePoints)
    interrupts_allowed: bool = True
    on_missing_fields: MissingFields = ""
    continue_cut: bool = False
    place: str = MAIN_POLICY
    """The section that the policy stands in."""

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of what holds, for people."""
        per_turn = [
            f"{self.calls.total.most:g} tool calls",
            f"{self.calls.failed.most:g} failures in a row",
            in_words(self.time.budget.most),
        ]
        if self.tokens:
            per_turn.append(f"{self.tokens.most:,.0f} tokens")
        if self.cost:
            per_turn.append(f"${self.cost.most:,.2f}")
        yield "A turn", f"at most {', '.join(per_turn)}"
        if self.time.plan:
            yield "An answer", f"at most {in_words(self.time.plan.most)}"
        if self.history.keep_recent_turns:
            yield "History", f"the last {self.history.keep_recent_turns} turns are shown"
        if (compress := self.history.compress).trigger_at:
            yield "History", f"summarised at {compress.trigger_at} turns, the last {compress.keep_recent} kept"
        if not self.interrupts_allowed:
            yield "Interrupts", "not allowed"
        if self.on_missing_fields:
            yield "Missing fields", self.on_missing_fields


def rules_of(limits: LimitSettings, policy: RunPolicySettings | None = None, place: str = MAIN_POLICY) -> TurnRules:
    """Return the rules of an agent with its policy at `place` in the configuration."""
    own = policy or RunPolicySettings.model_construct()
    timing = own.timing
    budget = _first((own.time_budget, f"{place}.time_budget"), (timing.budget, f"{place}.timing.budget"))
    return TurnRules(
        CallCaps(
            total=_first((own.max_tool_calls, f"{place}.max_tool_calls"))
            or Cap(limits.tool_calls, "limits.tool_calls"),
            failed=_first((own.max_consecutive_failed_tool_calls, f"{place}.max_consecutive_failed_tool_calls"))
            or Cap(limits.failed_calls, "limits.failed_calls"),
            repeated=Cap(limits.repeated_calls, "limits.repeated_calls"),
        ),
        TimeCaps(
            budget or Cap(limits.turn_seconds, "limits.turn_seconds"),
            _first((timing.plan, f"{place}.timing.plan")),
            timing.tools,
        ),
        tokens=_first((own.max_tokens, f"{place}.max_tokens"), (limits.turn_tokens, "limits.turn_tokens")),
        cost=_first((own.max_cost, f"{place}.max_cost"), (limits.turn_cost, "limits.turn_cost")),
        history=own.history,
        cache=CachePoints(own.cache.after_system is not False, own.cache.after_tools is not False),
        interrupts_allowed=own.interrupts_allowed,
        on_missing_fields=own.on_missing_fields,
        continue_cut=limits.continue_cut,
        place=place,
    )


def unattended_rules(rules: TurnRules, unattended: Unattended | None) -> TurnRules:
    """Return the rules with the cost and time limits of an unattended turn, where those are lower."""
    if unattended is None:
        return rules
    costs, times = [rules.cost] if rules.cost else [], [rules.time.budget]
    if unattended.budget is not None:
        costs.append(Cap(unattended.budget, unattended.name, f"the budget of {unattended.name}"))
    if unattended.seconds is not None:
        times.append(Cap(unattended.seconds, unattended.name, f"the time limit of {unattended.name}"))
    time = replace(rules.time, budget=min(times, key=lambda cap: cap.most))
    return replace(rules, cost=min(costs, key=lambda cap: cap.most, default=None), time=time)


def in_words(seconds: float) -> str:
    """Return a span as it may be written in the configuration: `1h30m`."""
    if seconds < 60 or seconds % 1:
        return f"{seconds:g}s"
    parts = (int(seconds // 3600), "h"), (int(seconds % 3600 // 60), "m"), (int(seconds % 60), "s")
    return "".join(f"{number}{unit}" for number, unit in parts if number)


def _first(*candidates: tuple[float | None, str]) -> Cap | None:
    return next((Cap(number, key) for number, key in candidates if number is not None), None)


class RunPolicy:
    """Counts the actions of a turn. One object per turn."""

    def __init__(self, rules: TurnRules) -> None:
        self.rules = rules
        self._calls = 0
        self._failures = 0
        self._malformed = 0
        """Those of the failures in a row that concern the form alone."""
        self.explains = False
        """Whether malformed calls of the last answer get the schema once more: the next one would end the turn."""
        self._repetitions = 0
        self._last: tuple[str, object] | None = None
        self._clocks: dict[asyncio.Timeout, float] = {}
        """The clocks of the turn and of its tools, with the seconds that were left when they were stopped."""
        self._pauses = 0
        self._asked_for: Sequence[ToolCall] = ()
        """The calls of the last answer."""
        self._denied: list[ToolCall] = []

    @contextmanager
    def pause_clock(self) -> Iterator[None]:
        """Stops the turn's clocks while the block waits for a person; blocks may overlap."""
        loop = asyncio.get_running_loop()
        self._pauses += 1
        for clock in self._clocks:
            if (deadline := clock.when()) is not None and not clock.expired():
                self._clocks[clock] = deadline - loop.time()
                clock.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            for clock, left in self._clocks.items():
                if self._pauses == 0 and not clock.expired():
                    clock.reschedule(loop.time() + left)

    @asynccontextmanager
    async def limit(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """End the block with TimeoutError when it has taken so long, waiting for people not counted; None: never."""
        async with asyncio.timeout(None if self._pauses else seconds) as clock:
            self._clocks.update({} if seconds is None else {clock: seconds})
            try:
                yield clock
            finally:
                self._clocks.pop(clock, None)

    @asynccontextmanager
    async def time_budget(self) -> AsyncIterator[None]:
        """Ends the block with LimitReached when the turn has taken too long, waiting for people not counted."""
        cap, budget = self.rules.time.budget, None
        try:
            async with self.limit(cap.most) as budget:
                yield
        except TimeoutError:
            if budget is None or not budget.expired():
                raise
            raise cap.stop(f"I stopped: this took longer than {cap.most:g} s{cap.note}.") from None

    def planning(self) -> "Planning":
        """Return the time that one answer of the model may take."""
        return Planning(self.rules.time.plan)

    def before(self, calls: Sequence[ToolCall]) -> None:
        """Check the calls of an answer before any of them runs.

        Raises:
            LimitReached: too many calls, or the same one over and over.
        """
        self._asked_for, rules = calls, self.rules
        for call in calls:
            self._calls += 1
            same = self._last == (call.name, call.input)
            self._repetitions = self._repetitions + 1 if same else 1
            self._last = (call.name, call.input)
            if self._calls > rules.calls.total.most:
                raise rules.calls.total.stop(f"I stopped after {rules.calls.total.most:g} tool calls in one turn.")
            if self._repetitions > (most := rules.calls.repeated.most):
                raise rules.calls.repeated.stop(
                    f"I stopped: I repeated the same {call.name} call more than {most:g} times in a row."
                )
        left = rules.calls.failed.most - self._failures
        is_last = 0 < left <= len(calls) or (left > 0 and self._repetitions >= rules.calls.repeated.most)
        self.explains = is_last and self._malformed == self._failures

    def was_denied(self, call: ToolCall) -> bool:
        """Whether the call, or one that differs in few letters only, was denied in this turn."""
        return any(call.name == denied.name and _alike(call, denied) for denied in self._denied)

    def after(self, results: Sequence[ToolResult]) -> None:
        """Count failures and denials, also those of a resumed turn.

        Raises:
            LimitReached: too many calls failed one after the other, people said no too often, or one lacked arguments
                and the policy ends the turn then.
        """
        for call, result in zip(self._asked_for, results, strict=False):
            if result.denied:
                self._denied.append(call)
        if ended := next((result for result in results if result.ends_turn), None):
            raise LimitReached(
                f"I stopped: my call of {ended.name[:MAX_NAME]} was refused. Tell me how to continue.",
                key="policy.deny_ends_turn",
            )
        if len(self._denied) >= MAX_DENIALS:
            raise LimitReached(
                f"I stopped: {len(self._denied)} tool calls in this turn were denied. Tell me how to continue."
            )
        for result in results:
            if result.lacking and self.rules.on_missing_fields in ("finalize", "resume"):
                self._judge_lacking(result)
            else:
                self._failures = self._failures + 1 if result.is_error else 0
                self._malformed = self._malformed + result.malformed if result.is_error else 0
        # All failures in a row concern the form alone, and the model gets the schema with the last.
        is_explained = self.explains and self._malformed == self._failures
        if self._failures >= self.rules.calls.failed.most and not is_explained:
            raise self.rules.calls.failed.stop(f"I stopped after {self._failures} failed tool calls in a row.")

    def _judge_lacking(self, result: ToolResult) -> None:
        """With `resume` such a call is no failure, and no success either."""
        if self.rules.on_missing_fields == "finalize":
            raise LimitReached(
                f"I stopped: my call of {result.name} lacked required fields: {', '.join(result.lacking)}.",
                key=f"{self.rules.place}.on_missing_fields",
            )


class Planning:
    """The time of one answer: repeated requests for it count, the work between them does not."""

    def __init__(self, cap: Cap | None) -> None:
        self._cap = cap
        self._left = cap.most if cap else None

    @asynccontextmanager
    async def request(self, tokens: int = 0) -> AsyncIterator[None]:
        """Around a request with a prompt of so many tokens.

        Raises:
            ModelError: the time is over.
        """
        loop = asyncio.get_running_loop()
        began, limit = loop.time(), asyncio.timeout(self._left)
        try:
            async with limit:
                yield
        except TimeoutError:
            if self._cap is None or not limit.expired():
                raise
            log.info("an answer reached %s", self._cap.key)
            raise ModelError(
                ModelErrorKind.TIMEOUT, f"The model took longer than {self._cap.most:g} s to answer."
            ) from None
        finally:
            if self._left is not None:
                self._left = max(0.0, self._left - (loop.time() - began))


def _alike(one: ToolCall, other: ToolCall) -> bool:
    if one.input == other.input:
        return True
    some, others = _letters(one), _letters(other)
    if max(len(some), len(others)) <= _SHORT:
        return SequenceMatcher(None, some, others, autojunk=False).ratio() >= ALIKE
    return _share(some, others) >= ALIKE


def _share(some: str, others: str) -> float:
    """Return the share of pieces that two texts have in common, 0 to 1."""
    one, other = (Counter(text[at : at + _PIECE] for at in range(len(text) - _PIECE + 1)) for text in (some, others))
    return 2 * (one & other).total() / max(1, one.total() + other.total())


def _letters(call: ToolCall) -> str:
    """Return a call without what changes nothing: quotes, spaces, case."""
    text = "".join(f"{name}={value}" for name, value in sorted(call.input.items()))[: 2 * _COMPARED]
    return "".join(sign for sign in text.casefold() if sign.isalnum() or sign in "/.-|&;<>=")[:_COMPARED]
