"""Standing approvals: stored rules that let calls run without asking, while their makers may still approve."""

from collections.abc import Callable, Sequence

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.approvals import ApprovalRule, ApprovalRules
from goclaw.tools.approval.requests import Approval, ApprovalRequest


@record
class StandingApprovals:
    """The stored rules, which count as far as the people who made them may still approve."""

    access: Access
    audit: Callable[[AuditEntry], None]
    clock: Clock
    rules: ApprovalRules

    async def approve(self, wanted: ApprovalRequest, turn: Turn) -> Approval | None:
        """Approve a call of the turn where rules of its actor allow every part of it, and audit that; else None."""
        actor = turn.inbound.actor
        if actor.behalf or not wanted.grounds.pattern:  # an actor on behalf of others has none of their rules
            return None
        names = self.access.names(wanted.tool)
        stored = [rule for name in names for rule in await self.rules.matching(actor.key, name, wanted.place)]
        valid = {rule.pattern: rule for rule in stored if self._are_valid([rule], wanted.tool)}
        if not set(wanted.grounds.pattern) <= valid.keys():
            return None
        rules = [valid[part] for part in wanted.grounds.pattern]
        self._record_use(turn, wanted.tool, rules)
        return Approval(
            wanted.digest,
            find_lapse=lambda: "" if self._are_valid(rules, wanted.tool) else "the rule that allowed it is void",
        )

    async def add(self, wanted: ApprovalRequest, holder: str, question: str, maker: Actor) -> None:
        """Store rules for the parts of a call that `maker` allowed for good in answer to `question` (its id)."""
        tool, place, now = wanted.tool, wanted.place, self.clock.now()
        await self.rules.add(
            [
                ApprovalRule(question, holder, tool, place, part, label, maker.key, maker.owner, now)
                for part, label in zip(wanted.grounds.pattern, wanted.grounds.labels, strict=True)
            ]
        )

    def _are_valid(self, rules: Sequence[ApprovalRule], tool: str) -> bool:
        """Whether the makers of all rules may still approve such calls of the tool with this id."""
        return all(
            self.access.authorize(maker, "question.answer", rule.holder).allowed
            and self.access.authorize(maker, "tool.use", tool).allowed
            for rule in rules
            for maker in (Actor(rule.made_by, "", owner=rule.by_owner),)
        )

    def _record_use(self, turn: Turn, tool: str, rules: Sequence[ApprovalRule]) -> None:
        """Audit that rules allow a call of a turn."""
        numbers = ", ".join(str(rule.id) for rule in rules)
        makers = ", ".join(sorted({rule.made_by for rule in rules}))
        inbound = turn.inbound
        self.audit(
            AuditEntry(
                "tool.approval",
                tool,
                inbound.actor,
                inbound.session,
                rule=f"approval rule {numbers}, made by {makers}",
                result="rule",
                turn=turn.id,
                tags=self.access.tags(tool),
            )
        )
