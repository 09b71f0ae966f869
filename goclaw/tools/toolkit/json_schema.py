"""JSON Schemas of arguments and results: derived from a function's signature, turned into models, and read.

Tools declared in the configuration have a schema of ours: only keywords that a pydantic model can express exactly are
accepted; any other keyword is refused by name, so that nothing is declared and then not checked. Schemas of others are
for `tools.mcp_schemas`.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import reduce
from operator import or_
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticSchemaGenerationError, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticUndefined, SchemaError

from goclaw.common.core.records import record
from goclaw.tools.toolkit.results import BoundedResult, Result

STRICT = ConfigDict(extra="forbid", strict=True)
"""Strict: "5" is not 5. A model that confuses them gets a sentence to learn from instead of a guess."""
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
    "array": ("minItems", "maxItems", "items"),
    "object": ("properties", "required", "additionalProperties"),
}
"""The keywords that say something of a type's values."""
_BOUND = frozenset(keyword for keywords in _BOUND_OF.values() for keyword in keywords)
_OWN_NAMES = {own: keyword for keyword, own in reversed(_BOUNDS.items()) if own != "pattern"}
_STRUCTURE = {"type", "enum", "const", "properties", "required", "items", "additionalProperties", "anyOf"}
_NOTES = {"title", "description", "default", "examples", "format", "deprecated"}
"""Keywords for readers."""
FieldPath = tuple[str | int, ...]
"""The names and indices that lead to a value in the arguments."""
_MAX_REFERENCES = 8
"""References followed in a row: a foreign schema may refer to itself."""


class Injected:
    """Marks an argument that the model neither sees nor may give: `Annotated[str, Injected()]`. Hooks fill it in."""


class Takes(StrEnum):
    """How a function takes its arguments."""

    FIELDS = "fields"
    """One parameter each."""
    MODEL = "model"
    """All in one pydantic model: its only parameter, positional-only."""
    VALUE = "value"
    """One plain value, positional-only; models send it as the field `value`."""


def arguments_of(function: Callable[..., Any]) -> tuple[type[BaseModel], Takes, frozenset[str]]:
    """Return the model of a tool function's arguments, how it takes them, and the names of the injected ones.

    Raises:
        ValueError: the function has parameters that no model can be made of, or is no coroutine function.
    """
    if not inspect.iscoroutinefunction(function):
        raise ValueError(f"{function.__name__}: a tool is an `async def`")
    parameters = list(inspect.signature(function).parameters.values())[1:]
    try:
        hints = get_type_hints(function, include_extras=True)
        if any(each.kind is inspect.Parameter.POSITIONAL_ONLY for each in parameters):
            return _whole(function, parameters, hints)
        fields: dict[str, Any] = {}
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or parameter.name not in hints:
                raise ValueError(f"{function.__name__}: parameter {parameter.name} needs a type and a name of its own")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (hints[parameter.name], default)
        marked = (name for name in fields if get_origin(hints[name]) is Annotated and _marks(get_args(hints[name])[1:]))
        return create_model(function.__name__, __config__=STRICT, **fields), Takes.FIELDS, frozenset(marked)
    except (NameError, PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ValueError(f"{function.__name__}: {str(error).partition(chr(10))[0]}") from error


def _whole(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> tuple[type[BaseModel], Takes, frozenset[str]]:
    if len(parameters) != 1 or parameters[0].name not in hints:
        raise ValueError(f"{function.__name__}: a positional-only parameter needs a type and has none beside it")
    hint, default = hints[parameters[0].name], parameters[0].default
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        marked = (name for name, each in hint.model_fields.items() if _marks(each.metadata))
        return hint, Takes.MODEL, frozenset(marked)
    field: Any = (hint, ... if default is inspect.Parameter.empty else default)
    return create_model(function.__name__, __config__=STRICT, value=field), Takes.VALUE, frozenset()


def _marks(metadata: Any) -> bool:
    return any(isinstance(each, Injected) or each is Injected for each in metadata)


def schema_of(arguments: type[BaseModel], injected: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the JSON Schema without pydantic's titles: they cost tokens and tell the model nothing."""
    schema: dict[str, Any] = without_titles(arguments.model_json_schema())
    schema.pop("description", None)
    properties = schema.setdefault("properties", {})
    for name in injected:
        properties.pop(name, None)
    if injected and "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in injected]
    schema["additionalProperties"] = False  # as `arguments.validate` has it, whatever a shared model says of itself
    return without_unused(schema)


def without_titles(node: Any, *, names: bool = False) -> Any:
    """Return a part of a JSON Schema without titles.

    `names`: the keys of this mapping are field names, and `title` may be one.
    """
    match node:
        case dict():
            return {
                key: without_titles(value, names=key in ("properties", "$defs"))
                for key, value in node.items()
                if names or not (key == "title" and isinstance(value, str))
            }
        case list():
            return [without_titles(item) for item in node]
        case _:
            return node


def model_of(schema: Mapping[str, Any], name: str, where: str) -> type[BaseModel]:
    """Return the Pydantic model of a tool's arguments.

    Raises:
        ValueError: the schema is invalid, or uses a keyword that a model cannot express; the message names `where`.
    """
    made: type[BaseModel] = _model(schema, name, where, {"__config__": STRICT})
    return made


def result_of(schema: Mapping[str, Any], name: str, where: str, *, bounded: bool = False) -> type[Result]:
    """Return the model of a tool's result; a bounded one has the fields that say how much of the whole it is.

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
    chosen = next((key for key in ("enum", "const", "anyOf") if key in node), None)
    if chosen and (beside := sorted(node.keys() & ({"const", "anyOf"} | _BOUND) - {chosen})):
        raise ValueError(f"{where}: {beside[0]} cannot be checked beside {chosen}")
    if "enum" in node or "const" in node:
        return Literal[tuple(node.get("enum") or (node["const"],))]
    if alternatives := node.get("anyOf"):
        return _union([_kind(each, where, f"{name}_{number}") for number, each in enumerate(alternatives)])
    kinds = [node["type"]] if isinstance(node.get("type"), str) else list(node.get("type", ()))
    kind = _union([_type_of(each, node, where, name) for each in kinds])
    bounds = {_BOUNDS[key]: value for key, value in node.items() if key in _BOUNDS}
    fitting = {key for each in kinds for key in _BOUND_OF.get(each, ())}
    if unfit := sorted((node.keys() & _BOUND) - fitting):
        raise ValueError(f"{where}: {unfit[0]} says nothing of the type {' or '.join(kinds) or 'that is not named'}")
    return Annotated[kind, Field(**bounds)] if bounds else kind


def _union(kinds: list[Any]) -> Any:
    return reduce(or_, kinds) if kinds else Any


def _type_of(kind: str, node: Mapping[str, Any], where: str, name: str) -> Any:
    match kind:
        case "array":
            return _generic(list, _kind(node["items"], f"{where}[]", f"{name}_item") if "items" in node else Any)
        case "object" if "properties" in node:
            return _model(node, name, where, {"__config__": STRICT})
        case "object":
            inner = node.get("additionalProperties", True)
            return _generic(dict, Any if isinstance(inner, bool) else _kind(inner, f"{where}.*", f"{name}_value"))
        case _ if kind in _TYPES:
            return _TYPES[kind]
    raise ValueError(f"{where}: {kind!r} is no type of JSON")


def _generic(outer: Any, inner: Any) -> Any:
    """Return `list[inner]` or `dict[str, inner]`, for a type that is known at run time only."""
    return outer[inner] if outer is list else outer[str, inner]


@record
class Shape:
    """The schema of a tool's arguments, without what is `hidden` from the model."""

    _schema: Mapping[str, Any]
    _hidden: Collection[str] = ()

    def names_in(self, path: FieldPath) -> list[str]:
        """Return the fields of the object at `path`, of all its alternatives."""
        names = dict.fromkeys(name for node in self._at(path) for name in node.get("properties", {}))
        return [name for name in names if path or name not in self._hidden]

    def type_at(self, path: FieldPath) -> str:
        """Return the expected type at a path, in words."""
        return " or ".join(dict.fromkeys(word for node in self._at(path) for word in _type_words(node))) or "a value"

    def _at(self, path: FieldPath) -> list[Mapping[str, Any]]:
        nodes: Iterable[Mapping[str, Any]] = [self._schema]
        for part in path:
            nodes = [child for node in self._resolve(nodes) for child in _children(node, part)]
        return list(self._resolve(nodes))

    def _resolve(self, nodes: Iterable[Mapping[str, Any]], depth: int = _MAX_REFERENCES) -> Iterator[Mapping[str, Any]]:
        """Yield the nodes with references and alternatives resolved."""
        for node in nodes if depth else ():
            if "$ref" in node:
                yield from self._resolve([self._schema["$defs"][node["$ref"].rpartition("/")[2]]], depth - 1)
            elif alternatives := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
                yield from self._resolve(alternatives, depth - 1)
            else:
                yield node


def _children(node: Mapping[str, Any], part: str | int) -> Iterator[Mapping[str, Any]]:
    if isinstance(part, str):
        children = [node.get("properties", {}).get(part) or node.get("additionalProperties")]
    else:
        children = [*node.get("prefixItems", [])[part : part + 1], node.get("items")]
    yield from (child for child in children if isinstance(child, Mapping))


def _type_words(node: Mapping[str, Any]) -> list[str]:
    if "enum" in node:
        return [repr(choice) for choice in node["enum"]]
    if "const" in node:
        return [repr(node["const"])]
    return [str(node["type"])] if "type" in node else []


def refuse_faults(model: type[BaseModel], where: str, schema: Mapping[str, Any] | None = None) -> None:
    """Refuse a model with a default that its field would not take, or a bound that says nothing of its type.

    Each would fail at a call. A default of None is an argument that was not given. `schema`: the model's, if known.

    Raises:
        ValueError: the message names `where` and the field.
    """
    given = {name: field.default for name, field in model.model_fields.items() if not field.is_required()}
    for name, node in (schema or model.model_json_schema()).get("properties", {}).items():
        if unfit := _find_misfit(node):
            raise ValueError(f"{where}.{name}: {unfit}")
        default = given.get(name)
        if default is not None and default is not PydanticUndefined:
            strict = not isinstance(default, list | tuple | set | frozenset)  # `()` is a usual default of a list
            try:
                model.__pydantic_validator__.validate_assignment(model.model_construct(), name, default, strict=strict)
            except ValidationError as error:
                raise ValueError(f"{where}.{name}: its default {default!r}: {error.errors()[0]['msg']}") from None


def _find_misfit(node: Any) -> str:
    """Return the first bound of a schema that says nothing of its type, in words; empty: none."""
    if not isinstance(node, Mapping):
        return ""
    kind = str(node.get("type"))
    if kind in _BOUND_OF and "enum" not in node:
        # Pydantic writes some of the bounds that cannot apply under its own names.
        bounds = (word for key in node if (word := _OWN_NAMES.get(key, key)) in _BOUND - {*_BOUND_OF[kind]})
        if unfit := next(bounds, ""):
            return f"{unfit} says nothing of the type {kind}: remove it, or change the type"
    inner = (node.get("items"), *node.get("anyOf", ()), *node.get("properties", {}).values())
    return next(filter(None, map(_find_misfit, inner)), "")


def without_unused(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without unused definitions."""
    definitions = schema.pop("$defs", {})
    used: dict[str, Any] = {}
    waiting = sorted(_references_in(schema))
    while waiting:
        name = waiting.pop(0)
        if name not in used:
            used[name] = definitions[name]
            waiting += sorted(_references_in(used[name]))
    return {**schema, "$defs": {name: used[name] for name in definitions if name in used}} if used else schema


def _references_in(node: Any) -> set[str]:
    match node:
        case {"$ref": str(reference)}:
            return {reference.rpartition("/")[2]}
        case dict():
            return set().union(*map(_references_in, node.values()))
        case list():
            return set().union(*map(_references_in, node))
    return set()
