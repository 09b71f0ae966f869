"""A result is what was declared, and the model reads it in the tool's own words."""

from typing import Any

import pytest
from pydantic import BaseModel

from goclaw.tools.toolkit.results import BoundedResult, Result, ResultType, WrongResult


class File(BaseModel):
    path: str


class Found(BoundedResult):
    files: tuple[File, ...] = ()

    def text(self) -> str:
        return f"{self.returned} files {self.refinement_hint}".rstrip()


class Plain(Result):
    number: int
    note: str | None = None


def test_text_of_every_kind_of_result() -> None:
    assert ResultType(str).text("as it is") == "as it is"
    assert ResultType(Plain).text(Plain(number=1)) == '{"number":1}'
    assert ResultType(Found).text(Found(returned=2)) == "2 files"
    assert ResultType(list[File]).text([File(path="a")]) == '[{"path":"a"}]'
    assert ResultType(int).text(3) == "3"


def test_the_schema_is_always_an_object() -> None:
    assert ResultType(int).schema == {
        "type": "object",
        "properties": {"value": {"type": "integer"}},
        "required": ["value"],
    }
    listed = ResultType(list[File]).schema
    assert listed["properties"]["value"]["items"] == {"$ref": "#/$defs/File"} and "File" in listed["$defs"]
    assert set(ResultType(Found).schema["properties"]) == {"returned", "total", "truncated", "refinement_hint", "files"}


def test_templates_get_the_fields() -> None:
    assert ResultType(Plain).fields(Plain(number=1)) == {"number": 1, "note": None}
    assert ResultType(Plain).names == {"number", "note"}
    assert ResultType(int).fields(1) == {"value": 1} and ResultType(int).names == {"value"}


@pytest.mark.parametrize(
    ("declared", "value", "said"),
    [
        (str, 5, "expected a string, got int"),
        (str, None, "expected a string, got NoneType"),
        (Plain, File(path="a"), "result: Input should be"),
        (list[int], [1, "2"], "1: Input should be a valid integer"),
        (Found, Found(returned=1, truncated=True), "truncated without a refinement_hint"),
        (Found, Found(returned=3, total=2), "returned 3 of a total of 2"),
    ],
)
def test_what_was_not_declared_is_refused(declared: Any, value: Any, said: str) -> None:
    with pytest.raises(WrongResult, match=said):
        ResultType(declared).checked(value)


def test_what_was_declared_passes() -> None:
    found = Found(returned=1, total=2, truncated=True, refinement_hint="ask for more")
    assert ResultType(Found).checked(found) is found
    assert ResultType(list[int]).checked([1]) == [1]


def test_a_type_that_nothing_can_check_is_refused() -> None:
    with pytest.raises(ValueError, match="result: "):
        ResultType(ResultType)
