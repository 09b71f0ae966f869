"""Repair of a sequence of messages so that every provider accepts it.

A crash, a /stop or a cut may leave a tool call without its result, or a result without its call; providers answer that
with an error on every later request, forever. Repairs touch what is sent, never what is stored.
"""

from collections import Counter
from collections.abc import Sequence

from goclaw.messages import AssistantMessage, Message, ToolResult, UserMessage

INTERRUPTED = '{"error": "interrupted: this call has no recorded result"}'
"""Stands in for the missing result of a call."""
NO_RESULT = "calls without a result"
NO_CALL = "results without a call"
EMPTY = "empty answers"
NO_QUESTION = "answers before any question"


def repaired(messages: Sequence[Message]) -> list[Message]:
    """Return the valid messages of `repair` alone."""
    return repair(messages)[0]


def repair(messages: Sequence[Message]) -> tuple[list[Message], Counter[str]]:
    """Return the messages with each call answered right after it, in the order of the calls, with nothing between.

    Results without a call and empty answers are dropped; a conversation begins with a user's message. What had to be
    done is counted beside it.
    """
    valid: list[Message] = []
    done: Counter[str] = Counter()
    placed = 0
    for index, message in enumerate(messages):
        match message:
            case UserMessage():
                valid.append(message)
            case AssistantMessage() if not valid:
                done[NO_QUESTION] += 1
            case AssistantMessage() if not (message.text or message.calls):
                done[EMPTY] += 1
            case AssistantMessage():
                valid.append(message)
                found = _results(message, messages, index + 1)
                done[NO_RESULT] += sum(result is None for result in found)
                placed += sum(result is not None for result in found)
                valid.extend(
                    result or ToolResult(call.id, call.name, INTERRUPTED, is_error=True)
                    for call, result in zip(message.calls, found, strict=True)
                )
            case _:
                pass  # a result is placed behind its call
    done[NO_CALL] = sum(isinstance(message, ToolResult) for message in messages) - placed
    return valid, +done


def in_words(repairs: Counter[str]) -> str:
    """Describe repairs for the log."""
    return ", ".join(f"{count} {what}" for what, count in sorted(repairs.items()))


def _results(answer: AssistantMessage, messages: Sequence[Message], start: int) -> list[ToolResult | None]:
    """Return one result per call, looked for up to the next answer: ids need not be unique beyond it."""
    found: dict[str, ToolResult] = {}
    for index in range(start, len(messages) if answer.calls else start):
        message = messages[index]
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolResult):
            found.setdefault(message.call_id, message)  # should a call have two results, the first is the real one
    return [found.get(call.id) for call in answer.calls]
