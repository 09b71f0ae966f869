"""Tools that one agent alone has: who sees and calls them, and by which names they are known."""

from dataclasses import replace

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.schema import Config
from goclaw.common.core.events import Actor
from goclaw.common.core.messages import ToolCall
from goclaw.tools.toolkit.base import Tool
from goclaw.tools.toolkit.registry import Registry
from tests.parts import Tools, Trail, acting

ANNA, BEN, CAT, DAN = (Actor(f"telegram:{number}", "telegram") for number in range(1, 5))
USERS = [
    User("telegram:1"),
    User("telegram:2", allowed_tools=frozenset({"answer"})),
    User("telegram:3", allowed_tools=frozenset({"look", "two.helpers.answer"})),
    User("telegram:4", allowed_tools=frozenset({"set:one/helpers"})),
]
SETS = {"one/helpers": ["answer", "note"], "two/helpers": ["answer"]}


def own(name: str, agent: str, wire: str = "") -> Tool:
    tool = acting(name, Trail(agent).leave)
    return replace(tool, spec=replace(tool.spec, name=wire or name, local_id=f"{agent}.helpers.{name}"))


TOOLS = [
    own("answer", "one"),
    own("answer", "two"),
    own("note", "one", "helpers-note-1"),
    acting("look", Trail().leave),
]


def registry(*more: Tool, **config: object) -> Registry:
    settings = Config.model_validate({"tools": {"sets": SETS, **config}})
    return Registry([Tools([*TOOLS, *more])], Access(Users(USERS), settings))


def seen(known: Registry, actor: Actor) -> list[str]:
    return [spec.id for spec in known.visible_to(actor)]


def test_each_agent_has_its_own_tools_and_nobody_else_has_them() -> None:
    known = registry()
    assert seen(known, ANNA) == seen(known.of("main"), ANNA) == ["look"]
    assert seen(known.of("one"), ANNA) == ["one.helpers.answer", "one.helpers.note", "look"]
    assert seen(known.of("two"), ANNA) == ["two.helpers.answer", "look"]
    assert [spec.name for spec in known.specs()] == ["look"]
    for name in ("answer", "one.helpers.answer", "helpers-note-1"):
        assert known.find(name, ANNA) is known.lookup(name) is None
        assert known.meant(ToolCall("c1", "tool_call", {"name": name, "arguments": {}}), ANNA).name == "tool_call"
    assert known.of("one").find("two.helpers.answer", ANNA) is None


@pytest.mark.promise("P-tools-per-user")
def test_a_person_needs_the_right_to_the_very_tool_that_an_agent_has() -> None:
    known = registry()
    for agent in ("one", "two"):
        assert seen(known.of(agent), BEN) == [] and known.of(agent).find("answer", BEN) is None, "either may be meant"
    assert seen(known.of("one"), CAT) == ["look"] and seen(known.of("two"), CAT) == ["two.helpers.answer", "look"]
    assert seen(known.of("one"), DAN) == ["one.helpers.answer", "one.helpers.note"] and seen(known, DAN) == []
    assert seen(registry(disabled=["answer"]).of("two"), ANNA) == ["look"]


@pytest.mark.promise("P-tools-per-user")
def test_an_older_name_stands_for_a_tool_for_everyone_as_soon_as_one_is_called_so() -> None:
    known = registry(acting("answer", Trail().leave))
    assert seen(known, BEN) == ["answer"] and seen(known.of("one"), BEN) == []
    assert seen(known.of("one"), ANNA) == ["one.helpers.answer", "one.helpers.note", "look"], "its own comes first"


@pytest.mark.promise("P-tools-per-user")
def test_what_restricts_a_tool_by_its_older_name_restricts_every_agents() -> None:
    roles = {"user": {"inputs": {"answer": {"how": "short"}}, "always_ask": ["answer"]}}
    config = Config.model_validate({"roles": roles, "policy": {"auto_allow": ["answer"]}})
    access = Access(Users([User("telegram:1")]), config)
    known = Registry([Tools(TOOLS)], access)
    for agent in ("one", "two"):
        tool = known.of(agent).find("answer", ANNA)
        assert tool and access.authorize(ANNA, "tool.use", tool.spec.id).input == {"how": "short"}
        assert access.always_asks(ANNA, tool.spec)
        assert not access.select([config.policy.auto_allow], tool.spec), "what allows has to name one"


@pytest.mark.promise("P-tools-per-user")
def test_what_a_name_allows_is_not_another_agents_when_that_one_comes() -> None:
    listed = [own("answer", "two"), own("LS", "two"), acting("list", Trail().leave)]
    users = Users([User("telegram:1", allowed_tools=frozenset({"answer", "LS"}))])
    known = Registry([Tools(listed)], Access(users, Config()))
    assert seen(known.of("two"), ANNA) == ["two.helpers.answer", "two.helpers.LS"]
    listed[:0] = [own("answer", "one"), own("LS", "one")]
    assert seen(known.of("one"), ANNA) == seen(known.of("two"), ANNA) == [], "nor the tool with it as an alias"
    del listed[2:4]
    assert seen(known.of("one"), ANNA) == ["one.helpers.answer", "one.helpers.LS"]


@pytest.mark.promise("P-tools-per-user")
@pytest.mark.parametrize("name", ["read", "send_message"])
def test_the_name_of_a_built_in_tool_allows_no_own_tool_even_where_that_one_is_off(name: str) -> None:
    access = Access(Users([User("telegram:1", allowed_tools=frozenset({name}))]), Config())
    spec = own(name, "one").spec
    known = Registry([Tools([own(name, "one")])], access)
    assert seen(known.of("one"), ANNA) == [] and access.names(spec.id) == (spec.id,)
    assert not access.select([[name]], spec) and not access.select([[f"-{name}"]], spec), "it restricts it as before"


def test_a_stored_call_by_an_older_name_finds_its_tool_in_its_agent() -> None:
    known = registry().of("one")
    for name in ("note", "one.helpers.note", "helpers-note-1"):
        assert known.meant(ToolCall("c1", name, {})).name == "helpers-note-1"


def test_tools_that_come_and_go_are_there_for_their_agent_as_long() -> None:
    listed = [own("answer", "one")]
    known = Registry([Tools(listed)], Access(Users(USERS), Config()))
    assert known.of("one").find("answer", ANNA)
    listed.clear()
    assert known.of("one") is known and known.find("answer", ANNA) is None
