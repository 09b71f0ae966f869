"""Typed results of tools, and their text for the model.

A tool returns text, a plain value, or a `Result`. People and programs get its fields; the model reads `text()`.
"""

from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, Field, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from goclaw.common.core.messages import Image
from goclaw.common.core.records import record

BOUNDS = ("returned", "total", "truncated", "refinement_hint")
"""The fields of a bounded result."""
_ANY: TypeAdapter[Any] = TypeAdapter(Any)


class WrongResult(Exception):
    """A tool returned something other than it declares, after its effect.

    The message names the field, and never its content; `value` is the tool's return value.
    """

    def __init__(self, message: str, value: object = None) -> None:
        super().__init__(message)
        self.value = value


class Result(BaseModel, frozen=True, strict=True):
    """A result with fields."""

    def text(self) -> str:
        """Return the text for the model: JSON, unless a tool overrides it."""
        return self.model_dump_json(exclude_none=True)

    def pictures(self) -> tuple[Image, ...]:
        """Return the pictures for a model that sees, in addition to the text."""
        return ()


class BoundedResult(Result):
    """A part of something that may be larger (Goa-AI, BoundedResult).

    One that leaves something out says in `refinement_hint` how to come by the rest; the dispatcher takes no other.
    """

    returned: Annotated[int, Field(ge=0, description="How many there are here.")]
    total: Annotated[int | None, Field(ge=0, description="How many there are in all, where that is known.")] = None
    truncated: Annotated[bool, Field(description="Whether something was left out.")] = False
    refinement_hint: Annotated[str, Field(description="How to ask for less, or for what was left out.")] = ""


@record
class FileForm:
    """An artifact as the file that people get."""

    name: str
    mime: str
    text: str


def file_of(kind: str, data: BaseModel) -> FileForm:
    """Return the file of an artifact: from its method `file` if it has one, else as JSON."""
    own = getattr(data, "file", None)
    if callable(own) and isinstance(form := own(), FileForm):
        return form
    return FileForm(f"{kind}.json", "application/json", data.model_dump_json(indent=2))


class ResultType:
    """The declared result of a tool."""

    def __init__(self, declared: Any) -> None:
        self.declared = declared
        try:
            self._adapter: TypeAdapter[Any] | None = None if declared is str else TypeAdapter(declared)
        except PydanticSchemaGenerationError as error:
            raise ValueError(f"result: {str(error).partition(chr(10))[0]}") from error

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the result; anything but an object is the field `value` of one."""
        schema = {"type": "string"} if self._adapter is None else self._adapter.json_schema(mode="serialization")
        if schema.get("type") == "object":
            return schema
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        return {"type": "object", "properties": {"value": schema}, "required": ["value"], **definitions}

    @property
    def names(self) -> frozenset[str]:
        """The names available to a template over the result."""
        return frozenset(self._model.model_fields) if self._model else frozenset({"value"})

    @property
    def is_bounded(self) -> bool:
        """Whether it says how much of the whole it is."""
        return self._model is not None and set(BOUNDS) <= set(self._model.model_fields)

    def checked(self, value: Any) -> Any:
        """Return `value`, if it fits the declaration.

        Raises:
            WrongResult: it is not.
        """
        if self._adapter is None:
            if not isinstance(value, str):
                raise WrongResult(f"expected a string, got {type(value).__name__}", value)
            return value
        try:
            found = self._adapter.validate_python(value, strict=True)
        except ValidationError as error:
            raise WrongResult(in_words(error), value) from None
        if self.is_bounded:
            if found.truncated and not found.refinement_hint:
                raise WrongResult("truncated without a refinement_hint: it has to say how to get the rest", found)
            if found.total is not None and found.returned > found.total:
                raise WrongResult(f"returned {found.returned} of a total of {found.total}", found)
        return found

    def text(self, value: Any) -> str:
        """Return the value as text for the model: of an object that has no JSON form, its type."""
        match value:
            case str():
                return value
            case None:
                return "done"
            case Result():
                return value.text()
        return _ANY.dump_json(value, fallback=lambda part: f"<{type(part).__name__}>").decode()

    def fields(self, value: Any) -> dict[str, Any]:
        """Return the value's fields, for templates and programs."""
        return dict(value) if self._model else {"value": value}

    def data(self, value: Any) -> dict[str, Any]:
        """Return the value as plain JSON data, as `schema` describes it."""
        data = value if self._adapter is None else self._adapter.dump_python(value, mode="json")
        return data if self.schema_is_object else {"value": data}

    @cached_property
    def schema_is_object(self) -> bool:
        """Whether the declared result is an object by itself, and no field `value` of one."""
        return self._adapter is not None and self._adapter.json_schema(mode="serialization").get("type") == "object"

    @property
    def _model(self) -> type[BaseModel] | None:
        declared = self.declared
        return declared if isinstance(declared, type) and issubclass(declared, BaseModel) else None


def in_words(error: ValidationError) -> str:
    """Return the errors of a result, each with the name of the field and without its value."""
    details = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'result'}: {each['msg']}" for each in details)
