"""The sandbox policy for the commands of tools: see `sandbox.policy`."""

from goclaw.audit import AuditEntry
from goclaw.sandbox.base import Policy
from goclaw.sandbox.policy import policy_for
from goclaw.toolkit.base import ToolContext


async def policy_of(ctx: ToolContext) -> Policy:
    """Return the policy of one call; raises as `policy_for` does."""

    def told(place: str, reached: bool, why: str) -> None:
        rule = "tools.network"
        ctx.environment.audit(
            AuditEntry("exec.connect", place, ctx.actor, ctx.session, reached, rule, why, turn=ctx.turn)
        )

    return await policy_for(ctx.config, ctx.home.root, ctx.actor.key, told)
