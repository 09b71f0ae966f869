"""Comparison of a JSON Schema with a pinned one: by meaning where that is certain, literally elsewhere.

Ignored is what the vocabularies of JSON Schema 2020-12 (Core, and Validation) call insignificant: the order of keys and
of `type`, `enum` and `required`, keywords at their default, the notation of numbers, and texts for people that the pin
leaves out. Everything else counts, even if it might be equivalent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_OPEN = frozenset({"title", "description"})
"""Texts for people: if the pin has none, any will do."""
_DEFAULTS: Mapping[str, Any] = {"properties": {}, "required": [], "additionalProperties": {}}
"""The value of a keyword that is left out."""
_SCHEMAS = (
    frozenset({"additionalItems", "contains", "items", "prefixItems", "unevaluatedItems"})
    | frozenset({"additionalProperties", "contentSchema", "propertyNames", "unevaluatedProperties"})
    | frozenset({"allOf", "anyOf", "else", "if", "not", "oneOf", "then"})
)
"""Keywords that hold a schema, or a list of them."""
_NAMED = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
"""Keywords that hold schemas by freely chosen names."""
_UNORDERED = frozenset({"type", "enum", "required"})
_MARKS_NOTHING = "unevaluatedProperties"
"""With this keyword, which covers values that no other one has examined, `additionalProperties: {}` has a meaning."""
_ABSENT = object()


def first_difference(pinned: Any, given: Any) -> str | None:
    """Return where `given` differs from `pinned`, as a JSON pointer (RFC 6901); None: nowhere."""
    defaults = {**_DEFAULTS, "additionalProperties": _ABSENT} if _mentions(pinned, _MARKS_NOTHING) else _DEFAULTS
    return next(_Looking(defaults).at_schemas(pinned, given, ""), None)


class _Looking:
    """The differences, in order. The comparison goes no deeper than the pin does, whatever a server sends."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = defaults

    def at_schemas(self, pinned: Any, given: Any, place: str) -> Iterator[str]:
        pinned, given = ({} if each is True else each for each in (pinned, given))
        if not isinstance(pinned, Mapping) or not isinstance(given, Mapping):
            yield from _at_values(pinned, given, place)
            return
        for word in dict.fromkeys((*pinned, *given)):
            may_be_left_out = word in _OPEN or (word == "$schema" and not place)
            if may_be_left_out and word not in pinned and isinstance(given[word], str):
                continue
            default = self._defaults.get(word, _ABSENT)
            before, after = (each.get(word, default) for each in (pinned, given))
            yield from self._at_keyword(word, before, after, _within(place, word))

    def _at_keyword(self, word: str, pinned: Any, given: Any, place: str) -> Iterator[str]:
        if pinned is _ABSENT or given is _ABSENT:
            yield place
        elif word in _NAMED and isinstance(pinned, Mapping) and isinstance(given, Mapping):
            yield from self._by_name(pinned, given, place)
        elif word in _SCHEMAS and _are_lists(pinned, given):
            yield from self._by_number(pinned, given, place)
        elif word in _SCHEMAS:
            yield from self.at_schemas(pinned, given, place)
        elif word in _UNORDERED:
            yield from _out_of_order(pinned, given, place)
        else:
            yield from _at_values(pinned, given, place)

    def _by_name(self, pinned: Mapping[str, Any], given: Mapping[str, Any], place: str) -> Iterator[str]:
        for name in dict.fromkeys((*pinned, *given)):
            if name in pinned and name in given:
                yield from self.at_schemas(pinned[name], given[name], _within(place, name))
            else:
                yield _within(place, name)

    def _by_number(self, pinned: Sequence[Any], given: Sequence[Any], place: str) -> Iterator[str]:
        if len(pinned) != len(given):
            yield place
        for number, (one, other) in enumerate(zip(pinned, given, strict=False)):
            yield from self.at_schemas(one, other, _within(place, number))


def _out_of_order(pinned: Any, given: Any, place: str) -> Iterator[str]:
    """Yield the place, unless both hold the same in any order; `type: string` is a list of one."""
    pinned, given = ([each] if isinstance(each, str) else each for each in (pinned, given))
    if not (_have_the_same(pinned, given) if _are_lists(pinned, given) else _is_same(pinned, given)):
        yield place


def _at_values(pinned: Any, given: Any, place: str) -> Iterator[str]:
    """Yield differences of plain JSON."""
    if isinstance(pinned, Mapping) and isinstance(given, Mapping):
        for name in dict.fromkeys((*pinned, *given)):
            yield from _at_values(pinned.get(name, _ABSENT), given.get(name, _ABSENT), _within(place, name))
    elif _are_lists(pinned, given) and len(pinned) == len(given):
        for number, (one, other) in enumerate(zip(pinned, given, strict=True)):
            yield from _at_values(one, other, _within(place, number))
    elif isinstance(pinned, bool) != isinstance(given, bool) or pinned != given:  # to Python, True is 1
        yield place


def _is_same(pinned: Any, given: Any) -> bool:
    return next(_at_values(pinned, given, ""), None) is None


def _have_the_same(pinned: Sequence[Any], given: Sequence[Any]) -> bool:
    """Return whether two lists hold the same, in any order."""
    if len(pinned) != len(given):
        return False
    left = list(given)
    for each in pinned:
        found = next((number for number, other in enumerate(left) if _is_same(each, other)), None)
        if found is None:
            return False
        del left[found]
    return True


def _are_lists(*values: Any) -> bool:
    return all(isinstance(value, (list, tuple)) for value in values)


def _mentions(value: Any, key: str) -> bool:
    if isinstance(value, Mapping):
        return key in value or any(_mentions(each, key) for each in value.values())
    return _are_lists(value) and any(_mentions(each, key) for each in value)


def _within(place: str, name: object) -> str:
    return f"{place}/{str(name).replace('~', '~0').replace('/', '~1')}"
