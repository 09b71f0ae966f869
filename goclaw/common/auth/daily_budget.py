"""The daily budget of a person: that of their roles, else that of `limits`, which is for everyone."""

from collections.abc import Mapping

from goclaw.common.config.policies import LimitSettings, RoleSettings
from goclaw.common.core.records import record


@record
class DailyBudget:
    """The budget of a person from midnight to midnight; None: unlimited."""

    tokens: int | None = None
    tokens_key: str = ""
    """The key of the configuration that says so."""
    cost: float | None = None
    """US dollars."""
    cost_key: str = ""

    def __str__(self) -> str:
        parts = [] if self.cost is None else [f"${self.cost:,.2f}"]
        parts += [] if self.tokens is None else [f"{self.tokens:,} tokens"]
        return ", ".join(parts) or "no limit"

    @classmethod
    def of(cls, roles: Mapping[str, RoleSettings], limits: LimitSettings) -> "DailyBudget":
        """Return the lowest that the roles say, else the limits' value; tokens and dollars each by themselves."""
        tokens = [
            (role.daily_tokens, f"roles.{name}.daily_tokens") for name, role in roles.items() if role.daily_tokens
        ]
        costs = [(role.daily_cost, f"roles.{name}.daily_cost") for name, role in roles.items() if role.daily_cost]
        least, tokens_key = min(tokens, default=(limits.daily_tokens, "limits.daily_tokens"))
        cheapest, cost_key = min(costs, default=(limits.daily_cost, "limits.daily_cost"))
        return cls(least, tokens_key, cheapest, cost_key)


UNLIMITED = DailyBudget()
