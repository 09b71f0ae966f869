"""Derives a function's arguments: their model, their JSON Schema, and the injected ones."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, PydanticSchemaGenerationError, create_model
from pydantic.errors import PydanticUserError

from goclaw.toolkit.shape import without_unused


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


STRICT = ConfigDict(extra="forbid", strict=True)
"""Strict: "5" is not 5. A model that confuses them gets a sentence to learn from instead of a guess."""


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
        return _fields(function, parameters, hints)
    except (NameError, PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ValueError(f"{function.__name__}: {str(error).partition(chr(10))[0]}") from error


def _fields(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> tuple[type[BaseModel], Takes, frozenset[str]]:
    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) or parameter.name not in hints:
            raise ValueError(f"{function.__name__}: parameter {parameter.name} needs a type and a name of its own")
        fields[parameter.name] = (
            hints[parameter.name],
            ... if parameter.default is parameter.empty else parameter.default,
        )
    injected = frozenset(name for name, (hint, _) in fields.items() if _is_injected(hint))
    return create_model(function.__name__, __config__=STRICT, **fields), Takes.FIELDS, injected


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


def _is_injected(hint: Any) -> bool:
    return get_origin(hint) is Annotated and _marks(get_args(hint)[1:])


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
    """`names`: the keys of this mapping are field names, of which `title` may be one."""
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
