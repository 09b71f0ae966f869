"""The port through which a tool has a model answer a prompt outside the conversation.

The model gets no tools, and nothing but what the tool gives it. Which models answer, and what may be spent, is known
above (`sessions.sampling`).
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from goclaw.errors import ToolError
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


Sampler = Callable[[Sample], Awaitable[Sampled]]
"""Asks a model.

Raises:
    ToolError: it does not answer; the message says why, and nothing that only the person should know.
"""


async def no_sampling(wanted: Sample) -> Sampled:
    """Refuse a request: there is no turn to charge it to. Raises ToolError."""
    raise ToolError("the model cannot be asked here: there is no conversation on whose account that would be")
