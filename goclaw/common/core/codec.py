"""Typed values as JSON and back, for the journal, the outbox and the sockets."""

from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


class Codec(Generic[T]):
    """Turns values of one type into JSON and back, checked by pydantic.

    Made at import, built when first used: building all of them costs a start some twenty milliseconds.
    """

    def __init__(self, kind: Any) -> None:
        """`kind` is the type T, or an annotated union of types."""
        self._kind = kind

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(self._kind)

    def to_json(self, value: T) -> str:
        """Return the value as JSON text."""
        return self._adapter.dump_json(value).decode()

    def from_json(self, text: str | bytes) -> T:
        """Return the value in a JSON text.

        Raises:
            ValidationError: it is not one of this type.
        """
        return self._adapter.validate_json(text)

    def to_data(self, value: T) -> Any:
        """Return the value as JSON data: dicts, lists, texts and numbers."""
        return self._adapter.dump_python(value, mode="json")

    def from_data(self, data: Any) -> T:
        """Return the value in JSON data; raises as `from_json` does."""
        return self._adapter.validate_python(data)
