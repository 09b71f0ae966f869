"""The port through which a tool has a model answer a prompt outside the conversation.

The model gets no tools, and nothing but what the tool gives it. Which models answer, and what may be spent, is known
above (`sessions.sampling`).
"""

from collections.abc import Sequence
from typing import Literal

from goclaw.messages import AssistantMessage, UserMessage
from goclaw.records import record


@record
class Sample:
    """A request to a model, outside the conversation."""

    asker: str
    """The requester, for people and the log: `the MCP server tickets`."""
    system: str
    messages: Sequence[UserMessage | AssistantMessage]
    """By turns; the first and the last are the user's."""
    most_tokens: int
    """That the answer may have."""
    models: tuple[str, ...] = ()
    """Which models answer, and no other, the first that can; empty: those that answer in the conversation."""


@record
class Sampled:
    """The model's answer to a `Sample`."""

    text: str
    model: str
    """`provider:name`"""
    tokens: int
    """Of prompt and answer, as the provider counted them."""
    stop: Literal["end", "length"] = "end"
