"""From a JSON Schema of ours to the pydantic model that arguments and results are checked with.

For tools that are declared in the configuration. Only what a model can say exactly is taken; whatever else a schema
asks for is refused by name, so that nothing is declared and then not checked. Schemas of others are for `schemas`.
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from types import NoneType
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic_core import SchemaError

from goclaw.toolkit.results import BoundedResult, Result
from goclaw.toolkit.signature import STRICT

_TYPES: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "null": NoneType}
_BOUNDS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}
"""Keywords that say what a value must be, in pydantic's words."""
_BOUND_OF: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("minItems", "maxItems"),
}
_STRUCTURE = {"type", "enum", "const", "properties", "required", "items", "additionalProperties", "anyOf"}
_NOTES = {"title", "description", "default", "examples", "format", "deprecated"}
"""Keywords for readers."""


def model_of(schema: Mapping[str, Any], name: str, where: str) -> type[BaseModel]:
    """Return the Pydantic model of a tool's arguments.

    Raises:
        ValueError: the schema is invalid, or uses a keyword that a model cannot express; the message names `where`.
    """
    made: type[BaseModel] = _model(schema, name, where, {"__config__": STRICT})
    return made


def result_of(schema: Mapping[str, Any], name: str, where: str, *, bounded: bool = False) -> type[Result]:
    """The model of a tool's result; a bounded one has the fields that say how much of the whole it is.

    Raises:
        ValueError: as `model_of` does.
    """
    base: type[Result] = BoundedResult if bounded else Result
    made: type[Result] = _model(schema, name, where, {"__base__": base})
    return made


def _model(schema: Mapping[str, Any], name: str, where: str, options: Mapping[str, Any]) -> Any:
    if schema.get("type", "object") != "object":
        raise ValueError(f"{where}: should be the schema of an object")
    required, properties = set(schema.get("required", ())), schema.get("properties", {})
    fields: dict[str, Any] = {}
    for field, node in properties.items():
        here = f"{where}.{field}"
        if hasattr(BaseModel, field):
            raise ValueError(f"{here}: no field can be called that; choose another name")
        fields[field] = _field(node, here, f"{name}_{field}", required=field in required)
    try:
        return create_model(name, **options, **fields)
    except (SchemaError, TypeError, ValueError) as error:  # a pattern that is none, a default that does not fit
        raise ValueError(f"{where}: {str(error).strip().rpartition(chr(10))[2].strip()}") from error


def _field(node: Any, where: str, name: str, *, required: bool) -> tuple[Any, Any]:
    kind = _kind(node, where, name)
    given: dict[str, Any] = {key: node[key] for key in ("description", "examples") if key in node}
    if extra := {key: value for key, value in node.items() if key.startswith("x-")}:
        given["json_schema_extra"] = extra
    if "default" in node:
        return kind, Field(node["default"], validate_default=True, **given)
    return (kind, Field(**given)) if required else (kind | None, Field(None, **given))


def _kind(node: Any, where: str, name: str) -> Any:
    if not isinstance(node, Mapping):
        raise ValueError(f"{where}: should be a JSON Schema")
    known = _STRUCTURE | _NOTES | _BOUNDS.keys()
    if unknown := sorted(key for key in node if key not in known and not key.startswith("x-")):
        raise ValueError(f"{where}: {unknown[0]} cannot be checked here; there are {', '.join(sorted(known))}")
    if "enum" in node or "const" in node:
        return Literal[tuple(node.get("enum") or (node["const"],))]
    if alternatives := node.get("anyOf"):
        return _one_of([_kind(each, where, f"{name}_{number}") for number, each in enumerate(alternatives)])
    kinds = [node["type"]] if isinstance(node.get("type"), str) else list(node.get("type", ()))
    kind = _one_of([_plain(each, node, where, name) for each in kinds])
    bounds = {_BOUNDS[key]: value for key, value in node.items() if key in _BOUNDS}
    fitting = {key for each in kinds for key in _BOUND_OF.get(each, ())}
    if unfit := sorted((node.keys() & _BOUNDS.keys()) - fitting):
        raise ValueError(f"{where}: {unfit[0]} says nothing of the type {' or '.join(kinds) or 'that is not named'}")
    return Annotated[kind, Field(**bounds)] if bounds else kind


def _one_of(kinds: list[Any]) -> Any:
    return reduce(or_, kinds) if kinds else Any


def _plain(kind: str, node: Mapping[str, Any], where: str, name: str) -> Any:
    match kind:
        case "array":
            return _generic(list, _kind(node["items"], f"{where}[]", f"{name}_item") if "items" in node else Any)
        case "object" if "properties" in node:
            return _model(node, name, where, {"__config__": ConfigDict(extra="forbid", strict=True)})
        case "object":
            inner = node.get("additionalProperties", True)
            return _generic(dict, Any if isinstance(inner, bool) else _kind(inner, f"{where}.*", f"{name}_value"))
        case _ if kind in _TYPES:
            return _TYPES[kind]
    raise ValueError(f"{where}: {kind!r} is no type of JSON")


def _generic(outer: Any, inner: Any) -> Any:
    """`list[X]` or `dict[str, X]` of a type that is only known now."""
    return outer[inner] if outer is list else outer[str, inner]
