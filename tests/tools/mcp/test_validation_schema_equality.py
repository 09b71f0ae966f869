"""Pinned schemas are compared by meaning where that is certain, and the first place that differs is named."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no stubs are installed

from goclaw.tools.mcp.validation import first_difference
from tests.lanes import repeats
from tests.tables import table

TEXT = {"type": "string"}


def having(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("pinned", "given"),
    [
        (having(a=TEXT, b=TEXT), having(b=TEXT, a=TEXT)),
        ({"required": ["a", "b"]}, {"required": ["b", "a"]}),
        ({"type": ["string", "null"]}, {"type": ["null", "string"]}),
        ({"type": "string"}, {"type": ["string"]}),
        ({"enum": [1, {"a": [True]}, None]}, {"enum": [None, {"a": [True]}, 1.0]}),
        ({"minimum": 0}, {"minimum": 0.0}),
        (having(), having() | {"additionalProperties": True, "required": []}),
        (having() | {"additionalProperties": {}}, {"type": "object"}),
        (
            having(),
            having() | {"$schema": "x", "title": "T", "description": "D", "additionalProperties": {"title": "T"}},
        ),
        (having(a=True), having(a={"description": "Anything."})),
        ({"$defs": {"title": TEXT}, "items": [TEXT]}, {"items": [TEXT | {"title": "T"}], "$defs": {"title": TEXT}}),
        ({"allOf": [{"then": {"not": TEXT}}]}, {"allOf": [{"then": {"not": TEXT | {"description": "D"}}}]}),
    ],
)
def test_what_certainly_means_the_same_does_not_count(pinned: Any, given: Any) -> None:
    assert first_difference(pinned, given) is None


@table(
    "pinned, given, place",
    [
        (having(a=TEXT), having(a={"type": "integer"}), "/properties/a/type"),
        (having(a=TEXT), having(a=TEXT, b=TEXT), "/properties/b"),
        (having(a=TEXT, b=TEXT), having(a=TEXT), "/properties/b"),
        (having(), having(title=TEXT), "/properties/title"),
        (having(), having(description=TEXT), "/properties/description"),
        (having(a=TEXT), having(a=TEXT) | {"required": ["a"]}, "/required"),
        (having(), having() | {"additionalProperties": False}, "/additionalProperties"),
        (having(), having() | {"additionalProperties": TEXT}, "/additionalProperties/type"),
        (having(), having() | {"$comment": "x"}, "/$comment"),
        (having() | {"title": "T"}, having() | {"title": "S"}, "/title"),
        (having(a=TEXT | {"description": "D"}), having(a=TEXT), "/properties/a/description"),
        (having(a=TEXT), having(a=TEXT | {"$schema": "x"}), "/properties/a/$schema"),
        (having(a=TEXT), having(a=TEXT | {"title": {"type": "string"}}), "/properties/a/title"),
        (having(a=TEXT), having(a=TEXT | {"default": "x"}), "/properties/a/default"),
        ({"const": 1}, {"const": True}, "/const"),
        ({"enum": [0, 1]}, {"enum": [False, 1]}, "/enum"),
        ({"enum": [1, 1, 2]}, {"enum": [1, 2, 2]}, "/enum"),
        ({"const": {"title": [1, 2]}}, {"const": {"title": [2, 1]}}, "/const/title/0"),
        ({"default": {}}, {"default": {"title": "x"}}, "/default/title"),
        ({"anyOf": [TEXT, {}]}, {"anyOf": [{}, TEXT]}, "/anyOf/0/type"),
        ({"anyOf": [TEXT]}, {"anyOf": [TEXT, TEXT]}, "/anyOf"),
        ({"items": TEXT}, {"items": [TEXT]}, "/items"),
        (having(**{"a/b~c": TEXT}), having(**{"a/b~c": {}}), "/properties/a~1b~0c/type"),
        (
            {"unevaluatedProperties": False},
            {"unevaluatedProperties": False, "additionalProperties": {}},
            "/additionalProperties",
        ),
        (TEXT, None, ""),
        (TEXT, False, ""),
    ],
)
def test_everything_else_counts_and_its_place_is_named(pinned: Any, given: Any, place: str) -> None:
    assert first_difference(pinned, given) == place


NAMES = st.sampled_from(["a", "b", "title", "required"])
VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["a", "b"]))
KINDS = st.sampled_from(["string", "integer", "boolean", "null", "object"])


def holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(KINDS, st.lists(KINDS, min_size=1, unique=True)),
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "required": st.lists(NAMES, unique=True),
            "enum": st.lists(VALUES, min_size=1, max_size=3, unique_by=json.dumps),
            "additionalProperties": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "title": st.sampled_from(["T", "S"]),
        },
    )


SCHEMAS = holding(st.recursive(st.booleans(), holding, max_leaves=6))


def otherwise(value: Any, by: random.Random, key: str = "") -> Any:
    """The same schema as another server might write it."""
    if isinstance(value, dict):
        parts = [(name, otherwise(each, by, name)) for name, each in value.items()]
        by.shuffle(parts)
        return dict(parts)
    if isinstance(value, list) and key in ("type", "enum", "required") and not any(isinstance(v, dict) for v in value):
        return by.sample(value, len(value))
    return [otherwise(each, by) for each in value] if isinstance(value, list) else value


@pytest.mark.deep
@given(SCHEMAS, st.randoms(use_true_random=False))
@settings(max_examples=repeats(30, 300))
def test_a_schema_that_is_written_in_another_order_is_the_same(schema: dict[str, Any], by: random.Random) -> None:
    assert first_difference(schema, otherwise(schema, by)) is None


MORE = [
    ("additionalProperties", True),
    ("additionalProperties", False),
    ("required", []),
    ("title", "T"),
    ("properties", {}),
]


def altered(value: Any, by: random.Random) -> Any:
    """The same schema, with keywords here and there that were not there before, or are not there any more."""
    if not isinstance(value, dict):
        return [altered(each, by) for each in value] if isinstance(value, list) else value
    parts = {name: altered(each, by) for name, each in value.items() if by.random() < 0.9}
    return {**parts, **dict(each for each in MORE if by.random() < 0.1)}


@pytest.mark.deep
@given(SCHEMAS, st.randoms(use_true_random=False), st.lists(st.dictionaries(NAMES, VALUES, max_size=3), max_size=5))
@settings(max_examples=repeats(40, 400))
def test_schemas_that_are_called_the_same_take_the_same(
    pinned: dict[str, Any], by: random.Random, instances: list[Any]
) -> None:
    changed = altered(pinned, by)
    if first_difference(pinned, changed) is None:
        one, other = Draft202012Validator(pinned), Draft202012Validator(changed)
        assert [one.is_valid(each) for each in instances] == [other.is_valid(each) for each in instances]
