"""What agents export: short forms, slips that are named, sets by both of their names; and who is routed where."""

from typing import Any

import pytest
from pydantic import ValidationError

from goclaw.common.config.agents import AgentsSettings
from goclaw.common.config.exports import ExportedToolSettings, ExportSettings
from goclaw.common.config.schema import Config
from goclaw.common.core.selection import Toolsets

PLAN = {"description": "Make a plan."}


def exporting(name: str = "planning", **tools: Any) -> dict[str, Any]:
    return {"exports": {name: {"tools": tools}}}


@pytest.mark.parametrize(
    ("written", "schema"),
    [
        ({}, {"type": "object", "properties": {}}),
        (
            {"goal": "string", "days": "integer?"},
            {
                "type": "object",
                "properties": {"goal": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["goal"],
            },
        ),
        (
            {"limit": {"type": "integer", "default": 5}, "note": {"type": "string", "optional": True}},
            {"type": "object", "properties": {"limit": {"type": "integer", "default": 5}, "note": {"type": "string"}}},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
        ({"type": "string"}, {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}),
    ],
)
def test_the_short_form_is_a_json_schema(written: dict[str, Any], schema: dict[str, Any]) -> None:
    settings = ExportedToolSettings.model_validate({**PLAN, "arguments": written})
    assert settings.arguments == schema
    again = ExportedToolSettings.model_validate(settings.model_dump())
    assert again == settings, "what was read once is read as the same again"


@pytest.mark.parametrize(
    ("tool", "fault"),
    [
        ({"arguments": {"goal": "text"}}, "`goal` should be one of string, integer"),
        ({"arguments": {"Goal": "string"}}, "`Goal` should begin with a small letter"),
        ({"arguments": {"goal": 5}}, "`goal` should be a type such as"),
        ({"arguments": {"goal": {"optional": "yes"}}}, "`goal.optional` should be true or false"),
        ({"arguments": {"type": "object", "properties": {}, "required": ["x"]}}, "`required` names x"),
        ({"prompt": "x", "passthrough": {"tool": "read"}}, "exclude each other"),
        ({"bounded": True}, "`bounded` needs `result`"),
    ],
)
def test_a_slip_in_a_tool_is_named(tool: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        ExportedToolSettings.model_validate({**PLAN, **tool})


@pytest.mark.parametrize(
    ("agents", "fault"),
    [
        ({"main": exporting(read=PLAN)}, "built-in tool"),
        ({"main": exporting("shell", plan=PLAN)}, "built-in set"),
        ({"main": exporting("a b", plan=PLAN)}, "should be a name of letters"),
        ({"main": {"fallbacks": ["ollama:a"]}}, "`fallbacks` needs `model`"),
        ({"routes": [{"agent": "a", "command": "status"}]}, "is a command already"),
        ({"routes": [{"agent": "a", "command": "/plan"}]}, "should be a name of small letters"),
    ],
)
def test_a_slip_in_agents_is_named(agents: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        AgentsSettings.model_validate(agents)


def test_a_set_is_known_by_its_name_and_by_that_of_its_agent() -> None:
    both = {"kinds": {"a": exporting("tools", one=PLAN), "b": exporting("tools", two=PLAN)}}
    config = Config.model_validate({"agents": both, "tools": {"sets": {"mine": ["set:b/tools"]}}})
    sets = Toolsets(config.toolsets)

    def picked(part: str) -> list[str]:
        return [name for name in ("one", "two") if sets.picks([part], name, frozenset)]

    assert picked("set:tools") == ["one", "two"]
    assert (picked("set:a/tools"), picked("set:b/tools"), picked("set:mine")) == (["one"], ["two"], ["two"])


def test_published_is_what_has_to_be_offered_for_others_to_use_it() -> None:
    config = Config.model_validate(
        {
            "agents": {
                "main": {"exports": {"own": {"include": ["read"], "publish_to": ["corp"]}}},
                "kinds": {
                    "planner": {
                        "exports": {
                            "planning": {"publish_to": ["corp"], "publish_as": "team/planning", "version": "1.0"},
                            "private": {"include": ["search"]},
                        }
                    }
                },
            },
            "tools": {"sets": {"docs": ["read"]}, "publish": {"docs": {"publish_to": ["corp"]}}},
        }
    )
    assert [(each.word, each.name, each.place) for each in config.publications] == [
        ("set:main/own", "own", "agents.main.exports.own"),
        ("set:planner/planning", "team/planning", "agents.kinds.planner.exports.planning"),
        ("set:docs", "docs", "tools.publish.docs"),
    ]


@pytest.mark.parametrize(
    ("key", "value"), [("publish_as", "../x"), ("publish_as", "a//b"), ("version", "latest"), ("version", "1 2")]
)
def test_what_no_registry_takes_is_refused_where_it_is_written(key: str, value: str) -> None:
    with pytest.raises(ValidationError, match="should be a"):
        ExportSettings.model_validate({key: value})
