"""The token budget of a model's next request: the room for a conversation, what uses the window, what would help.

All numbers are estimates until a provider has counted. Nothing here changes a context.

In a small window prompt and tools take a large part: there the marks at which something is made in the background, and
the rest left by a compaction, are shares of the room, not of the whole. And there the model that summarises is usually
the one that answers, on a machine that does one thing at a time: it gets no other request while a person waits.
"""

from collections.abc import Iterator, Sequence

from goclaw.common.config.schema import CompactionSettings
from goclaw.common.core.records import record
from goclaw.llm.base import is_small

RESERVE_SHARE = 4
"""The reserve is never more than a quarter of the window: a small local model must have room to work in."""
KEPT_SHARE = 2
"""A compaction leaves half of the room filled: each one loses the cache, so it must be worth it."""
SUMMARY_SHARE = 4
"""A summary takes no more than a quarter of the room, half of what a compaction leaves."""

LARGE_SHARE = 0.25
"""Share of the window; a part of the prompt that takes more is worth making smaller."""
LARGE_SHARE_OF_FULL = 0.125
"""The same share where no conversation fits."""
LEAST_ROOM = 512
"""Tokens for a question, a call with its result and an answer: with less, each turn pushes out the one before it."""


def reserve(context_window: int, settings: CompactionSettings) -> int:
    """Return the tokens that must stay free."""
    return min(settings.reserve_tokens, context_window // RESERVE_SHARE)


def is_full(tokens: int, context_window: int, settings: CompactionSettings) -> bool:
    """Whether so many tokens leave less free than the reserve."""
    return tokens >= context_window - reserve(context_window, settings)


def is_due(messages: int, tokens: int, context_window: int, settings: CompactionSettings) -> bool:
    """Whether a window with so many messages must be compacted before the next request."""
    return 0 < settings.max_messages < messages or is_full(tokens, context_window, settings)


def room(context_window: int, overhead: int, settings: CompactionSettings) -> int:
    """Return the tokens that a conversation may have in addition to `overhead` tokens of prompt and tools."""
    return max(0, context_window - reserve(context_window, settings) - overhead)


def percent_full(tokens: int, context_window: int, overhead: int, settings: CompactionSettings) -> float:
    """Per cent of a context that are filled: of the conversation's room in a small window, else of the window.

    Args:
        tokens: the next request.
        context_window: of the model.
        overhead: tokens of prompt and tools, which `tokens` has in it.
        settings: of compaction.
    """
    if not is_small(context_window):
        return 100 * tokens / context_window if context_window else 0
    return 100 * max(0, tokens - overhead) / max(1, room(context_window, overhead, settings))


@record
class Share:
    """What a part of a request takes: its tokens, and the number of its messages, pages or lines."""

    tokens: int = 0
    count: int = 0


@record
class ContextBudget:
    """The division of a model's window by the next request. All numbers are tokens."""

    spec: str
    """The model, `provider:name`."""
    window: int
    prompt: int
    """Of the system prompt all but the index."""
    tools: int
    """The tools that stand in the request with what they take: its core, or all."""
    reserve: int
    """Kept free for the answer (`compaction.reserve`): a conversation that reaches into it is compacted."""
    notes: int = 0
    """Mementos and reminders, after the conversation."""
    conversation: Share = Share()
    """The messages and the summary of earlier ones."""
    documents: Share = Share()
    """The pages of documents in the messages that the model gets as files."""
    index: Share = Share()
    """The lines of the prompt that name tools without their schemas."""
    profile: str = ""
    """The resolved size of the tools' descriptions (`tools.profile`); empty: unknown."""

    @property
    def overhead(self) -> int:
        """The tokens taken before any message."""
        return self.prompt + self.tools + self.index.tokens + self.notes

    @property
    def used(self) -> int:
        """The next request."""
        return self.overhead + self.conversation.tokens + self.documents.tokens

    @property
    def fits(self) -> bool:
        """Whether a conversation has room."""
        return self.overhead + self.reserve + LEAST_ROOM <= self.window

    @property
    def is_tight(self) -> bool:
        """Whether the next request reaches into the room kept free for the answer."""
        return not self.fits or self.used + self.reserve > self.window

    def text(self) -> str:
        """Return the answer of `/context`."""
        lines = [
            f"Context of {self.spec}",
            f"  Next request: {self.used:,} / {self.window:,} tokens ({percent(self.used, self.window)})",
            *(f"  {name}: {tokens:,} ({percent(tokens, self.window)}){more}" for name, tokens, more in self._parts()),
        ]
        lead = [] if self.fits else [self.sentence()]
        return "\n".join([*lines, "", *lead, *self.advice()])

    def _parts(self) -> Iterator[tuple[str, int, str]]:
        yield "Prompt", self.prompt, ""
        yield "Tools", self.tools, ", whole" if self.profile == "all" else ", the core" if self.profile else ""
        if self.index.tokens:
            yield "Index", self.index.tokens, f", one line for each of {self.index.count:,} more tools"
        yield "Notes", self.notes, ""
        messages, pages = self.conversation.count, self.documents.count
        yield "Conversation", self.conversation.tokens, f", {messages:,} message{'s' if messages != 1 else ''}"
        if pages:
            yield "Documents", self.documents.tokens, f", {pages:,} page{'s' if pages != 1 else ''} as PDF"
        yield "Reserve", self.reserve, ", reserved for the answer"
        yield "Free", max(0, self.window - self.used - self.reserve), ""

    def sentence(self) -> str:
        """Describe the use of the window in one sentence."""
        # The conversation only where the window is large enough for one.
        named = ("Prompt", "Tools", "Index", "Notes", "Reserve", *(["Conversation", "Documents"] if self.fits else []))
        held = [f"{name.lower()} {tokens:,}" for name, tokens, _ in self._parts() if tokens and name in named]
        taken = " and ".join(filter(None, (", ".join(held[:-1]), held[-1]))) if held else "nothing"
        if self.fits:
            return f"The window of {self.window:,} tokens holds: {taken}."
        left = self.window - self.overhead - self.reserve
        rest = f"leave {left:,} for the conversation" if left > 0 else f"need {self.window - left:,}"
        return f"The window of {self.window:,} tokens is too small for a conversation: {taken} {rest}."

    def explain(self) -> str:
        """Describe the use of the window, and what would help, a line each."""
        return "\n".join([self.sentence(), "What helps:", *(f"- {line}" for line in self.advice())])

    def line(self) -> str:
        """Return the same in one line, for a log."""
        return " ".join([self.sentence(), "What helps:", *self.advice()])

    def advice(self) -> Sequence[str]:
        """Return advice, a sentence each, the most useful first; never empty."""
        return [*self._larger_window(), *self._smaller_parts()] or ["There is enough room; you need not do anything."]

    def _larger_window(self) -> Iterator[str]:
        if self.fits:
            return
        if self.spec.startswith("ollama:"):
            yield (
                "Give the model a larger window (`providers.ollama.max_context`, or `context_window` in "
                f"`models.options` for {self.spec}), or choose a model with a larger one: `goclaw model`."
            )
        else:
            yield (
                "Choose a model with a larger window (`goclaw model`), or set `context_window` in `models.options` if "
                f"{self.spec} has a larger window than GoClaw knows."
            )

    def _smaller_parts(self) -> Iterator[str]:
        large = (LARGE_SHARE if self.fits else LARGE_SHARE_OF_FULL) * self.window
        if self.profile in ("index", "all") and (self.tools + self.index.tokens > large or not self.fits):
            yield "Show the model fewer tools: `tools.profile: core`."
        if self.tools > large:
            yield "Offer fewer tools: `agents.main.tools`, `tools.disabled`, fewer MCP servers."
        if self.prompt > large:
            yield "Shorten AGENTS.md, MEMORY.md and the like in the workspace: they are part of every request."
        if self.notes > large:
            yield "Delete mementos that you no longer need."
        if self.conversation.tokens + self.documents.tokens > large and self.used + self.reserve > self.window // 2:
            yield "/compact summarises the conversation, /cleartool removes old results, /clear starts over."


def percent(tokens: int, window: int) -> str:
    """Return a share of the window.

    >>> percent(125_000, 200_000), percent(1, 0)
    ('62.5%', '?')
    """
    return f"{100 * tokens / window:.1f}%" if window else "?"
