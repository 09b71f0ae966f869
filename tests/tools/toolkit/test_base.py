"""A typed function becomes a tool; everything else is read off its signature."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from goclaw.common.specs import Risk, SideEffect
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool, ToolContext, tool
from goclaw.tools.toolkit.registry import BuiltIn
from tests.tables import table


class Place(BaseModel):
    """Where."""

    title: str
    line: int = 0


@tool(side_effect=SideEffect.MUTATING, tags=("files",))
async def put(
    ctx: ToolContext,
    title: Annotated[str, Field(description="What to call it")],
    place: Place,
    kind: Literal["a", "b"] = "a",
) -> str:
    """Put something somewhere.

    It stays there.
    """
    return f"{title} at {place.title}:{place.line} as {kind}"


def test_name_description_and_schema_come_from_the_function() -> None:
    assert (put.spec.name, put.spec.description) == ("put", "Put something somewhere.\n\nIt stays there.")
    schema = put.spec.schema
    assert schema["type"] == "object" and schema["required"] == ["title", "place"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["title"] == {"type": "string", "description": "What to call it"}
    assert schema["properties"]["kind"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert "ctx" not in schema["properties"]


def test_titles_cost_tokens_but_fields_of_that_name_stay() -> None:
    assert "title" not in put.spec.schema
    assert set(put.spec.schema["$defs"]["Place"]["properties"]) == {"title", "line"}
    assert put.spec.schema["$defs"]["Place"]["properties"]["line"] == {"type": "integer", "default": 0}


def test_risk_follows_from_the_side_effect_unless_it_is_given() -> None:
    assert put.spec.risk is Risk.MEDIUM

    @tool(side_effect=SideEffect.MUTATING, risk=Risk.CRITICAL, name="other", idempotent=False, own_timeout=True)
    async def given(ctx: ToolContext) -> str:
        """Nothing."""
        return ""

    assert (given.spec.risk, given.spec.name, given.spec.idempotent, given.own_timeout) == (
        Risk.CRITICAL,
        "other",
        False,
        True,
    )


def test_risk_may_depend_on_the_arguments() -> None:
    @tool(side_effect=SideEffect.NETWORK, risk=lambda arguments, ctx: Risk.LOW if arguments.near else Risk.HIGH)
    async def call(ctx: ToolContext, near: bool) -> str:
        """Call."""
        return ""

    context: ToolContext = None  # type: ignore[assignment]  # this rule does not look at it
    assert call.spec.risk is Risk.HIGH and call.risk
    assert call.risk(validate(call.arguments, {"near": True}), context) is Risk.LOW


def test_a_tool_without_arguments_has_an_object_schema() -> None:
    @tool(side_effect=SideEffect.NONE)
    async def nothing(ctx: ToolContext) -> str:
        """Nothing."""
        return ""

    assert nothing.spec.schema == {"additionalProperties": False, "properties": {}, "type": "object"}


@table("built_in", BuiltIn().tools(), ids=lambda built_in: built_in.spec.name)
def test_every_built_in_tool_describes_itself_and_its_fields(built_in: Tool) -> None:
    assert built_in.spec.description and built_in.spec.schema["type"] == "object"
    for name, field in built_in.spec.schema["properties"].items():
        assert field.get("description"), f"{built_in.spec.name}.{name}"
