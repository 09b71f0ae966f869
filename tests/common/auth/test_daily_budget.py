"""What one person may use in a day: roles before limits, of several roles the lowest, each unit by itself."""

import pytest

from goclaw.common.auth.access import Access
from goclaw.common.auth.daily_budget import UNLIMITED, DailyBudget
from goclaw.common.auth.users import User, Users
from goclaw.common.config.policies import LimitSettings, RoleSettings
from goclaw.common.config.schema import Config
from tests.tables import table

ROLES = {
    "rich": RoleSettings(daily_cost=9, daily_tokens=900),
    "poor": RoleSettings(daily_cost=1),
    "free": RoleSettings(),
}


@pytest.mark.promise("P-daily-budget")
@table(
    "roles, cost, tokens",
    [
        ((), "limits.daily_cost 4", "limits.daily_tokens 500"),
        (("free",), "limits.daily_cost 4", "limits.daily_tokens 500"),
        (("rich",), "roles.rich.daily_cost 9", "roles.rich.daily_tokens 900"),
        (("poor",), "roles.poor.daily_cost 1", "limits.daily_tokens 500"),
        (("rich", "poor", "free"), "roles.poor.daily_cost 1", "roles.rich.daily_tokens 900"),
        (("nothing",), "limits.daily_cost 4", "limits.daily_tokens 500"),
    ],
)
def test_roles_go_before_limits_and_the_lowest_counts(roles: tuple[str, ...], cost: str, tokens: str) -> None:
    config = Config(roles=ROLES, limits=LimitSettings(daily_cost=4, daily_tokens=500))
    found = Access(Users([User("tui:ann", roles=frozenset(roles))]), config).daily_budget("tui:ann")
    assert f"{found.cost_key} {found.cost:g}" == cost
    assert f"{found.tokens_key} {found.tokens}" == tokens


def test_one_who_is_not_listed_has_the_limits_of_everyone() -> None:
    config = Config(roles=ROLES, limits=LimitSettings(daily_cost=4))
    assert Access(Users(), config).daily_budget("tui:me").cost == 4
    assert Access(Users(), Config()).daily_budget("tui:me") is UNLIMITED


def test_a_budget_reads_as_people_say_it() -> None:
    assert str(UNLIMITED) == "no limit"
    assert str(DailyBudget(500_000, "", 0.5, "")) == "$0.50, 500,000 tokens"
