"""The streamed output of the model: its thinking, then its answer. The stored row replaces both."""

from collections.abc import Awaitable, Callable, Sequence

from textual.widget import Widget

from goclaw.clock import Clock
from goclaw.tui.widgets.entries import AnswerEntry
from goclaw.tui.widgets.thought import Thought

Change = Callable[[Sequence[Widget]], Awaitable[None]]
"""Puts entries into the conversation, or takes them out."""


class Stream:
    """At most one answer and one thought, which stands above it."""

    def __init__(self, add: Change, remove: Change, clock: Clock) -> None:
        self._add = add
        self._remove = remove
        self._clock = clock
        self._answer: AnswerEntry | None = None
        self._thought: Thought | None = None

    @property
    def entries(self) -> list[Widget]:
        """Return the entries that are not rows yet."""
        return [entry for entry in (self._thought, self._answer) if entry is not None]

    async def think(self, text: str, age: float = 0.0, *, is_open: bool, is_timed: bool = True) -> None:
        """Add to the thinking, as received `age` seconds ago."""
        if self._thought is None:
            self._thought = Thought(self._clock, age, is_open=is_open, is_timed=is_timed)
            await self._add([self._thought])
        self._thought.think(text, age)

    async def write(self, text: str, age: float = 0.0) -> None:
        """Add to the answer."""
        self._end_thinking(age)
        if self._answer is None:
            self._answer = AnswerEntry()
            await self._add([self._answer])
        self._answer.feed(text)

    async def become(self, text: str, age: float = 0.0) -> AnswerEntry | None:
        """End the stream with the answer's row; return its entry, or None if nothing was streamed or all is blank."""
        self._end_thinking(age)
        answer, self._answer, self._thought = self._answer, None, None
        if answer is None:
            return None
        if not text.strip():
            await self._remove([answer])
            return None
        answer.finish(text)
        return answer

    async def drop(self) -> None:
        """Drop the streamed output, which is void."""
        entries = self.entries
        self._answer = self._thought = None
        await self._remove(entries)

    async def end(self) -> None:
        """End the turn: no row follows, and the thinking stays."""
        self._end_thinking()
        self._thought = None
        await self.drop()

    def tick(self) -> None:
        """Advance the timers by a second."""
        if self._thought is not None:
            self._thought.tick()

    def _end_thinking(self, age: float = 0.0) -> None:
        if self._thought is not None:
            self._thought.finish(age)
