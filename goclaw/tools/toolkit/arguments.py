"""Checks a model's arguments against a tool's schema, and reports errors that the model can correct.

One line, all fields together, in the form of the Abbyfile tools guide: `field "key": expected string, got number`.
"""

import difflib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, get_args

import orjson
from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic_core import ErrorDetails

from goclaw.errors import InvalidInput, ToolError
from goclaw.llm.base import INVALID_JSON
from goclaw.tools.toolkit.json_schema import FieldPath, Shape

log = logging.getLogger(__name__)

_NOT_SET_UP = "this tool is not set up: a hook of the operator has to fill in what it needs; the log says what"

JSON_TYPES = {
    "int_type": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "none_required": "null",
    "list_type": "array",
    "tuple_type": "array",
    "set_type": "array",
    "frozen_set_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
}
"""pydantic's error types for a text in the place of something else; the same in the words of JSON Schema."""
_EXPECTED = {**JSON_TYPES, "string_type": "string", "finite_number": "a finite number"}
"""pydantic's error types in the words of JSON Schema."""

_BOUNDS = {
    "literal_error": "{expected}",
    "enum": "{expected}",
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

_EXACT = 2**53
"""Beyond it a float has no ones any more; JSON's larger integers are read as floats, too."""

_MAX_LINES, _MAX_FIELD = 20, 80
"""Fields reported at most, and characters of a field's name: bounds an error made from hostile input."""


def validate(
    model: type[BaseModel],
    given: Any,
    injected: Collection[str] = (),
    filled: Mapping[str, Any] | None = None,
) -> BaseModel:
    """Validate the arguments and return them as a model.

    `injected` names the arguments that are not the model's to give, `filled` has their values.

    Raises:
        InvalidInput: one line that names every field at fault, the expected and the given value.
        ToolError: a hook did not fill in its arguments.
    """
    if not isinstance(given, dict):
        raise InvalidInput(f"input: expected object, got {json_type(given)}")
    if INVALID_JSON in given:
        raise InvalidInput(f"input: expected a JSON object, got {_format(given[INVALID_JSON])}")
    try:
        if injected:
            given = _add_injections(model, given, injected, filled or {})
        return parse_arguments(model, given)
    except ValidationError as error:
        _refuse_fillings(model, error, injected)
        shape = Shape(model.model_json_schema(), injected)
        lines = [line for _, line in islice(_lines(shape, error, given), _MAX_LINES + 1)]
        if len(lines) > _MAX_LINES:
            lines[_MAX_LINES:] = ["…"]
        raise InvalidInput("; ".join(lines)) from None


def faults(model: type[BaseModel], given: Mapping[str, Any]) -> list[str]:
    """Return the errors of the arguments present in `given`, a line for each field; missing ones may still arrive."""
    try:
        parse_arguments(model, dict(given))
    except ValidationError as error:
        found = _lines(Shape(model.model_json_schema()), error, dict(given))
        return [line for path, line in found if path and path[0] in given]
    return []


def with_own_names(model: type[BaseModel], given: Any) -> Any:
    """Return the arguments under the names that the schema shows; `given` itself where none is renamed.

    An argument may have another name that models were taught (`file_path` for `path`). Rules and hooks look for the
    name in the schema. Where both are given both stay, and `validate` refuses the call.
    """
    if not isinstance(given, dict) or not (renamed := _other_names(model)):
        return given
    found: dict[str, Any] = {}
    for name, value in given.items():
        own, inner = renamed.get(name, (name, None))
        if inner:
            in_list = isinstance(value, list)
            value = [with_own_names(inner, each) for each in value] if in_list else with_own_names(inner, value)
        found[name if own in given or own in found else own] = value
    return given if found == given else found


@lru_cache(maxsize=1_024)  # tools of MCP servers come and go
def _other_names(model: type[BaseModel], depth: int = 3) -> Mapping[str, tuple[str, type[BaseModel] | None]]:
    """Return the shown name, and the nested model, of every argument by each of its names. `depth`: how far models in
    models are looked at; they may hold themselves."""
    found: dict[str, tuple[str, type[BaseModel] | None]] = {}
    for name, field in model.model_fields.items():
        names = [name]
        if isinstance(field.validation_alias, AliasChoices):
            names = [each for each in field.validation_alias.choices if isinstance(each, str)]
        elif isinstance(field.validation_alias, str):
            names = [field.validation_alias]
        inner = next((each for each in _models_in(field.annotation) if depth and _other_names(each, depth - 1)), None)
        if inner or len(names) > 1:
            found |= dict.fromkeys(names, (names[0], inner))
    return found


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a value may be an instance of, or hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def parse_arguments(model: type[BaseModel], given: dict[str, Any]) -> BaseModel:
    """Validate strictly, in nested models too; a date, an enum or a tuple is read from its JSON form.

    A number without a fraction is an integer, however it is written (JSON Schema, 4.2.3).
    """
    try:
        return model.model_validate(given, strict=True, extra="forbid")
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            value = detail["input"]
            is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
            if detail["type"] == "int_type" and is_whole:
                given = _with(given, detail["loc"], int(value))
        try:
            text = orjson.dumps(given)
        except orjson.JSONEncodeError:  # a hook filled in an object, or there is half a character
            return model.model_validate(given, strict=True, extra="forbid")
        return model.model_validate_json(text, strict=True, extra="forbid")


def _with(given: Any, place: Sequence[str | int], number: int) -> Any:
    """Return `given` with a whole number at `place`, which also names branches of unions, absent from `given`."""
    if not place:
        return number if given == number else given
    part, rest = place[0], place[1:]
    if isinstance(given, dict) and part in given:
        return {**given, part: _with(given[part], rest, number)}
    if isinstance(given, list) and isinstance(part, int) and part < len(given):
        return [*given[:part], _with(given[part], rest, number), *given[part + 1 :]]
    return _with(given, rest, number)


def _add_injections(
    model: type[BaseModel], given: dict[str, Any], injected: Collection[str], filled: Mapping[str, Any]
) -> dict[str, Any]:
    """Add the injected values. Naming one in a call gets the error of an unknown field, which reveals nothing."""
    if forbidden := sorted(set(given) & set(injected)):
        shown = Shape(model.model_json_schema(), injected).names_in(())
        raise InvalidInput("; ".join(f'field "{name}": unknown field{_nearest(name, shown)}' for name in forbidden))
    missing = [name for name in injected if name not in filled and model.model_fields[name].is_required()]
    if missing:
        log.error("no hook fills in %s of %s", ", ".join(sorted(missing)), model.__name__)
        raise ToolError(_NOT_SET_UP)
    return {**given, **{name: value for name, value in filled.items() if name in injected}}


def _refuse_fillings(model: type[BaseModel], error: ValidationError, injected: Collection[str]) -> None:
    """Refuse the call for an invalid injected value: the log names it for the operator, the model gets no details."""
    for detail in error.errors(include_url=False):
        if detail["loc"] and detail["loc"][0] in injected:
            log.error("a hook fills in %s of %s wrongly: %s", detail["loc"][0], model.__name__, detail["msg"])
            raise ToolError(_NOT_SET_UP)


def _lines(shape: Shape, error: ValidationError, given: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """Yield one line per field, however many types it may have."""
    found: dict[FieldPath, list[_Fault]] = {}
    for detail in error.errors(include_url=False):
        path = _path(shape, given, detail)
        found.setdefault(path, []).append(_fault(shape, path, detail))
    for path, faults_of_it in found.items():
        name = ".".join(map(str, path))[:_MAX_FIELD]
        yield path, f'field "{name}": {_together(faults_of_it)}' if path else f"input: {_together(faults_of_it)}"


class _Fault(NamedTuple):
    """A mismatch: the expected and the given value; with nothing expected, a description."""

    expected: str
    got: str


def _together(faults: Sequence[_Fault]) -> str:
    wanted = dict.fromkeys(fault.expected for fault in faults if fault.expected)
    if wanted:
        return f"expected {' or '.join(wanted)}, got {next(fault.got for fault in faults if fault.expected)}"
    return " or ".join(dict.fromkeys(fault.got for fault in faults))


def _path(shape: Shape, given: Any, detail: ErrorDetails) -> FieldPath:
    """Return the path of the fault inside `given`, without the branches of unions that pydantic adds."""
    path: FieldPath = ()
    for part in detail["loc"]:
        in_array = isinstance(given, list) and isinstance(part, int) and part < len(given)
        if in_array or (isinstance(given, dict) and part in given):
            given, path = given[part], (*path, part)
        elif isinstance(given, dict) and part in shape.names_in(path):
            given, path = None, (*path, part)  # left out
    return path


def _fault(shape: Shape, path: FieldPath, detail: ErrorDetails) -> _Fault:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return _Fault(shape.type_at(path), "nothing")
    if kind == "extra_forbidden":
        return _Fault("", "unknown field" + _nearest(str(path[-1])[:_MAX_FIELD], shape.names_in(path[:-1])))
    got = json_type(detail["input"])
    if kind in _EXPECTED:
        return _Fault(_EXPECTED[kind], got)
    if kind in _BOUNDS:
        return _Fault(_BOUNDS[kind].format(**context), _format(detail["input"]))
    if kind == "value_error":
        return _Fault("", str(context["error"]))
    return _Fault(detail["msg"].removeprefix("Input should be "), got)


def _nearest(name: str, fields: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, fields, n=1)
    if close:
        return f', did you mean "{close[0]}"?'
    known = ", ".join(f'"{field}"' for field in fields)
    return f", known are {known}" if known else ", this tool takes none"


def json_type(value: Any) -> str:
    """Return the JSON type name of `value`."""
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


def _format(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
