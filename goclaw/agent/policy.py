"""The limits of one turn. Each ends it with a sentence that names the limit and the key that sets it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from difflib import SequenceMatcher

from goclaw.config.policies import LimitSettings
from goclaw.errors import LimitReached
from goclaw.messages import ToolCall, ToolResult
from goclaw.toolkit.consent import DENIED_MARK

MOST_DENIALS = 3
"""After so many denials in a turn a model that tries on does not understand what it is told."""
ALIKE = 0.8
"""How much two calls have in common that are the same one in other words (`difflib`)."""
_COMPARED = 2_000
"""Characters of a call that are compared."""


class RunPolicy:
    """Counts what a turn does. One object per turn."""

    def __init__(self, limits: LimitSettings) -> None:
        self._limits = limits
        self._calls = 0
        self._failures = 0
        self._repetitions = 0
        self._last: tuple[str, object] | None = None
        self._budget: asyncio.Timeout | None = None
        self._left: float | None = None
        """Seconds that were left when the clock was stopped."""
        self._pauses = 0
        self._asked_for: Sequence[ToolCall] = ()
        """The calls of the last answer."""
        self._denied: list[ToolCall] = []

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the turn's clock while the block waits for a person; blocks may overlap."""
        loop = asyncio.get_running_loop()
        self._pauses += 1
        if self._budget and self._pauses == 1 and (deadline := self._budget.when()) is not None:
            self._left = deadline - loop.time()
            self._budget.reschedule(None)
        try:
            yield
        finally:
            self._pauses -= 1
            if self._budget and self._pauses == 0 and self._left is not None and not self._budget.expired():
                self._budget.reschedule(loop.time() + self._left)

    @asynccontextmanager
    async def time_budget(self) -> AsyncIterator[None]:
        """Ends the block with LimitReached when the turn has taken too long, waiting for people not counted."""
        budget = self._budget = asyncio.timeout(self._limits.turn_seconds)
        try:
            async with budget:
                yield
        except TimeoutError:
            if not budget.expired():
                raise
            seconds = f"{self._limits.turn_seconds:g}"
            raise LimitReached(f"I stopped: this took longer than {seconds} s (limits.turn_seconds).") from None

    def before(self, calls: Sequence[ToolCall]) -> None:
        """Check what the model asks for before any of it runs.

        Raises:
            LimitReached: too many calls, or the same one over and over.
        """
        self._asked_for = calls
        for call in calls:
            self._calls += 1
            same = self._last == (call.name, call.input)
            self._repetitions = self._repetitions + 1 if same else 1
            self._last = (call.name, call.input)
            if self._calls > self._limits.tool_calls:
                raise LimitReached(
                    f"I stopped after {self._limits.tool_calls} tool calls in one turn (limits.tool_calls)."
                )
            if self._repetitions > self._limits.repeated_calls:
                raise LimitReached(
                    f"I stopped: I asked for the same {call.name} call more than {self._limits.repeated_calls} times "
                    "in a row (limits.repeated_calls)."
                )

    def was_denied(self, call: ToolCall) -> bool:
        """Whether the call, or one that differs in few letters only, was denied in this turn."""
        return any(call.name == denied.name and _alike(call, denied) for denied in self._denied)

    def after(self, results: Sequence[ToolResult]) -> None:
        """Count failures and denials, also those of a turn that is taken up again.

        Raises:
            LimitReached: too many calls failed one after the other, or people said no too often.
        """
        for call, result in zip(self._asked_for, results, strict=False):
            if result.content.startswith(DENIED_MARK):
                self._denied.append(call)
        if len(self._denied) >= MOST_DENIALS:
            raise LimitReached(
                f"I stopped: {len(self._denied)} tool calls in this turn were denied. Tell me how to go on instead."
            )
        for result in results:
            self._failures = self._failures + 1 if result.is_error else 0
        if self._failures >= self._limits.failed_calls:
            raise LimitReached(
                f"I stopped after {self._failures} tool calls in a row that failed (limits.failed_calls)."
            )


def _alike(one: ToolCall, other: ToolCall) -> bool:
    if one.input == other.input:
        return True
    return SequenceMatcher(None, _letters(one), _letters(other), autojunk=False).ratio() >= ALIKE


def _letters(call: ToolCall) -> str:
    """A call without what changes nothing: quotes, spaces, case."""
    text = "".join(f"{name}={value}" for name, value in sorted(call.input.items()))[: 2 * _COMPARED]
    return "".join(sign for sign in text.casefold() if sign.isalnum() or sign in "/.-|&;<>=")[:_COMPARED]
