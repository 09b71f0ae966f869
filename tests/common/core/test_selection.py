"""What a selection of tools picks, what it leaves out, and what it does in doubt."""

from functools import partial

import pytest
from pydantic import ValidationError

from goclaw.common.config.schema import Config
from goclaw.common.core.selection import BUILT_IN, Toolsets, cycle, find_fault

TAGS = {
    "read": frozenset({"filesystem", "read"}),
    "write": frozenset({"filesystem", "write"}),
    "exec": frozenset({"shell"}),
    "web_search": frozenset({"network"}),
    "web_fetch": frozenset({"network"}),
    "bare": frozenset[str](),
}
SETS = {
    "research": ("web_search", "web_fetch"),
    "careful": ("set:research", "read", "-web_fetch"),
    "most": ("-exec",),
    "nested": ("set:careful", "tag:shell"),
}


def picked(*selection: str, unknown: bool = False) -> set[str]:
    sets = Toolsets(SETS)
    return {name for name in TAGS if sets.picks(selection, name, partial(TAGS.get, name), unknown=unknown)}


@pytest.mark.promise("P-tools-per-user")
@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ((), set()),
        (("read",), {"read"}),
        (("READ",), set()),
        (("Read", "Bash"), {"read", "exec"}),
        (("tag:filesystem", "-Read"), {"write"}),
        (("read", "exec", "nothing"), {"read", "exec"}),
        (("tag:filesystem",), {"read", "write"}),
        (("tag:filesystem", "-write"), {"read"}),
        (("-write", "tag:filesystem"), {"read"}),
        (("tag:filesystem", "-tag:write", "exec"), {"read", "exec"}),
        (("read", "-read"), set()),
        (("-exec",), {"read", "write", "web_search", "web_fetch", "bare"}),
        (("-tag:filesystem", "-tag:network"), {"exec", "bare"}),
        (("set:filesystem",), {"read", "write"}),
        (("set:research",), {"web_search", "web_fetch"}),
        (("set:research", "-web_search"), {"web_fetch"}),
        (("set:careful",), {"web_search", "read"}),
        (("set:careful", "web_fetch"), {"web_search", "web_fetch", "read"}),
        (("set:most",), set(TAGS) - {"exec"}),
        (("-set:most",), {"exec"}),
        (("set:nested", "-set:research"), {"read", "exec"}),
        (("tag:nothing",), set()),
        (("set:nothing",), set()),
    ],
)
def test_a_selection_picks_names_tags_and_sets_but_what_it_leaves_out(
    selection: tuple[str, ...], expected: set[str]
) -> None:
    assert picked(*selection) == expected


def test_what_does_not_exist_never_widens_what_allows_and_never_loosens_what_restricts() -> None:
    assert picked("read", "-set:nothing") == set(), "left out is unknown: nothing is left"
    assert picked("-set:nothing") == set()
    assert picked("set:nothing", unknown=True) == set(TAGS)
    assert picked("tag:shell", "-set:nothing", unknown=True) == {"exec"}


def test_a_tool_that_nobody_knows_has_no_tags_in_what_allows_and_all_in_what_restricts() -> None:
    sets = Toolsets()
    assert not sets.picks(["tag:shell"], "gone", lambda: None)
    assert not sets.picks(["-tag:shell"], "gone", lambda: None)
    assert sets.picks(["gone", "tag:shell"], "gone", lambda: None)
    assert sets.picks(["tag:shell"], "gone", lambda: None, unknown=True)


def test_tags_are_not_looked_up_where_names_decide() -> None:
    def looked_up() -> frozenset[str]:
        raise AssertionError

    assert Toolsets(SETS).picks(["set:research"], "web_fetch", looked_up)
    assert not Toolsets().picks(["read", "-exec"], "exec", looked_up)


@pytest.mark.parametrize("part", ["", "-", "tag:", "-set:", " read", "read ", "--read", "- read"])
def test_what_is_no_selection_is_refused(part: str) -> None:
    assert f"`{part}` should be a tool's name" in str(find_fault(["read", part]))
    with pytest.raises(ValidationError, match="should be a tool's name"):
        Config.model_validate({"tools": {"disabled": ["read", part]}})


def test_the_sets_that_are_built_in_name_no_other_set_and_have_a_description() -> None:
    assert {each.name for each in BUILT_IN} == {
        "filesystem", "shell", "memory", "conversation", "network", "notebook", "agents", "index"
    }  # fmt: skip
    assert all(each.description and not any("set:" in part for part in each.tools) for each in BUILT_IN)


def test_a_set_within_itself_is_found_whatever_the_way() -> None:
    assert cycle(SETS) == ()
    assert cycle({"a": ("set:b",), "b": ("read", "-set:c"), "c": ("set:b",)}) == ("b", "c", "b")
    assert cycle({"a": ("set:a",)}) == ("a", "a")
    with pytest.raises(ValidationError, match="a set cannot be part of itself: a > b > a"):
        Config.model_validate({"tools": {"sets": {"a": ["set:b"], "b": ["set:a"]}}})


@pytest.mark.parametrize(("name", "why"), [("shell", "is built in"), ("my set", "should be a name"), ("", "name")])
def test_a_set_has_a_name_of_its_own(name: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Config.model_validate({"tools": {"sets": {name: ["read"]}}})


def test_what_runs_without_asking_must_be_said() -> None:
    with pytest.raises(ValidationError, match="should name what runs without asking"):
        Config.model_validate({"policy": {"auto_allow": ["-exec"]}})


OWN = {"answer": "answer", "chat.helpers.answer": "chat.helpers.answer", "clerk.tools.answer": "clerk.tools.answer"}


@pytest.mark.promise("P-tools-per-user")
def test_a_set_of_an_agent_names_its_own_tools_and_no_others_of_that_name() -> None:
    sets = Toolsets({"chat/helpers": ["answer", "read"], "all": ["answer"]}, lambda name: OWN.get(name, ""))

    def chosen(*selection: str) -> list[str]:
        return [name for name in [*OWN, "read"] if sets.picks(selection, name, frozenset)]

    assert chosen("set:chat/helpers") == ["chat.helpers.answer", "read"]
    assert chosen("set:all") == chosen("answer") == ["answer"], "a tool is really called so"
    assert chosen("clerk.tools.answer") == ["clerk.tools.answer"]
    assert chosen("-answer") == ["read"], "in doubt none of them"


@pytest.mark.promise("P-tools-per-user")
def test_an_older_name_allows_the_one_tool_that_it_stands_for() -> None:
    sets = Toolsets({}, {"answer": "clerk.tools.answer"}.get)  # type: ignore[arg-type]  # each name is there
    assert sets.picks(["answer"], "clerk.tools.answer", frozenset)
    assert not sets.picks(["answer"], "chat.helpers.answer", frozenset)
    assert sets.picks(["answer"], "chat.helpers.answer", frozenset, unknown=True), "what restricts holds all"
