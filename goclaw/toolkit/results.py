"""What a tool gives back: a typed result, and how the model reads it.

A tool returns text, a plain value, or a `Result`. What people and programs get of it is its fields; what the model
reads is `text()`.
"""

from typing import Annotated, Any, NewType

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

ArtifactKind = NewType("ArtifactKind", str)
BOUNDS = ("returned", "total", "truncated", "refinement")


class Result(BaseModel):
    """A result with fields."""

    model_config = ConfigDict(frozen=True, strict=True)

    def text(self) -> str:
        """What the model reads: unless a tool says it in words of its own, JSON."""
        return self.model_dump_json(exclude_none=True)


class BoundedResult(Result):
    """A part of something that may be larger (Goa-AI, BoundedResult). `refinement` tells how to come by the rest."""

    returned: Annotated[int, Field(ge=0, description="How many there are here.")]
    total: Annotated[int | None, Field(ge=0, description="How many there are in all, where that is known.")] = None
    truncated: Annotated[bool, Field(description="Whether something was left out.")] = False
    refinement: Annotated[str, Field(description="How to ask for less, or for what was left out.")] = ""

    @model_validator(mode="after")
    def _says_how_to_go_on(self) -> "BoundedResult":
        if self.truncated and not self.refinement:
            raise ValueError("a result that leaves something out says how to come by it (refinement)")
        return self


class ResultType:
    """The declared result of a tool."""

    def __init__(self, declared: Any) -> None:
        self.declared = declared
        self._adapter: TypeAdapter[Any] | None = None if declared is str else TypeAdapter(declared)

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON Schema; what is no object is the field `value` of one."""
        schema = {"type": "string"} if self._adapter is None else self._adapter.json_schema(mode="serialization")
        if schema.get("type") == "object":
            return schema
        return {"type": "object", "properties": {"value": schema}, "required": ["value"]}

    @property
    def names(self) -> frozenset[str]:
        """What a template over the result may use."""
        return frozenset(self._model.model_fields) if self._model else frozenset({"value"})

    @property
    def is_bounded(self) -> bool:
        """Whether it says how much of the whole it is."""
        return self._model is not None and set(BOUNDS) <= set(self._model.model_fields)

    def checked(self, value: Any) -> Any:
        """`value`, if it is what was declared.

        Raises:
            ValueError: it is not.
        """
        if self._adapter is None:
            if not isinstance(value, str):
                raise ValueError(f"expected a string, got {type(value).__name__}")
            return value
        return self._adapter.validate_python(value)

    def text(self, value: Any) -> str:
        """What the model reads of it."""
        if isinstance(value, str):
            return value
        if isinstance(value, Result):
            return value.text()
        return TypeAdapter(Any).dump_json(value).decode()

    def fields(self, value: Any) -> dict[str, Any]:
        """What templates and programs get of it."""
        return dict(value) if isinstance(value, BaseModel) else {"value": value}

    @property
    def _model(self) -> type[BaseModel] | None:
        declared = self.declared
        return declared if isinstance(declared, type) and issubclass(declared, BaseModel) else None
