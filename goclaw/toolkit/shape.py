"""A reader of JSON Schemas: the fields at a path, and their types."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

Path = tuple[str | int, ...]
_DEEPEST = 8
"""References followed in a row: a foreign schema may refer to itself."""


class Shape:
    """The schema of a tool's arguments, without what is `hidden` from the model."""

    def __init__(self, schema: Mapping[str, Any], hidden: Collection[str] = ()) -> None:
        self._schema = schema
        self._hidden = hidden

    def names_in(self, path: Path) -> list[str]:
        """Return the fields of the object at `path`, of all its alternatives."""
        names = dict.fromkeys(name for node in self._at(path) for name in node.get("properties", {}))
        return [name for name in names if path or name not in self._hidden]

    def type_at(self, path: Path) -> str:
        """Return the expected type at a path, in words."""
        return " or ".join(dict.fromkeys(word for node in self._at(path) for word in _words(node))) or "a value"

    def _at(self, path: Path) -> list[Mapping[str, Any]]:
        nodes: Iterable[Mapping[str, Any]] = [self._schema]
        for part in path:
            nodes = [child for node in self._opened(nodes) for child in _children(node, part)]
        return list(self._opened(nodes))

    def _opened(self, nodes: Iterable[Mapping[str, Any]], depth: int = _DEEPEST) -> Iterator[Mapping[str, Any]]:
        """Yield the nodes with references and alternatives resolved."""
        for node in nodes if depth else ():
            if "$ref" in node:
                yield from self._opened([self._schema["$defs"][node["$ref"].rpartition("/")[2]]], depth - 1)
            elif alternatives := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
                yield from self._opened(alternatives, depth - 1)
            else:
                yield node


def _children(node: Mapping[str, Any], part: str | int) -> Iterator[Mapping[str, Any]]:
    if isinstance(part, str):
        children = [node.get("properties", {}).get(part) or node.get("additionalProperties")]
    else:
        children = [*node.get("prefixItems", [])[part : part + 1], node.get("items")]
    yield from (child for child in children if isinstance(child, Mapping))


def _words(node: Mapping[str, Any]) -> list[str]:
    if "enum" in node:
        return [repr(choice) for choice in node["enum"]]
    if "const" in node:
        return [repr(node["const"])]
    return [str(node["type"])] if "type" in node else []


def without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without unused definitions."""
    definitions = schema.pop("$defs", {})
    used: dict[str, Any] = {}
    waiting = sorted(_referred(schema))
    while waiting:
        name = waiting.pop(0)
        if name not in used:
            used[name] = definitions[name]
            waiting += sorted(_referred(used[name]))
    return {**schema, "$defs": {name: used[name] for name in definitions if name in used}} if used else schema


def _referred(node: Any) -> set[str]:
    match node:
        case {"$ref": str(reference)}:
            return {reference.rpartition("/")[2]}
        case dict():
            return set().union(*map(_referred, node.values()))
        case list():
            return set().union(*map(_referred, node))
    return set()
