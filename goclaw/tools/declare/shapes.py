"""The shapes of arguments, results and artifacts: a model of yours, a plain type, a JSON Schema, or fields."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field as item
from dataclasses import replace
from typing import Annotated, Any, Literal, TypedDict, Unpack

from pydantic import BaseModel, Field, PydanticUserError, TypeAdapter, create_model

from goclaw.common.config.exports import ARGUMENT
from goclaw.common.core.records import record
from goclaw.tools.declare.options import ToolOption
from goclaw.tools.toolkit.json_schema import STRICT, Injected, model_of, refuse_faults, result_of, without_titles
from goclaw.tools.toolkit.results import BoundedResult, Result

NUMBER = "x-field-number"
"""Under which key a schema keeps the numbers of fields."""
_OF_JSON = {
    "string": "str",
    "str": "str",
    "integer": "int",
    "int": "int",
    "number": "float",
    "float": "float",
    "boolean": "bool",
    "bool": "bool",
    "array": "list[str]",
    "object": "dict[str, str]",
}
"""Names of types, as JSON Schema and Python have them, and what Python writes."""
_BOUNDS = {"minimum": "ge", "maximum": "le", **{name: name for name in ("min_length", "max_length", "pattern")}}
"""The rules that bound a value, in pydantic's words."""
_UNSAID = object()


@record
class Attribute:
    """A field of a shape."""

    name: str
    kind: Any
    description: str = ""
    number: int | None = None
    default: Any = _UNSAID
    rules: Mapping[str, Any] = item(default_factory=dict)


@record
class Required:
    """The fields that have to be given."""

    names: tuple[str, ...]


Part = Attribute | Required | type | Mapping[str, Any]


class Rules(TypedDict, total=False):
    """What a field's values may be."""

    default: Any
    enum: Sequence[Any]
    minimum: float | None
    maximum: float | None
    min_length: int | None
    max_length: int | None
    pattern: str | None
    examples: Sequence[Any]


def attribute(name: str, kind: Any, description: str = "", **rules: Unpack[Rules]) -> Attribute:
    """Declare a field: name, Python type, description. Without `required` and `default` it may be None.

    Raises:
        ValueError: no JSON Schema can be made of `kind`, or a rule does not fit it.
    """
    if fault := _kind_fault(kind):
        raise ValueError(f"{name}: {fault}")
    said: dict[str, Any] = {own: value for word, own in _BOUNDS.items() if (value := rules.get(word)) is not None}
    if examples := rules.get("examples"):
        said["examples"] = list(examples)
    kind = Literal[tuple(choices)] if (choices := rules.get("enum", ())) else kind
    made = Attribute(name, kind, description, None, rules.get("default", _UNSAID), said)
    if _is_fit(name):
        refuse_faults(model_from((made,), "attribute"), "attribute")
    return made


def _kind_fault(kind: Any) -> str:
    """Return why a field cannot be of this kind, with the remedy; empty if it can."""
    shown = repr(kind)[:80]
    if isinstance(kind, str):
        remedy = f"write {_OF_JSON[kind]}, without quotes" if kind in _OF_JSON else "write the type without quotes"
        return f"{shown} is a text, not a type: {remedy}"
    with suppress(PydanticUserError, TypeError):
        if TypeAdapter(kind).pydantic_complete:
            return ""
    return f"{shown} is not a type that a field can have: use str, int, float, bool, list[str] … or a pydantic model"


def field(number: int, name: str, kind: Any, description: str = "", **rules: Unpack[Rules]) -> Attribute:
    """Declare a field with a permanent number, kept in the schema as `x-field-number`."""
    if number < 1:
        raise ValueError(f"{name}: a field's number is 1 or more, not {number}")
    return replace(attribute(name, kind, description, **rules), number=number)


def required(*names: str) -> Required:
    """These fields have to be given."""
    return Required(names)


def args(*parts: Part) -> ToolOption:
    """Set a tool's arguments: fields, or a pydantic model, or one plain type, or a JSON Schema as it is."""
    return ToolOption("args", parts)


def returns(*parts: Part) -> ToolOption:
    """Set a tool's result, in the same forms."""
    return ToolOption("returns", parts)


def model_from(parts: Sequence[Part], name: str, base: type[BaseModel] | None = None) -> type[BaseModel]:
    """Return the model of a shape.

    Raises:
        ValueError: it does not hold together; the message names the shape.
    """
    if (schema := written(parts)) is not None:
        return result_of(schema, name, name, bounded=base is BoundedResult) if base else model_of(schema, name, name)
    if len(parts) == 1 and isinstance(parts[0], type):
        if issubclass(parts[0], BaseModel):
            return parts[0]
        return _make(name, {"value": (parts[0], ...)}, base)
    fields = [part for part in parts if isinstance(part, Attribute)]
    needed = {each for part in parts if isinstance(part, Required) for each in part.names}
    if len(fields) + sum(isinstance(part, Required) for part in parts) != len(parts):
        raise ValueError(f"{name}: a type stands alone, or there are fields")
    names = [each.name for each in fields]
    numbers = [each.number for each in fields if each.number is not None]
    for what, values in (("field", names), ("field number", numbers)):
        if twice := [value for at, value in enumerate(values) if value in values[:at]]:
            raise ValueError(f"{name}: the {what} {twice[0]} is there twice")
    if unknown := sorted(needed - set(names)):
        raise ValueError(f"{name}: required names {', '.join(unknown)}, which is not a field")
    return _make(name, {each.name: _field(each, each.name in needed, name) for each in fields}, base)


def written(parts: Sequence[Part]) -> Mapping[str, Any] | None:
    """Return the shape's JSON Schema where it was given as one."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], Mapping) else None


def result_from(parts: Sequence[Part], name: str, *, bounded: bool) -> Any:
    """Return the type of a result: str for plain text, else a model; a bounded one has the fields for bounds."""
    if not parts or parts == (str,):
        return str
    if len(parts) == 1 and isinstance(parts[0], type) and not issubclass(parts[0], BaseModel):
        return parts[0]
    return model_from(parts, name, BoundedResult if bounded else Result)


def with_injected(model: type[BaseModel], injects: Mapping[str, Any], where: str) -> type[BaseModel]:
    """Return the model without the fields that code fills in, and with those for hooks marked."""
    by_hooks = {name for name, fill in injects.items() if fill is None}
    if unknown := sorted(by_hooks - set(model.model_fields)):
        raise ValueError(f"{where}: inject names {', '.join(unknown)}, which is not an argument")
    if not injects:
        return model
    fields: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        default = ... if info.is_required() else info.default
        injected = (Annotated[info.annotation, Injected()], default)
        fields |= {} if injects.get(name) else {name: injected if name in by_hooks else (info.annotation, info)}
    return create_model(model.__name__, __config__=STRICT, **fields)


def schema_from(model: type[BaseModel]) -> dict[str, Any]:
    """Return its JSON Schema in one piece, as the configuration has it."""
    schema: dict[str, Any] = without_titles(model.model_json_schema())
    known = schema.pop("$defs", {})
    for key in ("description", "additionalProperties"):
        schema.pop(key, None)
    found: dict[str, Any] = _inline(schema, known)
    return {**found, "properties": found.get("properties", {})}


def _inline(node: Any, known: Mapping[str, Any]) -> Any:
    match node:
        case {"$ref": str(reference)}:
            inner = {key: value for key, value in known[reference.rpartition("/")[2]].items() if key != "description"}
            return _inline({**inner, **{key: value for key, value in node.items() if key != "$ref"}}, known)
        case dict():
            return {key: _inline(value, known) for key, value in node.items()}
        case list():
            return [_inline(each, known) for each in node]
    return node


def _is_fit(name: str) -> bool:
    """Whether a field can have this name."""
    return bool(ARGUMENT.fullmatch(name)) and not hasattr(BaseModel, name)


def _make(name: str, fields: dict[str, Any], base: type[BaseModel] | None) -> type[BaseModel]:
    for each in fields:
        if not _is_fit(each):
            raise ValueError(f"{name}: no field can be called {each!r}; choose another name")
    made: type[BaseModel] = (
        create_model(name, __base__=base, **fields) if base else create_model(name, __config__=STRICT, **fields)
    )
    return made


def _field(each: Attribute, needed: bool, where: str) -> tuple[Any, Any]:
    if needed and each.default is not _UNSAID:
        raise ValueError(f"{where}.{each.name}: what is required has no default")
    given: dict[str, Any] = dict(each.rules)
    if each.description:
        given["description"] = each.description
    if each.number is not None:
        given["json_schema_extra"] = {NUMBER: each.number}
    if each.default is not _UNSAID:
        return each.kind, Field(each.default, validate_default=True, **given)
    return (each.kind, Field(**given)) if needed else (each.kind | None, Field(None, **given))
