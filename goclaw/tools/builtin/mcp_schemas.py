"""Check arguments and results of MCP tools against the server's JSON Schemas.

    tool = Tool(spec, arguments_by(schema), run, takes=Takes.MODEL)

A mismatch is a pydantic `ValidationError` as for every tool, so `arguments` words it, nearest names included. The
schema is foreign: its cost is bounded, and its patterns are left to its author, because a regular expression can take
hours.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import jsonschema  # type: ignore[import-untyped]  # it has no types
import jsonschema.validators  # type: ignore[import-untyped]  # the same
from pydantic import BaseModel, RootModel, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from referencing import Registry
from referencing.exceptions import Unresolvable

from goclaw.errors import ToolError

MAX_STEPS = 2_000
"""References that are followed in one check: a short schema can ask for more steps than there are atoms."""
_library: Any = jsonschema
SchemaMismatch = Any
"""jsonschema.ValidationError"""
_MAX_SAID = 5
_SHOWN = 80
"""Characters of a keyword's value that are repeated."""
_NOT_CHECKED = ("pattern", "patternProperties", "format")
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "minLength": ("string_too_short", "min_length"),
    "maxLength": ("string_too_long", "max_length"),
    "minimum": ("greater_than_equal", "ge"),
    "maximum": ("less_than_equal", "le"),
    "exclusiveMinimum": ("greater_than", "gt"),
    "exclusiveMaximum": ("less_than", "lt"),
}
"""Keywords, each as pydantic's error of the same meaning and the name of its bound."""
_COUNTS = {"minItems": ("too_short", "min_length"), "maxItems": ("too_long", "max_length")}


class UnusableSchema(ValueError):
    """Nothing can be checked against it; the message says why."""


class Checked:
    """A JSON Schema to check values against."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Compile the schema.

        Raises:
            UnusableSchema: it is invalid.
        """
        # An empty registry: nothing outside of the schema is ever fetched.
        kind = _limit(_library.validators.validator_for(schema, default=_library.Draft202012Validator))
        try:
            kind.check_schema(schema)
            self._validator: Any = kind(schema, registry=Registry())
        except _library.SchemaError as error:
            raise UnusableSchema(f"it is no JSON Schema: {error.message[:_SHOWN]}") from None
        except (RecursionError, ValueError, TypeError) as error:
            raise UnusableSchema(f"it is no JSON Schema: {type(error).__name__}") from None

    def mismatches(self, value: Any) -> list[SchemaMismatch]:
        """Return the mismatches of a value.

        Raises:
            UnusableSchema: the schema has a dangling or endless reference.
        """
        _steps.left = MAX_STEPS
        try:
            return list(self._validator.iter_errors(value))
        except Unresolvable:
            raise UnusableSchema("it refers to something that is not in it") from None
        except RecursionError:
            raise UnusableSchema("it refers to itself without end") from None


class _Steps(threading.local):
    """How many references the check that this thread runs may still follow."""

    left = MAX_STEPS


_steps = _Steps()


@cache
def _limit(kind: Any) -> Any:
    """Return the dialect without the keywords that are not checked, and with a bound on its steps."""
    keywords: dict[str, Any] = {name: lambda *given: () for name in _NOT_CHECKED if name in kind.VALIDATORS}
    keywords |= {
        name: _count_steps(kind.VALIDATORS[name]) for name in ("$ref", "$dynamicRef") if name in kind.VALIDATORS
    }
    return _library.validators.extend(kind, keywords)


def _count_steps(follow: Callable[..., Any]) -> Callable[..., Iterator[SchemaMismatch]]:
    def counted(validator: Any, asked: Any, value: Any, schema: Any) -> Iterator[SchemaMismatch]:
        _steps.left -= 1
        if _steps.left < 0:
            raise RecursionError
        yield from follow(validator, asked, value, schema) or ()

    return counted


class SchemaArguments(RootModel[dict[str, Any]]):
    """The arguments of a call, as the model gave them: what the schema describes and, where it allows more, more."""

    shown: ClassVar[Mapping[str, Any]] = {}
    checked: ClassVar[Checked]

    @model_validator(mode="after")
    def _fit(self) -> "SchemaArguments":
        try:
            found = self.checked.mismatches(self.root)
        except UnusableSchema as error:
            raise ToolError(f"the arguments cannot be checked against the tool's schema: {error}") from None
        if found:
            details = [detail for mismatch in found for detail in _details(mismatch)]
            raise ValidationError.from_exception_data("arguments", details)
        return self

    def __iter__(self) -> Any:
        """Iterate over the arguments by name, for templates, hooks and people."""
        yield from self.root.items()

    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the schema as the model is shown it; messages take names and types from it."""
        return dict(cls.shown)


def arguments_by(schema: Mapping[str, Any], shown: Mapping[str, Any]) -> type[BaseModel]:
    """Return an argument model for a schema; `shown` is the form of it for the model.

    Raises:
        UnusableSchema: the schema is invalid.
    """
    return type("Arguments", (SchemaArguments,), {"shown": shown, "checked": Checked(schema), "__module__": __name__})


def _details(mismatch: SchemaMismatch, place: tuple[str | int, ...] = ()) -> Iterator[InitErrorDetails]:
    """Yield a mismatch in pydantic's terms, one for each field at fault."""
    place = (*place, *mismatch.relative_path)
    keyword, asked, got = str(mismatch.validator), mismatch.validator_value, mismatch.instance
    match keyword:
        case "anyOf" | "oneOf" if mismatch.context:
            for inner in _nearest_branch(mismatch.context):
                yield from _details(inner, place)
        case "required":
            for name in (name for name in asked if name not in got):
                yield InitErrorDetails(type="missing", loc=(*place, name), input=got)
        case "additionalProperties" | "unevaluatedProperties" if isinstance(got, dict) and asked is False:
            known = mismatch.schema.get("properties", {}) if isinstance(mismatch.schema, dict) else {}
            for name in (name for name in got if name not in known):
                yield InitErrorDetails(type="extra_forbidden", loc=(*place, name), input=got[name])
        case _:
            yield _detail(keyword, asked, got, place)


def _detail(keyword: str, asked: Any, got: Any, place: tuple[str | int, ...]) -> InitErrorDetails:
    """Return the mismatch of one value."""
    if keyword in ("enum", "const"):
        expected = " or ".join(map(repr, asked if keyword == "enum" else [asked]))[: 4 * _SHOWN]
        return InitErrorDetails(type="literal_error", loc=place, input=got, ctx={"expected": expected})
    if keyword in _BOUNDS:
        kind, name = _BOUNDS[keyword]
        return InitErrorDetails(type=kind, loc=place, input=got, ctx={name: asked})
    if keyword in _COUNTS:
        kind, name = _COUNTS[keyword]
        context = {"field_type": "List", name: asked, "actual_length": len(got)}
        return InitErrorDetails(type=kind, loc=place, input=got, ctx=context)
    return InitErrorDetails(type=PydanticCustomError("schema", _describe(keyword, asked)), loc=place, input=got)


def _nearest_branch(context: Sequence[SchemaMismatch]) -> list[SchemaMismatch]:
    """Return the mismatches of the alternatives: all if none fits by type, else those of the closest one."""
    branches: dict[Any, list[SchemaMismatch]] = {}
    for mismatch in context:
        branches.setdefault(mismatch.schema_path[0], []).append(mismatch)
    of_the_type = [found for found in branches.values() if all(each.validator != "type" or each.path for each in found)]
    return min(of_the_type, key=len) if of_the_type else list(context)


def _describe(keyword: str, asked: Any) -> str:
    """Return the expected value in words."""
    match keyword:
        case "type":
            return " or ".join(asked) if isinstance(asked, list) else str(asked)
        case "multipleOf":
            return f"a multiple of {asked}"
        case "uniqueItems":
            return "items that differ from each other"
    return f"what the schema says with {keyword} {json.dumps(asked, ensure_ascii=False)[:_SHOWN]}"


def in_words(found: Sequence[SchemaMismatch]) -> str:
    """Return the first mismatch of a result, in one line."""
    lines = [
        f'field "{".".join(map(str, each.absolute_path))[:_SHOWN]}": {each.message[: 2 * _SHOWN]}'
        if each.absolute_path
        else str(each.message)[: 2 * _SHOWN]
        for each in found[:_MAX_SAID]
    ]
    return "; ".join([*lines, "…"] if len(found) > _MAX_SAID else lines)
