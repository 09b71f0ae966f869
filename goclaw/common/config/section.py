"""The base of all mappings of the configuration.

A section is made ready when something of it is configured: what checks it costs more time and memory than reading the
whole file, and most configurations set a few sections only. So nothing is built when a section is defined, the keys of
`Sections` wait until they are given, and `default_factory=Sub` does not check its result.
"""

from functools import cache, partial
from typing import Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, TypeAdapter, ValidationInfo, field_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

MAX_NUMBER = 1_000_000_000
"""No number of the configuration means more than this; the kernel takes sizes below 2^63 bytes."""


class Section(BaseModel):
    """A mapping of the configuration; a key that it does not know is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        # To call a section checks its defaults, and builds what checks them.
        for field in cls.model_fields.values():
            made_by: Any = field.default_factory
            if isinstance(made_by, type) and issubclass(made_by, Section):
                field.default_factory = made_by.model_construct

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        # pydantic reads true as 1, which turns a slip into a limit.
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and not {int, float}.isdisjoint(get_args(kind) or (kind,)):
            raise ValueError("should be a number, not true or false")
        return value

    @field_validator("*")
    @classmethod
    def _no_absurd_number(cls, value: object) -> object:
        if isinstance(value, int | float) and value > MAX_NUMBER:
            raise ValueError(f"should be at most {MAX_NUMBER:,}")
        return value


class DeclarableSection(Section):
    """A mapping that installed packages declare, too."""

    replace: bool = Field(
        False,
        description="Whether to ignore what an installed package declares for it. Otherwise that fills in unset keys.",
    )


class _WhenGiven:
    """A validator that is built when its key is first given. Its errors are reported as usual."""

    def __init__(self, kind: Any) -> None:
        self._checks = cache(partial(TypeAdapter[Any], kind))

    def __get_pydantic_core_schema__(self, _: object, __: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(lambda value: self._checks().validate_python(value))

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._checks().core_schema)


def _has_sections(kind: object) -> bool:
    return (isinstance(kind, type) and issubclass(kind, Section)) or any(map(_has_sections, get_args(kind)))


class Sections(Section):
    """A mapping of sections: what checks one of them is built when it is first given."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        super().__pydantic_init_subclass__()
        for name, field in cls.model_fields.items():
            if name in cls.__annotations__ and _has_sections(field.annotation):
                whole = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
                field.metadata = [_WhenGiven(whole)]
