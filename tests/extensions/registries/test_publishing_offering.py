"""What registries are told: the sets that are published as our MCP server has them, and the agents behind them."""

from collections.abc import Mapping
from typing import Any

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.specs import Annotations, ToolSpec
from goclaw.extensions.registries.base import EntryKind, entry_of, version_order
from goclaw.extensions.registries.publishing import RegistryOffer, offer

ADDRESS = "https://tools.example.org/mcp"
SCHEMA = {"type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]}
PLANNING = {
    "description": "Plans.",
    "tags": ["plans"],
    "publish_to": ["corp"],
    "tools": {"create_plan": {"description": "Make a plan."}},
    "include": ["search"],
}
SPECS = [
    ToolSpec(
        "create_plan",
        "Make a plan.\n\nTakes a goal.",
        SCHEMA,
        tags=frozenset({"agents", "plans"}),
        annotations=Annotations("Make a plan", read_only=False, destructive=False),
        result_schema={"type": "object"},
    ),
    ToolSpec("search", "Search.", {"type": "object"}, tags=frozenset({"filesystem"})),
    ToolSpec("write", "Write.", {"type": "object"}),
]


def configured(exports: Mapping[str, Any] | None = None, **more: Any) -> Config:
    planner = {"description": "Plans all day.", "exports": exports or {"planning": PLANNING}}
    return Config.model_validate(
        {
            "registries": {"corp": {"url": "https://r.example"}, "other": {"url": "https://o.example"}},
            "agents": {"kinds": {"planner": planner}},
            **more,
        }
    )


def documents(offered: RegistryOffer) -> dict[str, Mapping[str, Any]]:
    return {f"{each.kind} {each.name}": each.document for each in offered.offered}


def test_a_published_set_says_of_its_tools_what_mcp_clients_are_told() -> None:
    document = documents(offer(configured(), "corp", SPECS, ADDRESS))["toolset planning"]
    entry = entry_of(document)
    assert (entry.description, entry.tags) == ("Plans.", ("plans",))
    assert [(remote.url, remote.headers) for remote in entry.remotes] == [(ADDRESS, ("Authorization",))]
    plan, search = entry.tools
    assert (plan.name, plan.title, plan.description) == ("create_plan", "Make a plan", "Make a plan.\n\nTakes a goal.")
    assert (plan.input_schema, plan.output_schema) == (SCHEMA, {"type": "object"})
    assert (plan.read_only, plan.destructive, plan.tags) == (False, False, ("agents", "plans"))
    assert (search.name, search.output_schema, search.read_only) == ("search", None, None)


def test_the_agent_is_published_beside_its_sets() -> None:
    found = documents(offer(configured(), "corp", SPECS, ADDRESS))
    agent = entry_of(found["agent planner"])
    assert (agent.description, agent.toolsets) == ("Plans all day.", ("planning",)) and agent.remotes
    spaced = configured({"planning": {**PLANNING, "publish_as": "team/plans"}})
    assert set(documents(offer(spaced, "corp", SPECS, ADDRESS))) == {"toolset team/plans", "agent team/planner"}


def test_a_registry_is_told_only_of_what_names_it() -> None:
    assert offer(configured(), "other", SPECS, ADDRESS) == RegistryOffer((), {})


def test_a_set_that_no_agent_exports_is_published_alone() -> None:
    published = {"docs": {"publish_to": ["other"], "description": "Docs.", "version": "1.0"}}
    config = configured(tools={"sets": {"docs": ["search"]}, "publish": published})
    (only,) = offer(config, "other", SPECS, ADDRESS).offered
    assert (only.kind, only.name, only.version) == (EntryKind.TOOLSET, "docs", "1.0") and not only.is_made
    assert [tool["name"] for tool in only.document["tools"]] == ["search"]


def test_a_version_that_nobody_chose_is_another_one_with_every_change() -> None:
    def made(specs: list[ToolSpec], address: str = ADDRESS) -> str:
        return next(each.version for each in offer(configured(), "corp", specs, address).offered)

    changed = [SPECS[0], ToolSpec("search", "Search better.", {"type": "object"})]
    versions = {made(SPECS), made(changed), made(SPECS, "https://elsewhere.example/mcp")}
    assert len(versions) == 3 and made(list(SPECS)) in versions
    assert all(version_order(each, 5.0) < version_order("0.0.1", 0.0) for each in versions), "a chosen one is newer"
    assert version_order(max(versions), 1.0) < version_order(min(versions), 2.0), (
        "the last published one is the newest version"
    )
    chosen = configured({"planning": {**PLANNING, "version": "2.1.0"}})
    assert documents(offer(chosen, "corp", SPECS, ADDRESS))["toolset planning"]["version"] == "2.1.0"


def test_what_is_disabled_is_not_offered() -> None:
    config = configured(tools={"disabled": ["search"]})
    document = documents(offer(config, "corp", SPECS, ADDRESS))["toolset planning"]
    assert [tool["name"] for tool in document["tools"]] == ["create_plan"]


@pytest.mark.parametrize(
    ("exports", "problem"),
    [
        ({"planning": {**PLANNING, "include": ["search", "gone"]}}, "there is no tool gone now"),
        ({"planning": {"publish_to": ["corp"], "include": ["tag:nothing"]}}, "there is no tool in it"),
        (
            {"planning": PLANNING, "more": {"publish_to": ["corp"], "publish_as": "planning", "include": ["write"]}},
            "agents.kinds.planner.exports.planning has the name planning there; give one of the two a `publish_as`",
        ),
        (
            {"planning": {**PLANNING, "description": "x" * 10_001}},
            "description: String should have at most 10000 characters",
        ),
    ],
)
def test_a_set_that_is_not_whole_is_not_offered_and_said(exports: Mapping[str, Any], problem: str) -> None:
    found = offer(configured(exports), "corp", SPECS, ADDRESS)
    ((place, why),) = found.problems.items()
    assert place.startswith("agents.kinds.planner.exports.") and problem in why
    whole = [name for name in exports if not place.endswith(name)]
    assert [each.document["toolsets"] for each in found.offered if each.kind is EntryKind.AGENT] == (
        [whole] if whole else []
    )
