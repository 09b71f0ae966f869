"""The texts about rights: each says what `authorize` and `decide` answer, and all of them the same."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from goclaw.common.auth.access import Access
from goclaw.common.auth.preset_entries import entry_of
from goclaw.common.auth.presets import PRESETS
from goclaw.common.auth.users import Users
from goclaw.common.auth.workplaces import in_words, place_of
from goclaw.common.config.load import Loaded, load_config
from goclaw.common.core.catalog import COMMANDS, GATED_TOOLS, TOOLS
from goclaw.common.core.events import Actor
from goclaw.common.specs import Risk, SideEffect
from goclaw.program.cli import config as config_commands
from goclaw.program.cli import users as users_commands
from goclaw.program.cli.rights import actor_of
from goclaw.tools.approval.policy import decide
from goclaw.tools.toolkit.base import ToolContext, ToolSource, tool
from goclaw.tools.toolkit.effective_rights import INDEX, effective_rights, join_abilities, plain_lines
from goclaw.tools.toolkit.registry import BuiltIn, Registry
from goclaw.tools.toolkit.sources import Fixed
from tests.tables import table

BUILT_IN = BuiltIn()
NAMES = sorted(TOOLS)
PARTS = st.sampled_from(
    [
        *NAMES,
        "Bash",
        "Read",
        "raed",
        "tag:filesystem",
        "tag:write",
        "tag:nothing",
        "set:shell",
        "set:mine",
        "set:nothing",
    ]
)
SELECTION = st.lists(st.builds(lambda sign, part: sign + part, st.sampled_from(["", "", "-"]), PARTS), max_size=4)
ROLE = st.fixed_dictionaries(
    {},
    optional={
        "tools": SELECTION,
        "always_ask": SELECTION,
        "commands": st.lists(st.sampled_from(sorted(COMMANDS)), max_size=3),
        "approves": st.sampled_from(["none", "own", "all"]),
        "sessions": st.sampled_from(["own", "read", "all"]),
        "daily_cost": st.floats(0.01, 9),
        "daily_tokens": st.integers(1, 10**6),
        "workspace": st.sampled_from(["own", "shared"]),
        "inputs": st.just({"exec": {"timeout": 10}}),
    },
)
OF_PRESETS = {each.role: dict(each.settings) for each in PRESETS.values() if each.settings}
CONFIG = st.fixed_dictionaries(
    {"roles": st.dictionaries(st.sampled_from(["user", "one", "two", *OF_PRESETS]), ROLE, max_size=3)},
    optional={
        "policy": st.fixed_dictionaries(
            {},
            optional={
                "mode": st.sampled_from(["default", "accept-edits", "plan", "bypass"]),
                "always_ask": SELECTION,
                "auto_allow": st.lists(PARTS, max_size=2),
                "stricter": st.dictionaries(
                    st.sampled_from(["low", "medium", "contained", "high"]), st.sampled_from(["ask", "refuse"])
                ),
            },
        ),
        "limits": st.fixed_dictionaries({}, optional={"daily_cost": st.floats(0.01, 9)}),
        "workspaces": st.sampled_from(["shared", "per-person"]),
        "quiet_hours": st.just("21:00-06:00"),
    },
)
TOOLS_SECTION = st.fixed_dictionaries(
    {"sets": st.just({"mine": ["read", "tag:memory"]})},
    optional={
        "disabled": SELECTION.filter(lambda parts: not any("set:nothing" in part for part in parts)),
        "exec": st.fixed_dictionaries({}, optional={"network": st.sampled_from(["none", "host"])}),
        "write": st.fixed_dictionaries({"review": st.booleans()}),
    },
)
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "roles": st.lists(st.sampled_from(["user", "admin", "one", "two", "nothing", *OF_PRESETS]), max_size=3),
        "allowedTools": SELECTION,
        "workspace": st.sampled_from(["own", "shared", "there"]),
        "quietHours": st.sampled_from(["none", "22:00-07:00"]),
    },
)
PEOPLE = st.dictionaries(st.sampled_from(["tui:ann", "tui:bob", "telegram:5"]), ENTRY | st.sampled_from(list(PRESETS)))


def written(folder: Path, config: Mapping[str, Any], people: Mapping[str, Any]) -> Loaded:
    """A configuration and users on disk; a person who is the name of a preset is made by it."""
    config = {**config, "state_dir": str(folder)}
    wanted = {each for each in people.values() if isinstance(each, str)}
    of_presets = {PRESETS[each].role: dict(PRESETS[each].settings) for each in wanted if PRESETS[each].settings}
    config["roles"] = {**of_presets, **config["roles"]}
    if config.get("policy", {}).get("mode") == "bypass":
        config["policy"] = {**config["policy"], "allow_bypass": True}
    (folder / "config.yaml").write_text(json.dumps(config))
    loaded = load_config(folder / "config.yaml", environ={})
    entries = {
        key: entry_of(PRESETS[each], loaded.config, key, "", None) if isinstance(each, str) else each
        for key, each in people.items()
    }
    (folder / "users.json").write_text(json.dumps({"users": entries}))
    return loaded


def rights_in_text(text: str) -> dict[str, dict[str, str]]:
    """What a text of `users list` or `config check` says, by person and row."""
    found: dict[str, dict[str, str]] = {}
    key = ""
    for line in text.splitlines():
        if begun := re.match(r" {0,2}((?:tui|telegram):\S+)(?:  .*)?$", line):
            key = begun[1]
            found[key] = {}
        elif key and (row := re.match(r" {2,4}([A-Z][a-z ]+): (.*)$", line)):
            found[key][row[1]] = row[2]
        else:
            key = ""
    return found


@pytest.mark.promise("P-rights-as-they-are")
@pytest.mark.timeout(120)
@settings(max_examples=100, phases=[Phase.generate])  # shrinking such configurations takes minutes
@given(config=CONFIG, tools=TOOLS_SECTION, people=PEOPLE)
def test_every_text_says_what_authorize_answers(
    config: dict[str, Any], tools: dict[str, Any], people: dict[str, Any]
) -> None:
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        loaded = written(Path(name), {**config, "tools": tools}, people)
        users = Users.read(loaded.config.users_path)
        access = Access(users, loaded.config)
        registry = Registry([BUILT_IN], access)
        listed = rights_in_text(_captured(users_commands.list_users, loaded, patch))
        checked = rights_in_text(_captured(config_commands.check, loaded, patch).partition("\nRights:\n")[2])
        for user in users.all():
            actor = actor_of(user)
            allowed = [tool for tool in NAMES if access.authorize(actor, "tool.use", tool).allowed]
            rights = effective_rights(registry, access, actor, user)
            chat = dict(rights.lines("this workspace"))
            assert (
                chat["Tools"]
                == listed[user.key]["Tools"]
                == checked[user.key]["Tools"]
                == (", ".join(allowed) or "none")
            )
            others = [{**each[user.key], "Writes files": ""} for each in (listed, checked)]
            assert [{**chat, "Writes files": ""}] * 2 == others
            _agrees_with_policy(access, registry, actor, chat)
            writing = {"write", "edit", "multi_edit", "notebook_edit", "exec", "bg_exec", "task_input"} & {*allowed}
            assert {each["Writes files"] != "nowhere" for each in (chat, listed[user.key], checked[user.key])} == {
                bool(writing)
            }
            assert in_words(loaded.config, place_of(loaded.config, user))


def _agrees_with_policy(access: Access, registry: Registry, actor: Actor, chat: Mapping[str, str]) -> None:
    """Every tool that is said to ask asks, at every risk that its calls can have; what is not named runs."""
    said = {name: _names(chat.get(name, "none")) for name in ("Asks first", "Asks by call", "Refused now")}
    for name in _names(chat["Tools"]):
        tool = registry.lookup(name)
        assert tool
        usual = tool.usual_risk(access.config)
        risks = [usual] if usual is not None else [risk for risk in Risk if _can_be(risk, tool.highest_risk)]
        answers = {decide(access, actor, tool.spec, risk) for risk in risks}
        if name in said["Asks first"]:
            assert answers == {"ask"}
        elif name in said["Refused now"]:
            assert answers == {"refuse"}
        elif name in said["Asks by call"]:
            assert "ask" in answers and len(answers) > 1
        else:
            assert "run" in answers and "ask" not in answers


def _can_be(risk: Risk, most: Risk) -> bool:
    return risk is not Risk.CONTAINED and list(Risk).index(risk) <= list(Risk).index(most)


def _names(text: str) -> Sequence[str]:
    names = text.removesuffix(", answered by somebody else").split(", ")
    return [] if names == ["none"] else names


def _captured(command: Any, loaded: Loaded, patch: pytest.MonkeyPatch) -> str:
    """What a command prints about this configuration."""
    lines: list[str] = []
    for module in (users_commands, config_commands):
        patch.setattr(module, "load", lambda context: loaded)
        patch.setattr(module, "print", lambda *words: lines.append(" ".join(words)), raising=False)
        patch.setattr(module, "print_message", lambda line: None)
    patch.setattr(users_commands, "show", lines.append)
    command(None)
    return "\n".join(lines)


@table(
    "tool, config, expected",
    [
        ("exec", {}, "run"),
        ("exec", {"tools": {"exec": {"network": "host"}}}, "ask"),
        ("exec", {"tools": {"exec": {"sandbox": "off"}}}, "ask"),
        ("write", {}, "run"),
        ("write", {"tools": {"write": {"review": True}}}, "ask"),
        ("message", {}, "depends"),
        ("memento", {}, "run"),
        ("config", {}, "depends"),
        ("exec", {"policy": {"mode": "plan"}}, "refuse"),
        ("exec", {"roles": {"user": {"always_ask": ["set:shell"]}}}, "ask"),
    ],
)
def test_what_asks_follows_from_the_configuration(tool: str, config: dict[str, Any], expected: str) -> None:
    with TemporaryDirectory() as name:
        loaded = written(Path(name), {"roles": {}, **config}, {"tui:ann": {}})
        users = Users.read(loaded.config.users_path)
        access = Access(users, loaded.config)
        rights = effective_rights(Registry([BUILT_IN], access), access, Actor("tui:ann", "tui"), users.get("tui:ann"))
        named = {"ask": rights.asks, "depends": rights.may_ask, "refuse": rights.refused}
        assert [answer for answer, names in named.items() if tool in names] == [expected] * (expected != "run")


def in_plain_words(config: dict[str, Any], user: dict[str, Any], *sources: ToolSource) -> dict[str, str]:
    """What a person reads in `/whoami`; the plugin of every tool without words is called `weather`."""
    with TemporaryDirectory() as name:
        loaded = written(Path(name), {"roles": {}, **config}, {"tui:ann": user})
        users, ann = Users.read(loaded.config.users_path), Actor("tui:ann", "tui")
        access = Access(users, loaded.config)
        registry = Registry([BUILT_IN, *sources], access)
        rights = effective_rights(registry, access, ann, users.get(ann.key))
        specs = [spec for each in registry.with_agents(ann) for spec in each.offered_to(ann, planning=False)]
        return dict(plain_lines(rights, specs, lambda tool: "weather" if tool.startswith("sky") else ""))


def test_a_person_reads_what_tools_do_and_no_names_of_tools() -> None:
    said = in_plain_words({}, {})
    assert said["I can"].startswith("read and write files, edit notebooks, run commands, ")
    assert "recall, keep and forget notes" in said["I can"] and said["I can"].count("run commands") == 1
    words = {word for text in said.values() for word in re.split(r"[ ,;]+", text)}
    assert not words & {"bg_exec", "exec", "memento", "tool_search", "glob", "multi_edit"}
    assert in_plain_words({}, {"allowedTools": ["read", "glob"]})["I can"] == "read files"
    assert in_plain_words({}, {"allowedTools": []})["I can"] == "talk with you"


def test_a_person_reads_what_asks_first_in_a_sentence() -> None:
    said = in_plain_words({}, {"roles": ["adult"], "allowedTools": ["exec", "bg_exec", "message", "config", "read"]})
    assert said["Asks first"] == "to run commands, sometimes to send messages, to change settings"
    kept = in_plain_words({}, {"roles": ["child"], "allowedTools": ["web_fetch", "read"]})
    assert kept["Asks first"] == "to open web pages; somebody else answers"
    assert "Asks first" not in in_plain_words({}, {"allowedTools": ["read"]})


def test_a_refused_tool_is_nothing_that_the_agent_can_do_now() -> None:
    said = in_plain_words({"policy": {"mode": "plan"}}, {"allowedTools": ["read", "write"]})
    assert (said["I can"], said["Refused now"]) == ("read files", "to write files")


@tool(side_effect=SideEffect.READ_ONLY)
async def sky_now(ctx: ToolContext) -> str:
    """Look at the sky."""
    return "blue"


@tool(side_effect=SideEffect.READ_ONLY, title="Tide table")
async def tides(ctx: ToolContext) -> str:
    """Look at the sea."""
    return "low"


def test_a_tool_without_words_is_named_by_its_plugin_else_by_its_title() -> None:
    said = in_plain_words({}, {"allowedTools": ["read", "sky_now", "tides"]}, Fixed((sky_now, tides)))
    assert said["I can"] == "read files, use tools of weather, use Tide table"


def own(agent: str, **more: Any) -> ToolSource:
    """A source of a tool of the agent's own, which its model calls by the name of everyone's."""
    spec = replace(tides.spec, does=f"ask {agent}", local_id=f"{agent}.helpers.tides", **more)
    return Fixed((replace(tides, spec=spec),))


def test_the_own_tools_of_the_agents_that_a_person_may_use_are_theirs_under_their_ids() -> None:
    writing = {"side_effect": SideEffect.SPAWNS, "tags": frozenset({"shell"}), "risk": Risk.HIGH}
    sources = [Fixed((tides, sky_now)), own("one"), own("two", **writing), own("three")]
    config = {"roles": {"user": {"agents": ["main", "one", "two"], "tools": ["tides", "set:one/helpers"]}}}
    config["roles"]["user"]["tools"] += ["two.helpers.tides", "three.helpers.tides"]
    config["tools"] = {"sets": {"one/helpers": ["tides"]}}
    with TemporaryDirectory() as name:
        loaded = written(Path(name), config, {"tui:ann": {}})
        users, ann = Users.read(loaded.config.users_path), Actor("tui:ann", "tui")
        access = Access(users, loaded.config)
        rights = effective_rights(Registry(sources, access), access, ann, users.get(ann.key))
    assert rights.tools == ("one.helpers.tides", "tides", "two.helpers.tides")
    assert rights.asks == ("two.helpers.tides",) and rights.writes_files
    can = in_plain_words(config, {}, *sources)["I can"]
    assert can == "use Tide table, ask one, ask two"


def test_every_built_in_tool_says_what_it_does() -> None:
    tools = [each.spec for each in BuiltIn(GATED_TOOLS).tools()]
    assert [spec.name for spec in tools if not re.fullmatch(r"[a-z]+ [a-z -]+", spec.does)] == [
        spec.name for spec in tools if INDEX in spec.tags
    ]


def test_abilities_on_the_same_things_are_said_together() -> None:
    phrases = ["read files", "run commands", "write files", "read files", "find files"]
    assert join_abilities(phrases) == ["read, write and find files", "run commands"]
