"""Sanitizing of a model's answer for the journal and the store.

Models and their servers send half characters, numbers beyond 64 bits and arguments nested a thousand levels deep. None
of that may cost the user the answer.
"""

from collections.abc import Iterable
from dataclasses import replace

import orjson

from goclaw.llm.base import INVALID_JSON
from goclaw.messages import AssistantMessage, ToolCall

MAX_NAME = 1_000
"""Maximum characters of a call's name and id."""
_LEVELS_AROUND = 10
"""Levels by which arguments lie deeper in a journaled step than here."""


def sound_text(text: str) -> str:
    """Return the text with `?` for every lone half of a surrogate pair."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def sound(answer: AssistantMessage) -> AssistantMessage:
    """Return a storable answer. Arguments that cannot be stored are marked, so that the model can correct them."""
    native = answer.native if answer.native and _fits(answer.native.content) else None
    return AssistantMessage(sound_text(answer.text), _apart(map(_sound_call, answer.calls)), native)


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
