"""What of its tools a model is shown: a core, an index, and everything only where that is wanted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.agents import AgentSettings
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.plugins import load
from goclaw.common.specs import SideEffect, ToolSpec
from goclaw.common.workspace.approved_files import effective_text as said_of
from goclaw.conversation.agent.prompt import BASE, OF_ONE_PERSON, write_templates
from goclaw.llm.base import SMALL_WINDOW
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.offering import CORE, SMALL_CORE, Offering, Offerings, Profile, line, profile_of
from tests.parts import Trail, acting

BUILT_IN = [load(path, Tool).spec for path in catalog.TOOLS.values()]
LATER = [acting(name, Trail().leave).spec for name in ("mcp__shop__buy", "count_words")]
"""Tools of a server and of the configuration."""
ITSELF = ["tool_search", "tool_call"]
MOST_CHARACTERS = 250 * 4
"""Of 250 tokens: the tokenizer of Qwen2.5 takes 4.04 to 4.58 characters of these texts a token. `scripts/test --model`
counts them exactly."""
MODEL = "ollama:qwen3:8b"


def offered(
    profile: Profile, specs: Sequence[ToolSpec] = (*BUILT_IN, *LATER), own: Sequence[str] | None = None
) -> Offering:
    return Offerings().of(specs, specs, profile, own)


def names(offering: Offering) -> list[str]:
    return [spec.name for spec in offering.tools]


@pytest.mark.parametrize(("profile", "core"), [("index", CORE), ("core", SMALL_CORE)])
def test_a_core_in_short_form_and_the_two_that_find_and_run_the_others(profile: Profile, core: frozenset[str]) -> None:
    offering = offered(profile)
    assert names(offering) == [spec.name for spec in BUILT_IN if spec.name in core] + ITSELF
    assert all("\n" not in spec.description for spec in offering.tools[:-2])
    assert {spec.name for spec in offering.usable} == {spec.name for spec in (*BUILT_IN, *LATER)} - set(ITSELF)


def test_a_new_tool_goes_to_the_index_wherever_it_comes_from() -> None:
    new = ToolSpec("brew", "Brew tea. Or coffee.", {}, SideEffect.MUTATING)
    offering = offered("index", [*BUILT_IN, *LATER, new])
    assert names(offering) == names(offered("index"))
    lines = offering.index.splitlines()
    assert [each.partition(":")[0] for each in lines[1:]] == [
        *(spec.name for spec in BUILT_IN if spec.name not in CORE | set(ITSELF)),
        "mcp__shop__buy",
        "count_words",
        "brew",
    ]
    assert not offered("core", [*BUILT_IN, *LATER, new]).index


def test_all_of_them_are_shown_whole_where_that_is_wanted_or_the_two_are_missing() -> None:
    whole = [spec for spec in (*BUILT_IN, *LATER) if spec.name not in ITSELF]
    assert list(offered("all").tools) == whole
    assert list(offered("index", whole).tools) == whole
    assert list(offered("index", [spec for spec in BUILT_IN if spec.name in {*CORE, *ITSELF}]).tools) == [
        spec for spec in BUILT_IN if spec.name in CORE
    ], "nothing would be found"
    assert not offered("all").index and not offered("index", whole).index


def test_what_an_agents_selection_names_is_its_core() -> None:
    offering = offered("core", own=["glob", "Bash", "set:filesystem", "mcp__shop__buy", "set:index", "-write"])
    assert names(offering) == ["glob", "exec", "mcp__shop__buy", *ITSELF]


def test_what_comes_with_plan_mode_changes_neither_the_request_nor_the_prompt() -> None:
    without = [spec for spec in BUILT_IN if spec.name != "exit_plan_mode"]
    before, planning = Offerings().of(without, without, "index", None), Offerings().of(BUILT_IN, without, "index", None)
    assert (names(before), before.index) == (names(planning), planning.index)
    assert "exit_plan_mode" in [spec.name for spec in planning.usable]


def test_a_short_form_is_the_same_object_until_its_tool_is_another() -> None:
    offerings = Offerings()
    first, second = (offerings.of(BUILT_IN, BUILT_IN, "index", None) for _ in range(2))
    assert all(old is new for old, new in zip(first.tools, second.tools, strict=True))
    changed = [ToolSpec("read", "Reads.", {}) if spec.name == "read" else spec for spec in BUILT_IN]
    assert offerings.of(changed, changed, "index", None).tools[0].description == "Reads."


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Search the web.\n\nWith more.", "t: Search the web"),
        ("Replace, insert or delete one cell.", "t: Replace, insert or delete one cell"),
        ("Find files by a pattern of their paths, the newest first.", "t: Find files by a pattern of their paths"),
        ("word " * 40, "t: " + " ".join(["word"] * 11)),
        ("x" * 80, "t: " + "x" * 56),
        ("", "t: "),
    ],
)
def test_the_index_has_a_few_words_of_each(description: str, expected: str) -> None:
    assert line(ToolSpec("t", description, {})) == expected


def test_the_fixed_words_of_a_small_window_take_at_most_250_tokens(tmp_path: Path) -> None:
    write_templates(tmp_path)
    said = [BASE, OF_ONE_PERSON]
    told = [spec.description for spec in offered("core").tools]
    files = [said_of(path.read_bytes()) for path in tmp_path.iterdir()]
    assert sum(map(len, [*said, *told])) <= MOST_CHARACTERS
    assert sum(map(len, [*said, *files])) <= MOST_CHARACTERS


def test_a_schema_of_a_small_window_has_the_arguments_that_a_call_must_have_and_their_types_alone() -> None:
    small, whole = ({spec.name: spec for spec in specs} for specs in (offered("core").tools, BUILT_IN))
    for name, spec in small.items():
        required = whole[name].schema["required"]
        shown = [*required, "arguments"] if name == "tool_call" else required
        types = {key: {"type": "object" if key == "arguments" else "string"} for key in shown}
        assert spec.schema == {"type": "object", "properties": types, "required": required}, name


def of(window: int, agent: str | None = None, **config: Any) -> Profile:
    return profile_of(
        Config.model_validate(config), AgentSettings.model_validate({"tools_profile": agent}), MODEL, window
    )


def test_small_windows_have_the_small_core() -> None:
    sizes = (4_096, SMALL_WINDOW, SMALL_WINDOW + 1, 200_000, 0)
    assert [of(size) for size in sizes] == ["core", "core", "index", "index", "index"]


def test_the_agent_goes_before_the_model_and_the_model_before_all_of_them() -> None:
    of_model = {"options": {MODEL: {"tools_profile": "core"}}}
    assert of(200_000, tools={"profile": "all"}) == "all"
    assert of(200_000, tools={"profile": "all"}, models=of_model) == "core"
    assert of(200_000, "index", tools={"profile": "all"}, models=of_model) == "index"
    assert of(4_096, "auto", models={"options": {MODEL: {"tools_profile": "all"}}}) == "core"
