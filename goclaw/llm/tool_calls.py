"""Tools between us and a model: the short form of a tool's JSON Schema, and the calls that a model wrote.

Parts of a schema that cost tokens and carry no information are left out: titles, a default of null, null where leaving
the argument out means the same, that no other arguments are taken, and limits of length that no call meets by accident.
Calls are checked against the spec's own schema. Arguments are usually a JSON object, sometimes almost one; a name or an
id is usually a text.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

import orjson

from goclaw.llm.base import INVALID_JSON
from goclaw.llm.lenient_json import Unreadable, load_json, parse

log = logging.getLogger(__name__)

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value holds schemas by name."""
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NESTED = frozenset({"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"})
_NULL = {"type": "null"}
LONG_TEXT, LONG_LIST = 200, 50
"""Upper limits from here on are left out: characters of a text, items of a list."""


def trimmed_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a shorter schema that means the same to a model."""
    return dict(_select(schema))


def _trim(node: Any) -> Any:
    """Trim a schema within another one; a value that is no object (`true`) stays."""
    return dict(_select(node)) if isinstance(node, Mapping) else node


def _select(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    required = schema.get("required", [])  # of others' schemas it may be a boolean, as in draft 3
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            optional = {name for name in value if isinstance(required, list) and name not in required}
            yield key, {name: _trim(_without_null(each) if name in optional else each) for name, each in value.items()}
        elif key in _NAMED and isinstance(value, Mapping):
            yield key, {name: _trim(each) for name, each in value.items()}
        elif key in _LISTED and isinstance(value, list):
            yield key, [_trim(each) for each in value]
        elif key in _NESTED and isinstance(value, Mapping):
            yield key, _trim(value)
        elif not _says_nothing(key, value):
            yield key, value


def _says_nothing(key: str, value: Any) -> bool:
    match key, value:
        case ("title", str()) | ("additionalProperties", bool()) | ("default", None):
            return True
        case ("minLength", int()):
            return bool(value <= 1)
        case ("maxLength", int()):
            return bool(value >= LONG_TEXT)
        case ("maxItems", int()):
            return bool(value >= LONG_LIST)
    return False


def _without_null(schema: Any) -> Any:
    """Return the schema of an argument that may be left out, without the null that means just that."""
    if not isinstance(schema, Mapping) or schema.get("default", _NULL) is not None:
        return schema
    kinds, types = schema.get("anyOf"), schema.get("type")
    if isinstance(kinds, list) and _NULL in kinds and len(kinds) > 1:
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        others = [kind for kind in kinds if kind != _NULL]
        alone = len(others) == 1 and isinstance(others[0], Mapping)
        return {**others[0], **rest} if alone else {**rest, "anyOf": others}
    if isinstance(types, list) and "null" in types and len(types) > 1 and "enum" not in schema:
        remaining = [kind for kind in types if kind != "null"]
        return {**schema, "type": remaining[0] if len(remaining) == 1 else remaining}
    return schema


def read_name(given: object) -> str:
    """Return the name of a call: a number in digits, no name for any other value; the dispatcher tells the model."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return given if isinstance(given, str) else str(given) if is_number else ""


def read_id(given: object) -> str:
    """Return the id of a call, or a new id if the value is unusable: steps of a turn are named after it."""
    return read_name(given) or f"call_{uuid4().hex}"


def arguments_of(given: object) -> dict[str, Any]:
    """Return the arguments of a call that came as JSON or were parsed already, as `read_arguments` does."""
    if given is None or isinstance(given, dict):
        return given or {}
    return read_arguments(given if isinstance(given, str) else orjson.dumps(given).decode())


def read_arguments(written: str, given: object = None) -> dict[str, Any]:
    """Parse the JSON object of a call's arguments; an empty text counts as `given`, else as `{}`.

    Almost JSON is read where it has one meaning (`lenient_json`). Any other JSON or text is returned as
    `{INVALID_JSON: text}`: the dispatcher then reports it to the model.
    """
    if not written.strip():
        return dict(given) if isinstance(given, dict) else {}
    if isinstance(value := load_json(written), dict):
        return value
    try:
        value = parse(written)
    except Unreadable:
        return {INVALID_JSON: written}
    if not isinstance(value, dict):
        return {INVALID_JSON: written}
    log.info("the arguments of a call were almost JSON, and are read")
    return value


@dataclass(slots=True)
class PartialCall:
    """A tool call while it is written."""

    name: str = ""
    given_id: str = ""
    own_id: str = field(default_factory=partial(read_id, None))
    """An id for servers without ids; unique, because steps of a turn are named after it."""
    written: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.given_id or self.own_id

    def is_followed_by(self, name: str, written: str) -> bool:
        """Return whether a piece with a name begins another call: this one is whole, and the piece is not the same."""
        whole = "".join(self.written)
        if not (name and self.written and isinstance(load_json(whole), dict)):
            return False
        if not written:
            return name != self.name
        return written.lstrip().startswith("{") and (name != self.name or not _same_json(written, whole))

    def add(self, name: str, written: str) -> None:
        """Add a piece. A name may come whole with every piece, in pieces, or longer each time."""
        if not self.written and name != self.name:
            self.name = name if name.startswith(self.name) else self.name + name
        if written:
            self.written.append(written)

    @property
    def arguments(self) -> str:
        """The arguments as JSON. Some servers send them once more as a whole, or all so far with every piece."""
        whole = "".join(self.written)
        if len(self.written) > 1 and not isinstance(load_json(whole), dict):
            last, before = self.written[-1], self.written[:-1]
            grows = all(later.startswith(earlier) for earlier, later in pairwise(self.written))
            if isinstance(load_json(last), dict) and (grows or _same_json(last, "".join(before))):
                return last
        return whole


def _same_json(some: str, other: str) -> bool:
    try:
        return bool(orjson.loads(some) == orjson.loads(other))
    except orjson.JSONDecodeError:
        return False
