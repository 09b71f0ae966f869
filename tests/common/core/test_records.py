"""`@record` makes what `@dataclass(frozen=True, slots=True)` makes."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, astuple, dataclass, field, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar

import pytest
from pydantic import TypeAdapter

from goclaw.common.core.records import record

T = TypeVar("T")


@record
class Point:
    """Two required fields and every kind of optional one."""

    x: int
    y: int
    names: list[str] = field(default_factory=list)
    colour: str = "red"
    secret: str = field(default="hidden", repr=False, compare=False)
    sum: int = field(init=False, compare=False)
    seen: list[int] = field(init=False, default_factory=list, compare=False)
    fixed: int = field(init=False, default=3)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sum", self.x + self.y)


@record
class One:
    """A single field."""

    value: object


@record
class Empty:
    """No field."""


@record
class Box(Generic[T]):
    """A generic class."""

    inside: T


@record
class Loud:
    """Says what it is itself, and is equal to everything."""

    value: int

    def __repr__(self) -> str:
        return "LOUD"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


def test_what_is_given_and_what_is_not_become_the_fields() -> None:
    point = Point(1, y=2, names=["a"])
    other = Point(1, 2)

    assert (point.x, point.y, point.names, point.colour, point.sum, point.fixed) == (1, 2, ["a"], "red", 3, 3)
    assert other.names == [] and other.names is not Point(1, 2).names and other.seen is not Point(1, 2).seen


def test_what_is_missing_or_unknown_is_refused_by_name() -> None:
    point: Any = Point
    with pytest.raises(TypeError, match=r"Point\.__init__\(\) missing 1 required positional argument: 'y'"):
        point(1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        point(1, 2, z=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sum'"):
        point(1, 2, sum=3)


def test_nothing_can_be_set_deleted_or_added() -> None:
    point: Any = Point(1, 2)

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 3
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        point.new = 3
    assert not hasattr(point, "__dict__")


def test_equality_and_hash_are_of_the_class_and_the_fields_that_count() -> None:
    assert Point(1, 2, secret="a") == Point(1, 2, secret="b") != Point(1, 3)
    assert One(1) == One(1) and One(1).__eq__(Box(1)) is NotImplemented and hash(One("a")) == hash(One("a"))
    assert Empty() == Empty() and len({Empty(), Empty(), One(1), One(1), One(2)}) == 3
    nothing = float("nan")
    assert One(nothing) == One(nothing)  # as in a tuple: what is the same object is equal
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1, 2))


def test_it_reads_as_a_dataclass_does() -> None:
    assert repr(Point(1, 2)) == "Point(x=1, y=2, names=[], colour='red', sum=3, seen=[], fixed=3)"
    assert repr(Empty()) == "Empty()"
    inner: list[object] = []
    around = One(inner)
    inner.append(around)
    assert repr(around) == "One(value=[...])"


def test_what_a_class_defines_itself_stays() -> None:
    assert repr(Loud(1)) == "LOUD" and Loud(1) == 5 and hash(Loud(1)) == 7


def test_the_tools_for_dataclasses_know_it() -> None:
    box = Box(One(1))

    assert is_dataclass(box) and [each.name for each in fields(box)] == ["inside"]
    assert asdict(box) == {"inside": {"value": 1}} and astuple(box) == ((1,),)
    assert replace(Point(1, 2), y=5).sum == 6
    match box:
        case Box(One(value)):
            assert value == 1
    assert TypeAdapter(Box[int]).validate_python({"inside": "5"}).inside == 5
    assert TypeAdapter(Point).dump_python(Point(1, 2))["y"] == 2


def test_copies_and_pickles_are_equal() -> None:
    point = Point(1, 2, names=["a"])

    for other in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):  # noqa: S301 - ours
        assert other == point and other is not point and other.sum == 3
    assert copy.copy(Empty()) == Empty()


def test_a_frozen_dataclass_may_inherit_from_it() -> None:
    @dataclass(frozen=True, slots=True)
    class Deep(One):
        depth: int = 0

    assert Deep(1, 2) == Deep(1, depth=2) and Deep(1) != One(1)


def test_inheriting_from_a_dataclass_and_keywords_are_refused() -> None:
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @record
        class Deep(One):
            depth: int = 0

    with pytest.raises(TypeError, match="knows no kw_only"):

        @record
        class Named:
            name: str = field(kw_only=True)
