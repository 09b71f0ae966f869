"""The room for a conversation in a model's window.

In a small window prompt and tools take a large part: there the marks at which something is made in the background, and
what a compaction leaves, are shares of the room, not of the whole. And there the model that summarises is usually the
one that answers, on a machine that does one thing at a time: it gets no other request while a person waits.
"""

from goclaw.config.schema import CompactionSettings

SMALL_WINDOW = 16_384
"""Tokens up to which a window is small; larger ones hold what a summary is worth waiting for."""
RESERVE_SHARE = 4
"""The reserve is never more than a quarter of the window: a small local model must have room to work in."""
KEPT_SHARE = 2
"""A compaction leaves half of the room filled: what is cached is lost each time, so that it must be worth it."""
SUMMARY_SHARE = 4
"""A summary takes no more than a quarter of the room, half of what a compaction leaves."""


def is_small(context_window: int) -> bool:
    """Whether room is made without asking a model."""
    return 0 < context_window <= SMALL_WINDOW


def reserve(context_window: int, settings: CompactionSettings) -> int:
    """Return the tokens that must stay free."""
    return min(settings.reserve_tokens, context_window // RESERVE_SHARE)


def room(context_window: int, overhead: int, settings: CompactionSettings) -> int:
    """Return the tokens that a conversation may have beside `overhead` tokens of prompt and tools."""
    return max(0, context_window - reserve(context_window, settings) - overhead)


def filled(tokens: int, context_window: int, overhead: int, settings: CompactionSettings) -> float:
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
