"""Makes what a model answered fit for the journal and the store, whatever it wrote.

Models and their servers send half characters, numbers beyond 64 bits and arguments nested a thousand levels deep. None
of that may cost the user the answer.
"""

from collections.abc import Iterable
from dataclasses import replace

import orjson

from goclaw.llm.base import INVALID_JSON
from goclaw.messages import AssistantMessage, ToolCall

MAX_NAME = 1_000
"""Characters of a call's name and id."""
_LEVELS_AROUND = 10
"""How much deeper than here arguments lie in a journaled step."""


def sound_text(text: str) -> str:
    """The text with `?` for every lone half of a surrogate pair."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def sound(answer: AssistantMessage) -> AssistantMessage:
    """The answer as it can be kept. Arguments that cannot are marked, so that the model is told."""
    native = answer.native if answer.native and _fits(answer.native.content) else None
    return AssistantMessage(sound_text(answer.text), _apart(map(_sound_call, answer.calls)), native)


def _apart(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls with an id of its own each: an approval and a result belong to one call and no other."""
    known: dict[str, ToolCall] = {}
    for call in calls:
        name = call.id
        while name in known:
            name = f"{name}-{len(known) + 1}"
        known[name] = replace(call, id=name)
    return tuple(known.values())


def _sound_call(call: ToolCall) -> ToolCall:
    given = call.input if _fits(call.input) else {INVALID_JSON: sound_text(ascii(call.input)[:MAX_NAME])}
    name, number = (sound_text(text[:MAX_NAME]) for text in (call.name, call.id))
    return replace(call, id=number, name=name, input=given)


def _fits(value: object) -> bool:
    for _ in range(_LEVELS_AROUND):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return False
    return True
