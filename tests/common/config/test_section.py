"""Sections are made ready when something of them is configured, and say the same as if they had been before."""

from typing import Any, ClassVar

import pytest
from pydantic import Field, GetCoreSchemaHandler, SecretStr, ValidationError
from pydantic_core import CoreSchema

from goclaw.common.config.section import Section, Sections


class Inner(Section):
    """Counts how often what checks it is built."""

    built: ClassVar[list[str]] = []

    number: int = Field(1, ge=0)
    secret: SecretStr | None = None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        cls.built.append(source.__name__)
        return handler(source)


class Outer(Sections):
    """Has the other in every way that the configuration has."""

    one: Inner = Field(default_factory=Inner)
    named: dict[str, Inner] = Field(default_factory=dict)
    listed: tuple[Inner, ...] = ()


@pytest.fixture(autouse=True)
def nothing_built() -> None:
    Inner.built.clear()


def test_nothing_is_built_for_what_is_not_configured() -> None:
    outer = Outer.model_validate({})

    assert outer.one.number == 1 and outer.one.secret is None
    assert Inner.built == []


def test_defaults_are_what_an_empty_section_has() -> None:
    assert Outer().one == Outer.model_validate({"one": {}}).one == Inner()
    assert Outer() == Outer.model_validate({"one": {}, "named": {}, "listed": []})


def test_what_checks_a_key_is_built_once() -> None:
    Outer.model_validate({"one": {"number": 2}})
    Inner.built.clear()

    assert Outer.model_validate({"one": {"number": 3}}).one.number == 3
    assert Inner.built == []


@pytest.mark.parametrize(
    ("given", "place", "kind"),
    [
        ({"one": {"number": -1}}, ("one", "number"), "greater_than_equal"),
        ({"one": {"number": True}}, ("one", "number"), "value_error"),
        ({"one": {"numbr": 1}}, ("one", "numbr"), "extra_forbidden"),
        ({"one": "text"}, ("one",), "model_type"),
        ({"named": {"a": {"number": "many"}}}, ("named", "a", "number"), "int_parsing"),
        ({"listed": [{}, {"number": 10**10}]}, ("listed", 1, "number"), "value_error"),
    ],
)
def test_a_problem_keeps_its_place_and_its_kind(given: Any, place: tuple[object, ...], kind: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(given)
    assert [(each["loc"], each["type"]) for each in caught.value.errors()] == [(place, kind)]


def test_all_problems_are_found_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"one": {"number": -1, "x": 1}, "named": {"a": {"number": -1}}, "what": 1})
    assert [each["loc"] for each in caught.value.errors()] == [
        ("one", "number"),
        ("one", "x"),
        ("named", "a", "number"),
        ("what",),
    ]


def test_the_schema_and_the_dump_have_what_is_inside() -> None:
    shown = Outer.model_json_schema()["properties"]

    assert shown["one"]["properties"]["number"] == {"default": 1, "minimum": 0, "title": "Number", "type": "integer"}
    assert shown["named"]["type"] == "object" and shown["listed"]["type"] == "array"
    outer = Outer.model_validate({"named": {"a": {"secret": "word"}}})
    assert outer.model_dump(mode="json")["named"]["a"] == {"number": 1, "secret": "**********"}
