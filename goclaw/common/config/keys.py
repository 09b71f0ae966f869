"""Walking the schema: existing keys, their kinds, and the likely meaning of unknown keys."""

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from goclaw.common.core.records import record

ANY_NAME = "*"
"""Stands in a path for a name that the operator chooses (`providers.*.api_key`)."""

ITEM = "[]"
"""Stands in a path for an entry of a list (`hooks[].on`)."""

Loc = tuple[str | int, ...]
"""The place of a value: keys and list indexes from the top."""


@record
class Key:
    """One key of a model: a section or a value."""

    path: tuple[str, ...]
    kind: object
    """Its type, without `None`."""
    field: FieldInfo

    @property
    def dotted(self) -> str:
        return ".".join(self.path).replace(f".{ITEM}", ITEM)

    @property
    def is_section(self) -> bool:
        return any(is_model(kind) for kind in (self.kind, entry_kind(self.kind), item_kind(self.kind)))


def keys(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[Key]:
    """Yield every key of `model` as it is defined, inherited ones last, each section before its own keys."""
    for name in names_in(model):
        field = model.model_fields[name]
        key = Key((*prefix, name), without_none(field.annotation), field)
        yield key
        below = ((key.kind, ()), (entry_kind(key.kind), (ANY_NAME,)), (item_kind(key.kind), (ITEM,)))
        for kind, part in below:
            if is_model(kind):
                yield from keys(kind, (*key.path, *part))


def child_kind(kind: object, name: str | int) -> object:
    """Return the type of `name` inside a mapping of type `kind`, or of an entry of a list; None for an unknown one."""
    if isinstance(name, int):
        return item_kind(form_of(kind, tuple))
    if is_model(kind):
        field = kind.model_fields.get(name)
        return without_none(field.annotation) if field else None
    return Any if kind is Any else entry_kind(form_of(kind, dict))


def kind_at(model: object, loc: Loc) -> object:
    """Return the type of the value at `loc` inside `model`; None when there is no such key."""
    for name in loc:
        model = child_kind(model, name)
    return model


def names_in(kind: object) -> list[str]:
    """Return the keys that a mapping of type `kind` knows, inherited ones last; empty where any name will do."""
    return sorted(kind.model_fields, key=lambda name: name not in kind.__annotations__) if is_model(kind) else []


def is_model(kind: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def is_mapping(kind: object) -> bool:
    return is_model(kind) or get_origin(kind) is dict


def is_list(kind: object) -> bool:
    return any(get_origin(member) is tuple for member in (kind, *get_args(kind), form_of(kind, tuple)))


def form_of(kind: object, container: type) -> object:
    """Return the form of a union `kind` that is such a container; else `kind`."""
    forms = map(without_none, get_args(kind)) if get_origin(kind) in (Union, UnionType) else ()
    return next((form for form in forms if get_origin(form) is container), kind)


def is_secret(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, SecretStr)


def entry_kind(kind: object) -> object:
    """Return the type of the values of a `dict[str, X]`; None for anything else."""
    return without_none(get_args(kind)[1]) if get_origin(kind) is dict else None


def item_kind(kind: object) -> object:
    """Return the type of the entries of a `tuple[X, ...]`; None for anything else."""
    return without_none(get_args(kind)[0]) if get_origin(kind) is tuple else None


def without_none(kind: object) -> object:
    """Return `X` for `X | None` and for `Annotated[X, …]`; other types as they are."""
    if hasattr(kind, "__metadata__"):
        return without_none(get_args(kind)[0])
    arguments = get_args(kind)
    if NoneType not in arguments:
        return kind
    rest = [argument for argument in arguments if argument is not NoneType]
    return without_none(rest[0]) if len(rest) == 1 else kind


def closest(name: str, known: Sequence[str], alike: float = 0.6) -> str | None:
    """Return the one of `known` that was probably meant by `name`, whatever its case, hyphens and underscores.

    Args:
        name, known: the name, and those that there are.
        alike: how much the two have in common at least, as `difflib` measures it, from 0 to 1.
    """
    plain = {bare(candidate): candidate for candidate in reversed(known)}
    found = get_close_matches(bare(name), plain, n=1, cutoff=alike)
    return plain[found[0]] if found else None


def what_helps(name: str, known: Collection[str]) -> str:
    """Return the end of a message about an unknown name: the likely intended name, or all of `known`."""
    meant = closest(name, sorted(known))
    return f"; did you mean `{meant}`?" if meant else f"; known are: {', '.join(sorted(known)) or 'none'}"


def bare(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
