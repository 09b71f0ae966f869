"""Whether a call runs, asks or is refused."""

from itertools import product

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import User, Users
from goclaw.common.config.policies import RoleSettings
from goclaw.common.config.schema import Config
from goclaw.common.config.values import Answer, Mode
from goclaw.common.specs import Risk, ToolSpec
from goclaw.tools.approval.policy import apply_table, decide
from tests.common.auth.test_access import actor
from tests.tables import table

MODES: tuple[Mode, ...] = ("default", "accept-edits", "plan", "bypass")
TABLE: dict[Risk, tuple[Answer, Answer, Answer, Answer]] = {
    Risk.NONE: ("run", "run", "run", "run"),
    Risk.LOW: ("run", "run", "run", "run"),
    Risk.MEDIUM: ("run", "run", "refuse", "run"),
    Risk.CONTAINED: ("run", "run", "refuse", "run"),
    Risk.HIGH: ("ask", "ask", "refuse", "run"),
    Risk.CRITICAL: ("ask", "ask", "refuse", "run"),
}


@pytest.mark.promise("P-what-runs-what-asks")
@table("risk, mode", list(product(Risk, MODES)))
def test_every_cell_of_the_table(risk: Risk, mode: Mode) -> None:
    assert apply_table(mode, risk) == TABLE[risk][MODES.index(mode)]


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_that_wants_confirmation_counts_as_critical(mode: Mode) -> None:
    assert apply_table(mode, Risk.NONE, confirm=True) == TABLE[Risk.CRITICAL][MODES.index(mode)]


def test_configuration_can_make_a_row_stricter_but_never_milder() -> None:
    assert apply_table("default", Risk.MEDIUM, stricter={"medium": "ask"}) == "ask"
    assert apply_table("bypass", Risk.HIGH, stricter={"high": "refuse"}) == "refuse"
    assert apply_table("plan", Risk.MEDIUM, stricter={"medium": "ask"}) == "refuse"
    assert apply_table("default", Risk.LOW, stricter={"medium": "ask"}) == "run"


@table(
    "roles, expected",
    [
        (("plain",), "run"),
        (("asking",), "ask"),
        (("asking", "plain"), "ask"),
        (("admin", "asking"), "ask"),
        (("nothing",), "run"),
    ],
)
def test_a_role_asks_for_its_people_alone(roles: tuple[str, ...], expected: Answer) -> None:
    config = Config(roles={"asking": RoleSettings(always_ask=("set:shell",)), "plain": RoleSettings()})
    rules = Access(Users([User("tui:ann", roles=frozenset(roles)), User("tui:bob")]), config)
    spec = ToolSpec("exec", "", {}, risk=Risk.CONTAINED, tags=frozenset({"shell"}))
    rules.learn(lambda name: spec, str)
    assert decide(rules, actor("tui:ann"), spec, Risk.CONTAINED) == expected
    assert decide(rules, actor("tui:bob"), spec, Risk.CONTAINED) == "run"
    behalf = actor("tui:bob", behalf=(actor("tui:ann"),))
    assert decide(rules, behalf, spec, Risk.CONTAINED) == expected, "one who acts for them asks for them"


def test_two_roles_that_ask_for_nothing_of_it_leave_a_call_alone() -> None:
    config = Config(roles={"asking": RoleSettings(always_ask=("tag:network",))})
    rules = Access(Users([User("tui:ann", roles=frozenset({"asking"}))]), config)
    spec = ToolSpec("read", "", {}, risk=Risk.LOW, tags=frozenset({"filesystem"}))
    assert decide(rules, actor("tui:ann"), spec, Risk.LOW) == "run"
