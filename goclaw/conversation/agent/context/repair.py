"""Repair of messages: a sequence that every provider accepts, and an answer that the journal and the store can keep.

A crash, a /stop or a cut may leave a tool call without its result, or a result without its call; providers answer that
with an error on every later request, forever. Repairs touch the messages sent, never those stored.

Models and their servers send half characters, numbers beyond 64 bits and arguments nested a thousand levels deep. None
of that may cost the user the answer: it is sanitized before it is kept.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson

from goclaw.common.core.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from goclaw.common.core.redact import storable
from goclaw.llm.base import INVALID_JSON
from goclaw.llm.tool_calls import read_name

INTERRUPTED = '{"error": "interrupted: this call has no recorded result"}'
"""Stands in for the missing result of a call."""
NO_RESULT = "calls without a result"
NO_CALL = "results without a call"
EMPTY = "empty answers"
NO_QUESTION = "answers before any question"
UNANSWERED = UserMessage("<context>GoClaw: this got no answer; it was stopped, or it failed.</context>")
"""Stands before a model for a notice that no answer is above. A constant object, so that it is encoded once."""
MAX_NAME = 1_000
"""Maximum characters of a call's name and id."""
_LEVELS_AROUND = 10
"""Levels by which arguments lie deeper in a journaled step than here."""


def valid_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the valid messages of `repair` alone."""
    return repair(messages)[0]


def repair(messages: Sequence[Message], *, begun: bool = False) -> tuple[list[Message], Counter[str]]:
    """Return the messages with each call answered right after it, in the order of the calls, with nothing between.

    Results without a call, empty answers and notices are dropped; a conversation begins with a user's message. The
    repairs are counted in addition. `begun`: other messages stand before these.
    """
    valid: list[Message] = []
    done: Counter[str] = Counter()
    placed = 0
    for index, message in enumerate(messages):
        match message:
            case UserMessage():
                valid.append(message)
            case AssistantMessage(notice=True, calls=()):
                if valid and not isinstance(valid[-1], AssistantMessage):
                    valid.append(UNANSWERED)
            case AssistantMessage() if not (valid or begun):
                done[NO_QUESTION] += 1
            case AssistantMessage() if not (message.text or message.calls):
                done[EMPTY] += 1
            case AssistantMessage():
                valid.append(replace(message, text="", notice=False) if message.notice else message)
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


def sound(answer: AssistantMessage) -> AssistantMessage:
    """Return a storable answer. Arguments that cannot be stored are marked, so that the model can correct them."""
    native = answer.native if answer.native and _fits(answer.native.content) else None
    return AssistantMessage(storable(answer.text), _apart(map(_sound_call, answer.calls)), native)


def _apart(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Return the calls with an id of its own each: an approval and a result belong to one call and no other."""
    known: dict[str, ToolCall] = {}
    for call in calls:
        name = call.id
        while name in known:
            name = f"{name}-{len(known) + 1}"
        known[name] = replace(call, id=name)
    return tuple(known.values())


def _sound_call(call: ToolCall) -> ToolCall:
    given = call.input if _fits(call.input) else {INVALID_JSON: storable(ascii(call.input)[:MAX_NAME])}
    name, number = (storable(text[:MAX_NAME]) for text in (read_name(call.name), read_name(call.id)))
    return replace(call, id=number, name=name, input=given)


def _fits(value: object) -> bool:
    for _ in range(_LEVELS_AROUND):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
