"""Checks a model's arguments against a tool's schema, and words what is wrong for the model to mend.

One line, all fields at once, in the form of the Abbyfile tools guide: `field "key": expected string, got number`.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from goclaw.errors import InvalidInput, ToolError
from goclaw.llm.base import INVALID_JSON

_EXPECTED = {
    "string_type": "string",
    "int_type": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "list_type": "array",
    "tuple_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "finite_number": "a finite number",
}
"""pydantic's error types in the words of JSON Schema."""

_BOUNDS = {
    "literal_error": "{expected}",
    "string_too_short": "at least {min_length} character(s)",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} item(s)",
    "too_long": "at most {max_length} items",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
"""pydantic's error types for values of the right type outside their bounds."""

_MOST_LINES, _LONGEST_FIELD = 20, 80
"""Fields at fault that are named, and characters of a field's name: whoever sends more makes no slips."""


def validate(
    model: type[BaseModel],
    given: Any,
    injected: Collection[str] = (),
    filled: Mapping[str, Any] | None = None,
) -> BaseModel:
    """The arguments as a validated model.

    `injected` names the arguments that are not the model's to give, `filled` has their values.

    Raises:
        InvalidInput: one line that names every field at fault, what was expected and what came.
    """
    if not isinstance(given, dict):
        raise InvalidInput(f"input: expected object, got {json_type(given)}")
    if INVALID_JSON in given:
        raise InvalidInput(f"input: expected a JSON object, got {_shown(given[INVALID_JSON])}")
    try:
        if injected:
            given = _with_injected(model, given, injected, filled or {})
        return model.model_validate(given)
    except ValidationError as error:
        lines = dict.fromkeys(islice(_lines(model, error, injected), _MOST_LINES))
        more = ["…"] if error.error_count() > _MOST_LINES else []
        raise InvalidInput("; ".join([*lines, *more])) from None


def _with_injected(
    model: type[BaseModel], given: dict[str, Any], injected: Collection[str], filled: Mapping[str, Any]
) -> dict[str, Any]:
    """Whoever asks the model for more than its schema shows must not learn what else there is."""
    if forbidden := sorted(set(given) & set(injected)):
        raise InvalidInput("; ".join(f'field "{name}": unknown field' for name in forbidden))
    missing = [name for name in injected if name not in filled and model.model_fields[name].is_required()]
    if missing:
        raise ToolError(f"this tool is not set up: no hook fills in {', '.join(sorted(missing))}")
    return {**given, **{name: value for name, value in filled.items() if name in injected}}


def _lines(model: type[BaseModel], error: ValidationError, injected: Collection[str]) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_context=True):
        field = ".".join(str(part) for part in detail["loc"])[:_LONGEST_FIELD]
        yield f'field "{field}": {_wording(model, detail, injected)}'


def _wording(model: type[BaseModel], detail: ErrorDetails, injected: Collection[str]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return f"expected {_declared_type(model, detail)}, got nothing"
    if kind == "extra_forbidden":
        return "unknown field" + _nearest(
            str(detail["loc"][-1])[:_LONGEST_FIELD], [name for name in model.model_fields if name not in injected]
        )
    got = json_type(detail["input"])
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {got}"
    if kind in _BOUNDS:
        return f"expected {_BOUNDS[kind].format(**context)}, got {_shown(detail['input'])}"
    if kind == "value_error":
        return str(context["error"])
    return f"{detail['msg']}, got {got}"


def _declared_type(model: type[BaseModel], detail: ErrorDetails) -> str:
    schema = model.model_json_schema().get("properties", {}).get(str(detail["loc"][0]), {})
    if len(detail["loc"]) > 1:
        return "a value"
    if "enum" in schema:
        return " or ".join(repr(choice) for choice in schema["enum"])
    return str(schema.get("type", "a value"))


def _nearest(name: str, fields: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, fields, n=1)
    if close:
        return f', did you mean "{close[0]}"?'
    known = ", ".join(f'"{field}"' for field in fields)
    return f", known are {known}" if known else ", this tool takes none"


def json_type(value: Any) -> str:
    """What JSON calls the type of `value`."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case dict():
            return "object"
    return type(value).__name__


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
