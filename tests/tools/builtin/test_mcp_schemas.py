"""Arguments that a JSON Schema describes: checked in full, worded as for every tool, whoever wrote the schema."""

from typing import Any

import pytest

from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.builtin.mcp_schemas import Checked, UnusableSchema, arguments_by, in_words
from goclaw.tools.toolkit.arguments import faults, validate

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 2},
        "count": {"type": ["integer", "null"], "minimum": 1},
        "kind": {"enum": ["file", "folder"]},
        "where": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}, "maxItems": 2}]},
        "size": {"type": "object", "properties": {"x": {"type": "number", "maximum": 5}}, "required": ["x"]},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def refusal(schema: dict[str, Any], given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        validate(arguments_by(schema, schema), given)
    return str(caught.value)


def test_what_fits_is_taken_as_it_is() -> None:
    given = {"path": "ab", "count": None, "where": [1]}
    assert dict(validate(arguments_by(SCHEMA, SCHEMA), given)) == given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, 'field "path": expected string, got nothing'),
        ({"path": "x"}, "field \"path\": expected at least 2 character(s), got 'x'"),
        (
            {"path": 4, "count": "x", "kind": "link", "where": 4, "pth": 1},
            'field "path": expected string, got number; field "count": expected integer or null, got string; '
            "field \"kind\": expected 'file' or 'folder', got 'link'; "
            'field "where": expected string or array, got number; '
            'field "pth": unknown field, did you mean "path"?',
        ),
        ({"path": "ab", "where": ["q"]}, 'field "where.0": expected integer, got string'),
        ({"path": "ab", "where": [1, 2, 3]}, 'field "where": expected at most 2 items, got [1, 2, 3]'),
        ({"path": "ab", "size": {}}, 'field "size.x": expected number, got nothing'),
        ({"path": "ab", "size": {"x": 7}}, 'field "size.x": expected at most 5, got 7'),
        ([], "input: expected object, got array"),
    ],
)
def test_everything_wrong_is_said_at_once_in_the_words_of_every_tool(given: Any, said: str) -> None:
    assert refusal(SCHEMA, given) == said


def test_keywords_without_words_of_their_own_are_named() -> None:
    schema = {"type": "object", "properties": {"a": {"multipleOf": 3}, "b": {"not": {"const": "{x}"}}}}
    said = refusal(schema, {"a": 4, "b": "{x}"})
    assert said == (
        'field "a": expected a multiple of 3, got number; '
        'field "b": expected what the schema says with not {"const": "{x}"}, got string'
    )


def test_what_is_already_written_of_a_call_can_be_checked() -> None:
    assert faults(arguments_by(SCHEMA, SCHEMA), {"count": "x"}) == [
        'field "count": expected integer or null, got string'
    ]


@pytest.mark.parametrize("schema", [{"type": "strnig"}, {"properties": 4}, {"type": {}}, {"required": "x"}])
def test_what_is_no_schema_is_refused_before_any_call(schema: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema, match="it is no JSON Schema"):
        Checked(schema)


def test_a_schema_made_to_be_read_for_ever_is_not() -> None:
    """2^30 ways through thirty lines, a reference to itself, a pattern that takes for ever."""
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    for schema in ({"$defs": {**doubled, "d30": {}}, "$ref": "#/$defs/d0"}, {"$ref": "#"}):
        with pytest.raises(ToolError, match="refers to itself without end"):
            validate(arguments_by(schema, {}), {})
    patient = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    validate(arguments_by(patient, patient), {"a": "a" * 40 + "!"})


def test_nothing_outside_of_a_schema_is_fetched() -> None:
    with pytest.raises(ToolError, match="refers to something that is not in it"):
        validate(arguments_by({"$ref": "http://127.0.0.1:9/schema"}, {}), {})


def test_a_result_that_does_not_fit_is_told_in_a_line() -> None:
    checked = Checked({"type": "object", "properties": {"n": {"type": "integer"}}})
    assert in_words(checked.mismatches({"n": "7"})) == "field \"n\": '7' is not of type 'integer'"
    assert checked.mismatches({"n": 7}) == []
