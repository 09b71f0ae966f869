"""Schemas of ours become models that check exactly what they say; what no model can say is refused by name."""

from typing import Any

import pytest

from goclaw.errors import InvalidInput
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.json_schema import model_of, result_of

SCHEMA = {
    "type": "object",
    "properties": {
        "goal": {"type": "string", "minLength": 1, "description": "What for", "x-field-number": 1},
        "days": {"type": "integer", "minimum": 1, "default": 2},
        "kind": {"enum": ["party", "trip"]},
        "who": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "at": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]},
        "more": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "maybe": {"type": ["string", "null"]},
        "any": {},
    },
    "required": ["goal"],
}


def test_what_fits_is_taken_with_defaults() -> None:
    model = model_of(SCHEMA, "plan", "here")
    given = {"goal": "a", "who": ["b"], "at": {"x": 1.5}, "more": {"a": True}, "either": 3, "maybe": None, "any": [1]}
    found = validate(model, given).model_dump()
    assert found == {**given, "days": 2, "kind": None}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, 'field "goal": expected string, got nothing'),
        ({"goal": ""}, "at least 1 character"),
        ({"goal": "a", "days": 0}, "at least 1"),
        ({"goal": "a", "days": "2"}, "expected integer"),
        ({"goal": "a", "kind": "war"}, "expected 'party' or 'trip'"),
        ({"goal": "a", "who": ["b", "c", "d"]}, "at most 2 items"),
        ({"goal": "a", "at": {"x": 1.0, "y": 2}}, 'field "at.y": unknown field'),
        ({"goal": "a", "more": {"a": "yes"}}, "expected boolean"),
        ({"goal": "a", "gaol": "b"}, 'did you mean "goal"?'),
    ],
)
def test_what_does_not_fit_is_named(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault.replace("?", r"\?")):
        validate(model_of(SCHEMA, "plan", "here"), given)


def test_the_schema_of_the_model_keeps_descriptions_and_numbers() -> None:
    goal = model_of(SCHEMA, "plan", "here").model_json_schema()["properties"]["goal"]
    assert (goal["description"], goal["x-field-number"], goal["minLength"]) == ("What for", 1, 1)


def test_a_bounded_result_has_the_fields_that_say_so() -> None:
    made = result_of({"properties": {"first": {"type": "string"}}}, "look", "here", bounded=True)
    assert {"first", "returned", "total", "truncated", "refinement_hint"} == set(made.model_fields)


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "string"}, "here: should be the schema of an object"),
        ({"properties": {"a": {"$ref": "#/x"}}}, r"here.a: \$ref cannot be checked here"),
        ({"properties": {"a": {"type": "text"}}}, "here.a: 'text' is no type of JSON"),
        ({"properties": {"a": "string"}}, "here.a: should be a JSON Schema"),
        ({"properties": {"model_dump": {}}}, "here.model_dump: no field can be called that"),
        ({"properties": {"a": {"type": "array", "items": {"oneOf": []}}}}, r"here.a\[\]: oneOf cannot be checked"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "here: "),
        ({"properties": {"a": {"type": "string", "minimum": 3}}}, "here.a: minimum says nothing of the type string"),
        (
            {"properties": {"a": {"items": {"type": "string"}}}},
            "here.a: items says nothing of the type that is not named",
        ),
        (
            {"properties": {"a": {"type": "string", "properties": {}}}},
            "here.a: properties says nothing of the type string",
        ),
        ({"properties": {"a": {"enum": [1, 5], "maximum": 3}}}, "here.a: maximum cannot be checked beside enum"),
        (
            {"properties": {"a": {"anyOf": [{"type": "string"}], "minLength": 3}}},
            "here.a: minLength cannot be checked beside anyOf",
        ),
    ],
)
def test_what_no_model_can_say_is_refused_by_name(schema: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        model_of(schema, "plan", "here")
