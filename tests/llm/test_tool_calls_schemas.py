"""What models are sent of a tool's schema: as little as says the same, on every wire, and counted for each tool."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from goclaw.common.config.schema import ModelOptions, ProviderSettings
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.specs import ToolSpec
from goclaw.errors import InvalidInput
from goclaw.llm.anthropic_blocks import encode_tools
from goclaw.llm.base import ModelPorts
from goclaw.llm.pydantic_ai import PROVIDER
from goclaw.llm.token_counts import estimate_tools
from goclaw.llm.tool_calls import LONG_LIST, LONG_TEXT, trimmed_schema
from goclaw.tools.toolkit.arguments import validate
from goclaw.tools.toolkit.base import Tool
from tests.llm.asking import ask, saying
from tests.llm.fake_provider import FakeProvider
from tests.llm.wires import ANTHROPIC, KEY, WIRES, Wire

MOST_BYTES = {
    "read": 1345,
    "write": 463,
    "edit": 580,
    "multi_edit": 946,
    "notebook_edit": 927,
    "glob": 654,
    "list": 396,
    "search": 1375,
    "exec": 1097,
    "bg_exec": 1256,
    "task_output": 625,
    "task_input": 503,
    "task_stop": 284,
    "task_list": 235,
    "ssh_exec": 685,
    "web_fetch": 775,
    "web_search": 428,
    "message": 1088,
    "memory_search": 524,
    "memory_list": 302,
    "memory_get": 565,
    "memory_read": 372,
    "memory_write": 720,
    "memory_delete": 367,
    "transcript_search": 1336,
    "memento": 885,
    "ask_user": 1131,
    "todo_write": 738,
    "agent": 1363,
    "schedule": 1537,
    "command": 537,
    "config": 688,
    "exit_plan_mode": 427,
    "tool_search": 370,
    "tool_call": 263,
    "team_create": 1422,
    "send_message": 667,
    "team_delete": 447,
}
"""Of each tool in a request to Anthropic, whole. What grows it costs every request: first see what can go."""
NULLABLE = {"anyOf": [{"type": "string", "maxLength": 5_000}, {"type": "null"}], "default": None, "description": "d"}


def of(schema: dict[str, Any], *, required: bool = False) -> Any:
    """What becomes of an argument's schema."""
    whole = {"type": "object", "properties": {"it": schema}, "required": ["it"] if required else []}
    return trimmed_schema(whole)["properties"]["it"]


def test_no_tool_takes_more_of_a_request_than_it_did() -> None:
    paths = {**catalog.TOOLS, **catalog.GATED_TOOLS["teams"]}
    sizes = {name: len(encode_tools([load(path, Tool).spec])) - len("[]") for name, path in paths.items()}
    grown = {name: size for name, size in sizes.items() if size > MOST_BYTES.get(name, 0)}
    assert not grown, f"bytes of tools beyond what this table has for them: {grown}"


def test_null_goes_where_leaving_the_argument_out_means_the_same() -> None:
    assert of(NULLABLE) == {"type": "string", "description": "d"}
    assert of({"type": ["integer", "null"], "default": None}) == {"type": "integer"}
    kinds = [{"type": "string"}, {"type": "integer"}, {"type": "null"}]
    assert of({"anyOf": kinds, "default": None}) == {"anyOf": kinds[:2]}


def test_what_others_write_beside_the_usual_form_is_sent_as_it_is() -> None:
    nullable = {"anyOf": [True, {"type": "null"}], "default": None}
    assert trimmed_schema({"properties": {"a": nullable}})["properties"] == {"a": {"anyOf": [True]}}
    inner = {"type": "object", "properties": {"a": nullable}, "required": True}
    assert trimmed_schema(inner)["properties"] == {"a": {"anyOf": nullable["anyOf"]}}


def test_null_stays_where_it_means_something() -> None:
    both = [{"type": "integer"}, {"type": "null"}]
    assert of({"anyOf": both, "default": 5}) == {"anyOf": both, "default": 5}
    assert of({"anyOf": both}) == {"anyOf": both}  # left out, it may be another thing than null
    assert of({"anyOf": both, "default": None}, required=True) == {"anyOf": both}
    assert of({"type": "null", "default": None}) == {"type": "null"}


def test_titles_and_that_nothing_else_is_taken_go_at_every_depth() -> None:
    inner = {"title": "T", "type": "object", "additionalProperties": False, "properties": {"title": {"type": "string"}}}
    short = {"type": "object", "properties": {"title": {"type": "string"}}}
    assert trimmed_schema(inner) == short, "an argument may be called title"
    assert of({"type": "array", "items": inner}) == {"type": "array", "items": short}
    assert trimmed_schema({"$defs": {"title": inner}}) == {"$defs": {"title": short}}
    assert of({"type": "object", "additionalProperties": inner}) == {"type": "object", "additionalProperties": short}
    assert of({"enum": [None, {"title": "T"}], "default": {"title": "T"}}) == {
        "enum": [None, {"title": "T"}],
        "default": {"title": "T"},
    }, "values are no schemas"


def test_a_limit_that_a_call_could_meet_by_accident_stays() -> None:
    far = {"type": "array", "maxItems": LONG_LIST, "items": {"type": "string", "minLength": 1, "maxLength": LONG_TEXT}}
    assert of(far) == {"type": "array", "items": {"type": "string"}}
    near = {"type": "array", "minItems": 2, "maxItems": 6, "items": {"type": "string", "minLength": 2, "maxLength": 80}}
    assert of(near) == near
    number = {"type": "integer", "minimum": 0, "maximum": 10**6}
    assert of(number) == number


def test_the_spec_keeps_its_own_schema_and_calls_are_checked_against_that() -> None:
    write = load(catalog.TOOLS["write"], Tool)
    before = json.dumps(write.spec.schema)
    trimmed_schema(write.spec.schema)
    assert json.dumps(write.spec.schema) == before and '"additionalProperties"' in before
    with pytest.raises(InvalidInput, match="nonsense"):
        validate(write.arguments, {"path": "a", "content": "b", "nonsense": 1})
    exec_ = load(catalog.TOOLS["exec"], Tool)
    validate(exec_.arguments, {"command": "ls", "timeout": None})  # null is taken all the same


def test_the_estimate_counts_what_is_sent() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"it": NULLABLE}, "additionalProperties": False}
    whole, short = ToolSpec("t", "d", schema), ToolSpec("t", "d", trimmed_schema(schema))
    assert estimate_tools([whole]) == estimate_tools([whole]) == estimate_tools([short])
    assert estimate_tools([whole, short]) == 2 * estimate_tools([whole])


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_every_wire_sends_the_short_form(fake: FakeProvider, ports: ModelPorts, wire: Wire) -> None:
    fake.will(wire.answer())
    spec = load(catalog.TOOLS["exec"], Tool).spec
    await ask(wire.open(fake.url, ports), saying("hi", tools=[spec]))
    [sent] = fake.asked[0].body["tools"]
    inner = sent.get("function", sent)
    assert inner.get("parameters", inner.get("input_schema")) == trimmed_schema(spec.schema) != spec.schema


async def test_what_pydantic_ai_opens_is_sent_the_short_form_as_well(fake: FakeProvider, ports: ModelPorts) -> None:
    fake.will(ANTHROPIC.answer())
    settings = ProviderSettings(api_key=SecretStr(KEY), base_url=fake.url)
    spec = load(catalog.TOOLS["exec"], Tool).spec
    await ask(PROVIDER.open(ANTHROPIC.spec, settings, ModelOptions(), ports), saying("hi", tools=[spec]))
    [sent] = fake.asked[0].body["tools"]
    assert sent["input_schema"] == trimmed_schema(spec.schema)
