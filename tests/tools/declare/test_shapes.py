"""Shapes: fields one by one, a model, a plain type; numbers are kept, and what does not hold together is named."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from goclaw.tools.declare import args, attribute, field, required, returns
from goclaw.tools.declare.shapes import Part, model_from, schema_from, with_injected


class Point(BaseModel):
    """A place."""

    x: int


def shape(*parts: Part) -> type[BaseModel]:
    return model_from(parts, "shape")


def test_attributes_have_types_descriptions_defaults_and_bounds() -> None:
    made = shape(
        attribute("query", str, "Search phrase", min_length=1),
        attribute("limit", int, "Most", default=10, minimum=1, maximum=100),
        attribute("order", str, enum=("new", "old"), default="new"),
        attribute("note", str),
        required("query"),
    )
    assert schema_from(made) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Search phrase", "minLength": 1},
            "limit": {"type": "integer", "description": "Most", "default": 10, "minimum": 1, "maximum": 100},
            "order": {"enum": ["new", "old"], "type": "string", "default": "new"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
    }
    with pytest.raises(ValidationError):
        made(query="", limit=0)


def test_numbers_of_fields_are_kept_in_the_schema() -> None:
    made = shape(field(1, "query", str), field(2, "limit", int, default=5), required("query"))
    properties = schema_from(made)["properties"]
    assert [properties[name]["x-field-number"] for name in ("query", "limit")] == [1, 2]


def test_required_fields_have_to_be_given() -> None:
    with pytest.raises(ValidationError, match="Field required"):
        shape(attribute("a", str), required("a"))()


@pytest.mark.parametrize("words", [args, returns])
def test_a_model_or_a_plain_type_stands_for_the_whole(words: Any) -> None:
    assert model_from(words(Point).value, "x") is Point
    assert schema_from(model_from(words(int).value, "x")) == {
        "type": "object",
        "properties": {"value": {"type": "integer"}},
        "required": ["value"],
    }


def test_a_json_schema_is_a_shape_as_it_is() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "minLength": 2}}, "required": ["q"]}
    assert schema_from(model_from(args(schema).value, "x")) == schema
    with pytest.raises(ValueError, match="oneOf cannot be checked"):
        model_from(args({"properties": {"q": {"oneOf": []}}}).value, "x")


def test_models_within_are_one_piece_in_the_schema() -> None:
    found = schema_from(shape(attribute("at", list[Point]), required("at")))
    assert "$defs" not in found
    assert found["properties"]["at"]["items"] == {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
    }


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ((attribute("a", str), attribute("a", int)), "the field a is there twice"),
        ((field(1, "a", str), field(1, "b", int)), "the field number 1 is there twice"),
        ((attribute("a", str), required("b")), "required names b, which is not a field"),
        ((attribute("model_fields", str),), "no field can be called 'model_fields'"),
        ((attribute("A b", str),), "no field can be called 'A b'"),
        ((Point, attribute("a", str)), "a type stands alone"),
        ((attribute("a", str, default="x"), required("a")), "what is required has no default"),
    ],
)
def test_what_does_not_hold_together_is_named(parts: tuple[Part, ...], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        shape(*parts)


def test_a_number_below_one_is_none() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        field(0, "a", str)


def test_an_injected_field_is_one_of_the_arguments() -> None:
    with pytest.raises(ValueError, match="inject names b"):
        with_injected(shape(attribute("a", str)), {"b": None}, "tool")
