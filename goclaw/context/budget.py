"""The token budget of a model's next request: what holds how much of the window, and what would help.

Estimates, as everywhere before a provider has counted. Nothing here changes a context.
"""

from collections.abc import Iterator, Sequence

from goclaw.records import record

LARGE_SHARE = 0.25
"""Of the window; a part of the prompt that takes more is worth making smaller."""


@record
class ContextBudget:
    """How the next request divides a model's window. All numbers are tokens."""

    spec: str
    """The model, `provider:name`."""
    window: int
    prompt: int
    tools: int
    reserve: int
    """Kept free for the answer (`compaction.reserve`): a conversation that reaches into it is compacted."""
    notes: int = 0
    """Mementos and reminders, said behind the conversation."""
    conversation: int = 0
    """The messages and the summary of what was before them."""
    messages: int = 0
    """How many messages that are."""

    @property
    def overhead(self) -> int:
        """What is taken before anything is said."""
        return self.prompt + self.tools + self.notes

    @property
    def used(self) -> int:
        """The next request."""
        return self.overhead + self.conversation

    @property
    def fits(self) -> bool:
        """Whether a conversation has any room at all."""
        return self.overhead + self.reserve < self.window

    def text(self) -> str:
        """The answer of `/context`."""
        lines = [
            f"Context of {self.spec}",
            f"  Next request: {self.used:,} / {self.window:,} tokens ({percent(self.used, self.window)})",
            *(f"  {name}: {tokens:,} ({percent(tokens, self.window)}){more}" for name, tokens, more in self._parts()),
        ]
        return "\n".join([*lines, "", *self.advice()])

    def _parts(self) -> Iterator[tuple[str, int, str]]:
        yield "Prompt", self.prompt, ""
        yield "Tools", self.tools, ""
        yield "Notes", self.notes, ""
        yield "Conversation", self.conversation, f", {self.messages:,} message{'s' if self.messages != 1 else ''}"
        yield "Reserve", self.reserve, ", kept free for the answer"
        yield "Free", max(0, self.window - self.used - self.reserve), ""

    def advice(self) -> Sequence[str]:
        """What would help, a sentence each, the most useful first; never empty."""
        return [*self._larger_window(), *self._smaller_parts()] or ["There is room; nothing needs to be done."]

    def _larger_window(self) -> Iterator[str]:
        if self.fits:
            return
        yield f"Nothing can be said in this window: prompt and tools take {percent(self.overhead, self.window)} of it."
        if self.spec.startswith("ollama:"):
            yield (
                "Give the model a larger window (`providers.ollama.max_context`, or `context_window` in "
                f"`models.options` for {self.spec}), or choose a model that has one: `goclaw model`."
            )
        else:
            yield (
                "Choose a model with a larger window (`goclaw model`), or set `context_window` in `models.options` "
                f"if {self.spec} has more than is known."
            )

    def _smaller_parts(self) -> Iterator[str]:
        large = LARGE_SHARE * self.window
        if self.tools > large:
            yield "Offer fewer tools: `agents.main.tools`, `tools.disabled`, fewer MCP servers."
        if self.prompt > large:
            yield "Shorten the workspace's files: AGENTS.md, MEMORY.md and the others are in every request."
        if self.notes > large:
            yield "Forget mementos that are not needed any more."
        if self.conversation > large and self.used + self.reserve > self.window // 2:
            yield "/compact sums the conversation up, /cleartool leaves old results out, /clear begins anew."


def percent(tokens: int, window: int) -> str:
    """A share of the window.

    >>> percent(125_000, 200_000), percent(1, 0)
    ('62.5%', '?')
    """
    return f"{100 * tokens / window:.1f}%" if window else "?"
