"""A server's JSON Schema as models get it: a plain object, without parts that providers refuse or that hide.

Arguments are checked against the server's own schema; this one is only read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from goclaw.mcp.words import hides, quoted

MAX_SCHEMA = 20_000
"""Bytes of JSON: every request carries it."""
DEEPEST = 12
MAX_NOTE = 500
"""Characters of a field's description."""
_PLAIN = (
    *("type", "enum", "const", "default", "required", "format", "uniqueItems", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems"),
)
_IN_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_IN_ONE = ("items", "additionalProperties")
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_MAX_NAME = 64
"""A field's name, as the strictest provider takes it (Anthropic, "Tool use")."""


class UnusableTool(ValueError):
    """A tool cannot be offered; the message says why."""


def shaped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema for models.

    Raises:
        Refused: it is not that of an object, exceeds its bound, or hides something.
    """
    try:
        size = len(orjson.dumps(schema))
    except (orjson.JSONEncodeError, RecursionError):
        raise UnusableTool("its schema is no JSON") from None
    if size > MAX_SCHEMA:
        raise UnusableTool(f"its schema has {size:,} bytes, at most {MAX_SCHEMA:,} are taken")
    if schema.get("type", "object") != "object":
        raise UnusableTool("its schema is not that of an object")
    definitions = {**_mapping(schema.get("definitions")), **_mapping(schema.get("$defs"))}
    found = _node(schema, definitions, DEEPEST)
    for name in _IN_LISTS:
        found.pop(name, None)  # providers refuse them at the top
    found |= {"type": "object", "properties": found.get("properties", {})}
    required = found.get("required")
    # Anything but a list of names is reported when the schema is compiled, for this tool alone.
    found["required"] = [name for name in found["properties"] if isinstance(required, list) and name in required]
    used = {name: _node(definitions[name], definitions, DEEPEST) for name in sorted(_used(found, definitions))}
    return {**found, "$defs": used} if used else found


def _node(node: Any, definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {}  # `true`, or what is no schema
    if depth == 0:
        raise UnusableTool(f"its schema is deeper than {DEEPEST} levels")
    if isinstance(reference := node.get("$ref"), str):
        name = reference.rpartition("/")[2]
        known = reference in (f"#/$defs/{name}", f"#/definitions/{name}") and name in definitions
        return {"$ref": f"#/$defs/{_checked_name(name)}"} if known else {}
    return {**_words(node), **_inner(node, definitions, depth - 1)}


def _words(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's own keywords."""
    found = {name: node[name] for name in _PLAIN if name in node}
    if any(hides(text) for text in _texts(found)):
        raise UnusableTool("its schema holds characters that nobody would see")
    if isinstance(note := node.get("description"), str):
        found["description"] = quoted(note, MAX_NOTE)
    return found


def _inner(node: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return the nodes within a node."""
    found: dict[str, Any] = {}
    for name in _IN_LISTS:
        if isinstance(nodes := node.get(name), list) and nodes:
            found[name] = [_node(each, definitions, depth) for each in nodes]
    for name in _IN_ONE:
        if name in node:
            inner = node[name]
            found[name] = inner if isinstance(inner, bool) else _node(inner, definitions, depth)
    if properties := _mapping(node.get("properties")):
        found["properties"] = {
            _checked_name(name): _node(each, definitions, depth) for name, each in properties.items()
        }
    return found


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= _MAX_NAME or not _NAME_CHARACTERS.issuperset(name):
        raise UnusableTool(
            f"the name of one of its fields ({quoted(name, 40)!r}) is none that every model provider takes"
        )
    return name


def _used(node: Any, definitions: Mapping[str, Any]) -> set[str]:
    """Return the definitions that are referred to, also indirectly."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        for name in _references(waiting.pop()):
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(reference := node.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for inner in node.values():
            yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for name, inner in value.items():
                yield from (str(name), *_texts(inner))
        case list():
            for inner in value:
                yield from _texts(inner)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
