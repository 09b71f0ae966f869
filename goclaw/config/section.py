"""What every mapping of the configuration has in common."""

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

MOST = 1_000_000_000
"""No number of the configuration means more than this; the kernel takes sizes below 2^63 bytes."""


class Section(BaseModel):
    """A mapping of the configuration; a key that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic reads true as 1, which turns a slip into a limit.
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and not {int, float}.isdisjoint(get_args(kind) or (kind,)):
            raise ValueError("should be a number, not true or false")
        return value

    @field_validator("*")
    @classmethod
    def _no_absurd_number(cls, value: Any) -> Any:
        if isinstance(value, int | float) and value > MOST:
            raise ValueError(f"should be at most {MOST:,}")
        return value
