"""Wrong arguments are one line that names every field, what was expected and what came."""

import dataclasses
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from goclaw.common.specs import SideEffect
from goclaw.errors import InvalidInput
from goclaw.llm.base import INVALID_JSON
from goclaw.tools.toolkit.arguments import json_type, validate
from goclaw.tools.toolkit.base import ToolContext, tool
from tests.lanes import repeats


@tool(side_effect=SideEffect.NONE)
async def sample(
    ctx: ToolContext,
    path: str,
    mode: Literal["fast", "slow"],
    count: Annotated[int, Field(ge=1, le=9)] = 1,
    share: float = 0.5,
    deep: bool = False,
    names: Annotated[list[str], Field(max_length=2)] = [],  # noqa: B006  # pydantic copies defaults
    note: str | None = None,
) -> str:
    """Show every kind of argument."""
    return path


@tool(side_effect=SideEffect.NONE)
async def plain(ctx: ToolContext) -> str:
    """Take nothing."""
    return ""


def complaint(given: Any, of: Any = sample) -> str:
    with pytest.raises(InvalidInput) as caught:
        validate(of.arguments, given)
    return str(caught.value)


GOOD = {"path": "a.txt", "mode": "fast"}


def test_good_arguments_pass_with_their_defaults() -> None:
    assert dict(validate(sample.arguments, GOOD)) == {
        "path": "a.txt",
        "mode": "fast",
        "count": 1,
        "share": 0.5,
        "deep": False,
        "names": [],
        "note": None,
    }
    assert dict(validate(sample.arguments, GOOD | {"share": 1, "note": None}))["share"] == 1


class Part(BaseModel):
    """An object in an argument."""

    size: int | str = 0


@tool(side_effect=SideEffect.NONE)
async def numbers(
    ctx: ToolContext,
    count: Annotated[int, Field(le=9)] = 1,
    most: int | None = None,
    sizes: list[int] = [],  # noqa: B006  # pydantic copies defaults
    parts: list[Part] = [],  # noqa: B006  # pydantic copies defaults
    share: float = 0.5,
    free: Any = None,
) -> str:
    """Count."""
    return ""


def test_a_number_without_a_fraction_is_an_integer_however_it_is_written() -> None:
    given = {"count": 2.0, "most": -3.0, "sizes": [1, 2.0], "parts": [{"size": 4.0}], "share": 2.0, "free": {"a": 1.0}}
    found = validate(numbers.arguments, given)

    assert found.model_dump_json(include={"count", "most", "sizes", "parts"}) == (
        '{"count":2,"most":-3,"sizes":[1,2],"parts":[{"size":4}]}'
    )
    assert found.model_dump()["free"] == {"a": 1.0} and given["count"] == 2.0
    for wrong in (2.5, 1e30):
        assert complaint({"count": wrong}, numbers) == 'field "count": expected integer, got number'
    assert complaint({"count": 10.0}, numbers) == 'field "count": expected at most 9, got 10'


@pytest.mark.promise("P-tool-errors")
@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"path": 5}, 'field "path": expected string, got number'),
        ({"path": None}, 'field "path": expected string, got null'),
        ({"path": ["a"]}, 'field "path": expected string, got array'),
        ({"mode": "quick"}, "field \"mode\": expected 'fast' or 'slow', got 'quick'"),
        ({"mode": 3}, "field \"mode\": expected 'fast' or 'slow', got 3"),
        ({"count": "5"}, 'field "count": expected integer, got string'),
        ({"count": 1.5}, 'field "count": expected integer, got number'),
        ({"count": True}, 'field "count": expected integer, got boolean'),
        ({"count": 0}, 'field "count": expected at least 1, got 0'),
        ({"count": 10}, 'field "count": expected at most 9, got 10'),
        ({"share": "half"}, 'field "share": expected number, got string'),
        ({"deep": "yes"}, 'field "deep": expected boolean, got string'),
        ({"names": "a"}, 'field "names": expected array, got string'),
        ({"names": ["a", 1]}, 'field "names.1": expected string, got number'),
        ({"names": ["a", "b", "c"]}, "field \"names\": expected at most 2 items, got ['a', 'b', 'c']"),
        ({"note": {}}, 'field "note": expected string, got object'),
        ({"Path": "a"}, 'field "Path": unknown field, did you mean "path"?'),
    ],
)
def test_one_wrong_field_is_one_line(change: dict[str, Any], line: str) -> None:
    assert complaint(GOOD | change) == line


@pytest.mark.promise("P-tool-errors")
def test_all_fields_at_once() -> None:
    assert complaint({"mode": 1, "count": "x", "pth": "a"}) == (
        'field "path": expected string, got nothing; '
        "field \"mode\": expected 'fast' or 'slow', got 1; "
        'field "count": expected integer, got string; '
        'field "pth": unknown field, did you mean "path"?'
    )


def test_a_missing_choice_names_the_choices() -> None:
    assert complaint({"path": "a"}) == "field \"mode\": expected 'fast' or 'slow', got nothing"


def test_an_unknown_field_names_the_known_ones() -> None:
    assert complaint({"zzz": 1}, plain) == 'field "zzz": unknown field, this tool takes none'
    known = '"path", "mode", "count", "share", "deep", "names", "note"'
    assert complaint(GOOD | {"zzz": 1}) == f'field "zzz": unknown field, known are {known}'


@pytest.mark.parametrize(("given", "kind"), [(None, "null"), ("x", "string"), (["x"], "array"), (4, "number")])
def test_input_that_is_no_object_is_said_to_be_none(given: Any, kind: str) -> None:
    assert complaint(given) == f"input: expected object, got {kind}"


def test_input_that_is_no_json_is_said_to_be_none() -> None:
    assert complaint({INVALID_JSON: '{"path": '}) == "input: expected a JSON object, got '{\"path\": '"


def test_a_long_wrong_value_is_not_repeated_in_full() -> None:
    assert len(complaint(GOOD | {"mode": "x" * 10_000})) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.deep
@pytest.mark.promise("P-tool-errors")
@settings(max_examples=repeats(50, 500))
@given(st.dictionaries(st.sampled_from(["path", "mode", "count", "names", "note", "other"]), JSON))
def test_whatever_comes_is_valid_or_one_line(given: dict[str, Any]) -> None:
    try:
        validate(sample.arguments, given)
    except InvalidInput as error:
        said = str(error)
    else:
        said = 'field "": nothing to say'
    assert len(said.splitlines()) == 1 and said.startswith('field "')


@given(JSON)
def test_every_json_value_has_a_type(value: Any) -> None:
    assert json_type(value) in {"null", "boolean", "number", "string", "array", "object"}


def test_the_helper_knows_what_it_does_not_know() -> None:
    assert json_type(dataclasses) == "module"
