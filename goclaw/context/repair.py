"""Makes any sequence of messages one that every provider accepts.

A crash, a /stop or a cut may leave a tool call without its result, or a result without its call; providers answer that
with an error on every later request, for ever. Repairs touch what is sent, never what is stored.
"""

from collections.abc import Sequence
from itertools import takewhile

from goclaw.messages import AssistantMessage, Message, ToolResult, UserMessage

INTERRUPTED = '{"error": "interrupted: this call has no recorded result"}'
"""Stands in for the result of a call that never got one."""


def repaired(messages: Sequence[Message]) -> list[Message]:
    """The messages with every call answered, right after it, in the order of the calls, and nothing else between.

    Results without a call and empty answers are dropped; a conversation begins with a user's message.
    """
    valid: list[Message] = []
    for index, message in enumerate(messages):
        match message:
            case UserMessage():
                valid.append(message)
            case AssistantMessage() if valid and (message.text or message.calls):
                valid.append(message)
                valid.extend(_results(message, messages, index + 1))
            case _:
                pass
    return valid


def _results(answer: AssistantMessage, messages: Sequence[Message], start: int) -> list[ToolResult]:
    """One result per call, looked for up to the next answer: ids need not be unique beyond it."""
    if not answer.calls:
        return []
    until_next = takewhile(lambda message: not isinstance(message, AssistantMessage), messages[start:])
    # Reversed: should a call have two, the first is what really came of it.
    found = {message.call_id: message for message in reversed(list(until_next)) if isinstance(message, ToolResult)}
    return [found.get(call.id) or ToolResult(call.id, call.name, INTERRUPTED, is_error=True) for call in answer.calls]
