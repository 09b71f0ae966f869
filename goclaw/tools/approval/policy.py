"""The policy: whether a tool call runs, asks a person first, or is refused.

Rights come first: `Access.authorize` decides whether the actor may use the tool at all.
"""

from collections.abc import Mapping
from typing import Literal

from goclaw.common.auth.access import Access, ChosenMode
from goclaw.common.config.values import Answer, Mode, Row
from goclaw.common.core.events import Actor
from goclaw.common.specs import Risk, ToolSpec

_STRICTNESS: tuple[Answer, ...] = ("run", "ask", "refuse")
_TABLE: Mapping[Row, Mapping[Mode, Answer]] = {
    "low": {"default": "run", "accept-edits": "run", "plan": "run", "bypass": "run"},
    "medium": {"default": "run", "accept-edits": "run", "plan": "refuse", "bypass": "run"},
    "contained": {"default": "run", "accept-edits": "run", "plan": "refuse", "bypass": "run"},
    "high": {"default": "ask", "accept-edits": "ask", "plan": "refuse", "bypass": "run"},
    "critical": {"default": "ask", "accept-edits": "ask", "plan": "refuse", "bypass": "run"},
}
"""The table "What runs, what asks" of docs/configuration.md."""
_ROW: Mapping[Risk, Row] = {
    Risk.NONE: "low",
    Risk.LOW: "low",
    Risk.MEDIUM: "medium",
    Risk.CONTAINED: "contained",
    Risk.HIGH: "high",
    Risk.CRITICAL: "critical",
}


def decide(access: Access, actor: Actor, spec: ToolSpec, risk: Risk, *, chosen: ChosenMode | None = None) -> Answer:
    """Return whether an authorized call of the tool runs, asks or is refused.

    `risk` is that of this call, at least the one that the tool's annotations imply; `chosen` the session's mode.
    """
    policy = access.config.policy
    risk = spec.at_least(risk)
    is_named = any(name in policy.auto_allow for name in access.names(spec.id))
    is_critical = risk is Risk.CRITICAL or spec.confirm is not None
    return apply_table(
        access.mode(actor, chosen),
        risk,
        confirm=spec.confirm is not None,
        stricter=policy.stricter,
        auto_allow=access.select([policy.auto_allow], spec) and (is_named or not is_critical),
        always_ask=access.always_asks(actor, spec),
    )


def apply_table(
    mode: Mode,
    risk: Risk,
    *,
    confirm: bool = False,
    stricter: Mapping[Row, Literal["ask", "refuse"]] | None = None,
    auto_allow: bool = False,
    always_ask: bool = False,
) -> Answer:
    """Return whether an authorized call runs, asks a person first, or is refused.

    Args:
        mode: the actor's permission mode (`Access.mode`).
        risk: the risk of this call.
        confirm: whether the tool asks before every call; such a call counts as critical.
        stricter: `policy.stricter`, which only tightens the table, as `always_ask` does.
        auto_allow: run what the table would ask for; it overrides no refusal.
        always_ask: ask even where the table lets the call run.
    """
    row: Row = "critical" if confirm else _ROW[risk]
    by_table = _TABLE[row][mode]
    answers: tuple[Answer, ...] = (
        "run" if auto_allow and by_table == "ask" else by_table,
        (stricter or {}).get(row, "run"),
        "ask" if always_ask else "run",
    )
    return max(answers, key=_STRICTNESS.index)
