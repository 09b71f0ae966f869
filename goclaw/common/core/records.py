"""Plain data types: `@record`, a frozen dataclass that costs little to define, and `BoundedDict`.

`@record` makes what `@dataclass(frozen=True, slots=True)` makes, in a fourth of the time. A start makes some four
hundred of these classes. For each of them the standard library compiles six functions, which was a ninth of the start
and two megabytes; here a class has an `__init__` of its own and shares the rest. It counts as a dataclass: `fields`,
`replace`, `asdict`, pydantic, `copy` and `pickle` know it as one. It is not for a class that inherits from a dataclass,
and knows no `kw_only`: both are refused, and take `dataclass`.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")

_UNSET: Any = object()
"""Stands for what a field's factory makes."""
K = TypeVar("K")
V = TypeVar("V")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Return a frozen dataclass with slots. The class's own definitions (`__repr__`, `__eq__` …) stay.

    Raises:
        TypeError: the class inherits from a frozen dataclass, or a field is `kw_only`.
    """
    made: Any = dataclass(slots=True, init=False, repr=False, eq=False)(cls)
    all_of_it = fields(made)
    values = _values([each.name for each in all_of_it if each.compare])

    def same(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    shared = {
        "__init__": _init(made, all_of_it),
        "__repr__": _repr,
        "__eq__": same,
        "__hash__": lambda self: hash(values(self)),
        "__setstate__": _restore,
    }
    for name, method in shared.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
    made.__dataclass_params__.frozen = True
    return made  # type: ignore[no-any-return]  # it is the class, made anew with slots


def _init(made: Any, all_of_it: Sequence[Field[Any]]) -> Callable[..., None]:
    """Return the one function that has to be compiled for each class: its parameters are the fields."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_unset": _UNSET}
    head, body = ["self"], []
    for each in all_of_it:
        name, value = each.name, each.name
        if each.kw_only:
            raise TypeError(f"{made.__qualname__}.{name}: a record knows no kw_only")
        if each.default_factory is not MISSING:
            scope[f"_make_{name}"] = each.default_factory
            parameter = f"{name}=_unset"
            value = f"_make_{name}() if {name} is _unset else {name}" if each.init else f"_make_{name}()"
        elif each.default is not MISSING:
            scope[f"_default_{name}"] = each.default
            parameter = f"{name}=_default_{name}"
            value = name if each.init else f"_default_{name}"
        elif each.init:
            parameter = name
        else:
            continue  # `__post_init__` sets it
        head += [parameter] if each.init else []
        body.append(f"_set(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    lines = [f"def __init__({', '.join(head)}):", *(body or ["pass"])]
    exec("\n ".join(lines), scope)  # noqa: S102 - as `dataclasses` does; of names that stand in our own classes
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in all_of_it if each.init}
    return init


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads these attributes."""
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    # Of a single name it gives the bare value.
    return get if len(names) > 1 else lambda instance: (get(instance),)


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _restore(self: object, state: tuple[None, Mapping[str, Any]]) -> None:
    """Restore the state for `copy` and `pickle`, which otherwise set one attribute after the other."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


class BoundedDict(OrderedDict[K, V]):
    """Holds at most `most` entries: one more drops the oldest. An entry that is set again counts as new."""

    def __init__(self, most: int, entries: Mapping[K, V] | None = None) -> None:
        self._most = most
        super().__init__(entries or {})

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)  # `move_to_end` would be unknown to orjson, which sees the plain dict's order
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)
