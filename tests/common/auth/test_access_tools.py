"""Who may use which tool, and what becomes of a call: selections, modes and fixed arguments, cell by cell."""

from functools import cache
from itertools import product

import pytest

from goclaw.common.auth.access import Access, ChosenMode
from goclaw.common.auth.users import User, Users
from goclaw.common.config.policies import PolicySettings, RoleSettings
from goclaw.common.config.schema import Config
from goclaw.common.config.tools import ToolsSettings
from goclaw.common.config.values import Answer, Mode
from goclaw.common.specs import Annotations, Risk, ToolSpec
from goclaw.tools.approval.policy import decide
from tests.common.auth.test_access import BOSS, OWNER, SEVEN, STRANGER, actor
from tests.tables import table
from tests.tools.approval.test_policy import MODES, TABLE

MATRIX_ROLES = {
    "guest": RoleSettings(tools=("set:filesystem", "-tag:write")),
    "shell": RoleSettings(tools=("tag:shell", "mcp__x__wipe")),
    "most": RoleSettings(tools=("-tag:network",)),
    "lost": RoleSettings(tools=("read", "-set:misspelt")),
}
MATRIX_TOOLS: dict[str, tuple[frozenset[str], Risk]] = {
    "read": (frozenset({"filesystem", "read"}), Risk.LOW),
    "write": (frozenset({"filesystem", "write"}), Risk.MEDIUM),
    "exec": (frozenset({"shell"}), Risk.CONTAINED),
    "reach": (frozenset({"network"}), Risk.HIGH),
    "mcp__x__wipe": (frozenset({"mcp"}), Risk.CRITICAL),
}
"""A tool for each row of the table."""
MAY_USE: dict[tuple[str, ...], set[str]] = {
    (): set(MATRIX_TOOLS),
    ("admin",): set(MATRIX_TOOLS),
    ("guest",): {"read"},
    ("shell",): {"exec", "mcp__x__wipe"},
    ("guest", "shell"): {"read", "exec", "mcp__x__wipe"},
    ("most",): {"read", "write", "exec", "mcp__x__wipe"},
    ("lost",): set(),
}
"""What each set of roles allows to use, cell by cell."""
AUTO: dict[tuple[str, ...], set[str]] = {
    (): set(),
    ("reach", "mcp__x__wipe"): {"reach", "mcp__x__wipe"},
    ("tag:network", "tag:mcp"): {"reach"},
    ("set:network", "-reach"): set(),
    ("set:misspelt",): set(),
}
"""What each `policy.auto_allow` frees of what would ask: nothing critical but by its very name."""
ALWAYS: dict[tuple[str, ...], set[str]] = {
    (): set(),
    ("reach", "read"): {"reach", "read"},
    ("set:filesystem", "-write"): {"read"},
    ("set:misspelt",): set(MATRIX_TOOLS),
}
"""What each `policy.always_ask` has asked for; what cannot be judged, all of it."""


def specs_of_the_matrix() -> dict[str, ToolSpec]:
    return {
        name: ToolSpec(name, "", {}, risk=risk, tags=tags, annotations=Annotations(destructive=risk is Risk.CRITICAL))
        for name, (tags, risk) in MATRIX_TOOLS.items()
    }


PEOPLE = {roles: f"telegram:{70 + number}" for number, roles in enumerate(MAY_USE)}
"""Somebody with each set of roles."""


@cache
def gate_of(configured: Mode, bypass: bool, auto: tuple[str, ...], always: tuple[str, ...]) -> Access:
    """Return the one gate with this policy, before which all of them stand."""
    users = Users([*(User(key, roles=frozenset(roles)) for roles, key in PEOPLE.items()), BOSS])
    policy = PolicySettings(mode=configured, allow_bypass=bypass, auto_allow=auto, always_ask=always)
    gate = Access(users, Config(roles=MATRIX_ROLES, policy=policy))
    gate.learn(specs_of_the_matrix().get, str)
    return gate


def becomes(tool: str, mode: Mode, auto: tuple[str, ...], always: tuple[str, ...]) -> Answer:
    """The cell, from the declarations above."""
    by_table = TABLE[MATRIX_TOOLS[tool][1]][MODES.index(mode)]
    if by_table == "refuse":
        return "refuse"
    if tool in ALWAYS[always]:
        return "ask"
    return "run" if tool in AUTO[auto] else by_table


@pytest.mark.promise("P-what-runs-what-asks")
@pytest.mark.promise("P-roles")
@table("entry", ["telegram", "socket", "http", "cli"])
@table("roles", MAY_USE, ids=lambda roles: "+".join(roles) or "none")
def test_every_cell_of_what_becomes_of_a_call_is_as_declared(roles: tuple[str, ...], entry: str) -> None:
    """Role x mode, configured or chosen x row x auto_allow x always_ask, from every entry, alone and for others."""
    specs = specs_of_the_matrix()
    who = actor(PEOPLE[roles], entry=entry)
    child = actor(BOSS.key, entry=entry, behalf=(who,))
    for auto, always, wanted, bypass in product(AUTO, ALWAYS, MODES, (False, True)):
        in_force: Mode = "default" if wanted == "bypass" and not (bypass and "admin" in roles) else wanted
        ways: tuple[tuple[Mode, ChosenMode | None], ...] = (
            (wanted, None),
            ("default", ChosenMode(wanted, "default")),
            (wanted, ChosenMode("bypass", "default" if wanted != "default" else "plan")),  # lapsed
        )
        for configured, chosen in ways:
            gate = gate_of(configured, bypass, auto, always)
            for tool, spec in specs.items():
                cell = (roles, tool, configured, chosen, auto, always)
                for each in (who, child):
                    if chosen is None:  # in whether it may be used at all, what a session has chosen has no part
                        assert gate.authorize(each, "tool.use", tool).allowed is (tool in MAY_USE[roles]), cell
                    answer = decide(gate, each, spec, spec.risk, chosen=chosen)
                    assert answer == becomes(tool, in_force, auto, always), cell


def test_a_role_that_selects_by_tag_allows_nothing_before_the_tools_are_known() -> None:
    gate = Access(Users([User(SEVEN, roles=frozenset({"guest"}))]), Config(roles=MATRIX_ROLES))
    assert not gate.authorize(actor(SEVEN), "tool.use", "read").allowed
    gate.learn(specs_of_the_matrix().get, str)
    assert gate.authorize(actor(SEVEN), "tool.use", "read").allowed


@pytest.mark.parametrize(
    ("disabled", "left"),
    [
        (("tag:network",), {"read", "write", "exec", "mcp__x__wipe"}),
        (("set:filesystem", "-read"), {"read", "exec", "reach", "mcp__x__wipe"}),
        (("-read",), {"read"}),
        (("set:misspelt",), set()),
    ],
)
def test_what_is_disabled_by_tag_and_set_is_disabled_for_all(disabled: tuple[str, ...], left: set[str]) -> None:
    gate = Access(Users([BOSS]), Config(tools=ToolsSettings(disabled=disabled)))
    gate.learn(specs_of_the_matrix().get, str)
    for who in (actor(BOSS.key), OWNER):
        assert {name for name in MATRIX_TOOLS if gate.authorize(who, "tool.use", name).allowed} == left


@pytest.mark.parametrize(
    ("allowed", "may"),
    [
        ({"tag:filesystem"}, {"read", "write"}),
        ({"set:filesystem", "-write"}, {"read"}),
        ({"-tag:shell", "-tag:network"}, {"read", "write", "mcp__x__wipe"}),
        ({"-set:misspelt"}, set[str]()),
    ],
)
def test_allowed_tools_may_be_a_selection(allowed: set[str], may: set[str]) -> None:
    gate = Access(Users([User(SEVEN, allowed_tools=frozenset(allowed))]), Config())
    gate.learn(specs_of_the_matrix().get, str)
    assert {name for name in MATRIX_TOOLS if gate.authorize(actor(SEVEN), "tool.use", name).allowed} == may


FIXING = {
    "slow": RoleSettings(inputs={"exec": {"timeout": 90}}),
    "fast": RoleSettings(inputs={"exec": {"timeout": 10, "working_dir": "."}}),
    "plain": RoleSettings(),
}


@pytest.mark.parametrize(
    ("roles", "tool", "given", "fixed"),
    [
        (("fast",), "exec", {"command": "ls", "timeout": 5}, {"command": "ls", "timeout": 10, "working_dir": "."}),
        (("fast", "plain"), "exec", {"command": "ls"}, {"command": "ls", "timeout": 10, "working_dir": "."}),
        (("fast", "admin"), "exec", {}, {"timeout": 10, "working_dir": "."}),
        (("fast",), "read", {"path": "a"}, None),
        (("plain",), "exec", {"command": "ls"}, None),
    ],
)
def test_arguments_that_roles_fix_take_the_place_of_others(
    roles: tuple[str, ...], tool: str, given: dict[str, object], fixed: dict[str, object] | None
) -> None:
    gate = Access(Users([User(SEVEN, roles=frozenset(roles)), BOSS]), Config(roles=FIXING))
    for who in (actor(SEVEN), actor(BOSS.key, behalf=(actor(SEVEN),))):
        decision = gate.authorize(who, "tool.use", tool, given)
        assert decision.allowed and decision.input == fixed


def test_whoever_acts_for_people_with_different_fixed_arguments_may_not_use_the_tool() -> None:
    one, other = User("telegram:8", roles=frozenset({"slow"})), User("telegram:9", roles=frozenset({"fast"}))
    gate = Access(Users([one, other]), Config(roles=FIXING))
    assert gate.authorize(actor("telegram:8"), "tool.use", "exec").allowed
    decision = gate.authorize(actor("telegram:8", behalf=(actor("telegram:9"),)), "tool.use", "exec")
    assert not decision.allowed and "fixes it differently" in decision.rule


def test_who_may_choose_a_mode() -> None:
    gate = Access(Users([User(SEVEN), BOSS]), Config(policy=PolicySettings(mode="plan", allow_bypass=True)))
    seven, boss = actor(SEVEN), actor(BOSS.key)
    for who, mode, approved, may in (
        (seven, "plan", False, True),
        (seven, "default", False, False),
        (seven, "default", True, True),
        (seven, "bypass", True, False),
        (boss, "default", False, True),
        (boss, "bypass", False, True),
        (actor(BOSS.key, behalf=(seven,)), "bypass", False, False),
        (STRANGER, "plan", True, False),
    ):
        chosen: Mode = mode  # type: ignore[assignment]  # one of them each
        assert gate.may_choose(who, SEVEN, chosen, approved=approved).allowed is may, (who, mode)
    assert not gate.may_choose(seven, BOSS.key, "plan").allowed, "another's session"
