"""What a function says of its arguments is what the model is shown, and what is asked of it."""

import re
from datetime import date
from enum import Enum
from typing import Annotated, Any, NewType

import pytest
from pydantic import AfterValidator, BaseModel, Field

from goclaw.common.specs import Confirmation, Example, SideEffect
from goclaw.errors import InvalidInput, ToolError
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool, ToolContext, ToolFunction, tool
from goclaw.tools.toolkit.json_schema import Injected, Takes
from goclaw.tools.toolkit.results import Result


def _device(value: str) -> str:
    if not value.startswith("dev-"):
        raise ValueError('expected an id like "dev-7"')
    return value.lower()


DeviceId = NewType("DeviceId", str)
AnyDevice = Annotated[DeviceId, AfterValidator(_device), Field(description="Which device")]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Session(BaseModel):
    """What the model must not learn of."""

    token: str


class Wish(BaseModel):
    """Arguments that several tools share."""

    device: AnyDevice
    colour: Colour = Colour.RED
    session: Annotated[str, Injected()] = ""


def complaint(of: Tool, given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        validate(of.arguments, given, of.spec.injected)
    return str(caught.value)


@tool(side_effect=SideEffect.READ_ONLY)
async def look(
    ctx: ToolContext,
    device: AnyDevice,
    colour: Colour = Colour.RED,
    since: date | None = None,
    pair: tuple[int, int] = (0, 0),
    key: int | str = 0,
) -> str:
    """Look at a device."""
    return device


def test_ids_are_parsed_at_the_border() -> None:
    assert dict(validate(look.arguments, {"device": "dev-A"}))["device"] == "dev-a"
    assert complaint(look, {"device": "7"}) == 'field "device": expected an id like "dev-7"'
    assert complaint(look, {"device": 7}) == 'field "device": expected string, got number'
    assert look.spec.schema["properties"]["device"] == {"type": "string", "description": "Which device"}


def test_what_json_has_no_type_for_is_read_from_what_it_has() -> None:
    given = {"device": "dev-1", "colour": "blue", "since": "2026-02-03", "pair": [1, 2]}
    arguments = dict(validate(look.arguments, given))
    assert (arguments["colour"], arguments["since"], arguments["pair"]) == (Colour.BLUE, date(2026, 2, 3), (1, 2))
    assert look.spec.schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert complaint(look, {"device": "dev-1", "colour": "green", "pair": ["1", 2]}) == (
        "field \"colour\": expected 'red' or 'blue', got 'green'; field \"pair.0\": expected integer, got string"
    )


def test_a_field_of_several_types_is_one_line() -> None:
    assert complaint(look, {"device": "dev-1", "key": None}) == 'field "key": expected integer or string, got null'


def test_a_shared_model_is_taken_whole() -> None:
    @tool(side_effect=SideEffect.READ_ONLY)
    async def paint(ctx: ToolContext, wish: Wish, /) -> str:
        """Paint a device."""
        return wish.device

    assert paint.takes is Takes.MODEL and paint.spec.injected == {"session"}
    assert set(paint.spec.schema["properties"]) == {"device", "colour"}
    assert paint.spec.schema["additionalProperties"] is False
    assert complaint(paint, {"device": "dev-1", "color": "red"}) == (
        'field "color": unknown field, did you mean "colour"?'
    )


async def test_a_plain_value_is_the_field_value() -> None:
    @tool(side_effect=SideEffect.READ_ONLY)
    async def count(ctx: ToolContext, number: Annotated[int, Field(ge=1, description="How many")], /) -> int:
        """Count."""
        return number + 1

    assert count.takes is Takes.VALUE
    assert count.spec.schema["properties"]["value"] == {"type": "integer", "minimum": 1, "description": "How many"}
    assert count.spec.result_schema["properties"] == {"value": {"type": "integer"}}
    context: ToolContext = None  # type: ignore[assignment]  # this tool does not look at it
    assert await count.call(context, validate(count.arguments, {"value": 2})) == 3
    assert complaint(count, {"value": 0}) == 'field "value": expected at least 1, got 0'


class Line(BaseModel):
    content: str
    done: bool = False


@tool(side_effect=SideEffect.NONE)
async def keep(ctx: ToolContext, lines: list[Line]) -> str:
    """Keep lines."""
    return ""


def test_names_inside_of_objects_are_looked_for_there() -> None:
    assert complaint(keep, {"lines": [{"contnt": "a", "done": "no"}]}) == (
        'field "lines.0.content": expected string, got nothing; field "lines.0.done": expected boolean, got string; '
        'field "lines.0.contnt": unknown field, did you mean "content"?'
    )


@tool(side_effect=SideEffect.READ_ONLY)
async def mine(ctx: ToolContext, query: str, session: Annotated[Session, Injected()]) -> str:
    """Look for something of one's own."""
    return f"{session.token}: {query}"


def test_an_injected_field_is_hidden_and_refused() -> None:
    assert "ession" not in str(mine.spec.schema)
    assert mine.spec.schema["required"] == ["query"]
    assert (
        complaint(mine, {"query": "a", "session": {"token": "mine"}})
        == 'field "session": unknown field, known are "query"'
    )
    filled = {"session": Session(token="t"), "query": "not a hook's to give"}
    arguments = dict(validate(mine.arguments, {"query": "a"}, mine.spec.injected, filled))
    assert arguments == {"query": "a", "session": Session(token="t")}


@pytest.mark.parametrize("filled", [{}, {"session": "no session"}])
def test_a_missing_or_wrong_filling_is_the_operators_to_mend(
    filled: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ToolError) as caught:
        validate(mine.arguments, {"query": "a"}, mine.spec.injected, filled)
    assert "not set up" in str(caught.value) and "session" not in str(caught.value)
    assert "session of mine" in caplog.text


async def untyped(ctx: ToolContext, some) -> str:  # type: ignore[no-untyped-def]  # that is what is refused
    return ""


async def many(ctx: ToolContext, *some: str) -> str:
    return ""


async def beside(ctx: ToolContext, one: str, /, other: str) -> str:
    return ""


async def odd(ctx: ToolContext, one: ToolContext) -> str:
    return ""


def at_once(ctx: ToolContext) -> str:
    return ""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (untyped, "parameter some needs a type"),
        (many, "parameter some needs a type and a name of its own"),
        (beside, "positional-only"),
        (odd, "odd: "),
        (at_once, "a tool is an `async def`"),
    ],
)
def test_a_function_that_no_model_can_be_made_of_is_refused(function: ToolFunction, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tool(side_effect=SideEffect.NONE)(function)


class Seen(Result):
    count: int


async def see(ctx: ToolContext, path: str, note: str | None = None) -> Seen:
    """See."""
    return Seen(count=1)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"call_hint": "Reading {{ pth }}"}, "the call hint of see names pth; there are note, path"),
        ({"call_hint": "{{ path "}, "the call hint of see: "),
        ({"call_hint": "{{ path | shout }}"}, "the call hint of see: No filter named 'shout'"),
        ({"call_hint": "{% include 'other' %}"}, "no other template"),
        ({"call_hint": "x" * 141}, "the call hint of see: 141 characters, at most 140"),
        ({"result_hint": "{{ path }}"}, "the result hint of see names path; there are args, count"),
        ({"confirm": Confirmation("Sure?", "{{ where }}")}, "the confirmation of see names where"),
        ({"denied": '{"path": {{ where | json }}}'}, "the template for denials of see names where"),
        (
            {"bounded": True},
            "see is bounded, so its result needs the fields returned, total, truncated, refinement_hint",
        ),
        ({"name": "see it"}, "'see it': a tool's name"),
        ({"examples": [Example("One", {"pth": "a"})]}, "the example 'One' of see: field \"path\": expected string"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused_when_it_is_made(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        tool(side_effect=SideEffect.NONE, **declared)(see)


def test_a_title_of_its_own_leaves_the_other_annotations() -> None:
    titled = tool(side_effect=SideEffect.READ_ONLY, title="A look around")(see)
    assert (titled.spec.title, titled.spec.annotations.read_only) == ("A look around", True)
    assert (look.spec.title, look.spec.short) == ("Look", "Look at a device.")
