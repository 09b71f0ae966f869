"""Approval of tool calls: by a stored rule, or by a person's answer now.

One object per turn. A consent holds for exactly the call that was shown (`Consent.digest`); the dispatcher checks it
again right before running the call (`Consent.lapsed`).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import ALLOW, ALWAYS, DENY, Actor, Question, TurnEvent
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.conversation.approvals.question_messages import SHOWN_INPUT, asking_text, is_long, whole_call
from goclaw.conversation.approvals.questions import Questions, RecordedAnswer
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.approvals import ApprovalRule, ApprovalRules
from goclaw.errors import ToolError
from goclaw.tools.toolkit.consent import ApprovalRequest, Consent

PauseBudget = Callable[[], AbstractContextManager[None]]
"""Stops the turn's clock while waiting for a person."""
AGAIN = "a call like it was denied in this turn already, and nobody was asked again"


@record
class StandingApprovals:
    """The stored rules, which count as far as the people who made them may still approve."""

    access: Access
    audit: Callable[[AuditEntry], None]
    clock: Clock
    rules: ApprovalRules

    async def matching(self, wanted: ApprovalRequest, holder: str) -> list[ApprovalRule]:
        """Return the rules of a person that together allow every part of the call; none where one part has none."""
        if not wanted.pattern:
            return []
        kept = await self.rules.matching(holder, wanted.call.name, wanted.place)
        found = {rule.pattern: rule for rule in kept if self.hold([rule])}
        return [found[part] for part in wanted.pattern] if set(wanted.pattern) <= found.keys() else []

    def hold(self, rules: Sequence[ApprovalRule]) -> bool:
        """Whether the makers of all rules may still approve such calls."""
        return all(
            self.access.authorize(maker, "question.answer", rule.holder).allowed
            and self.access.authorize(maker, "tool.use", rule.tool).allowed
            for rule in rules
            for maker in (Actor(rule.made_by, "", owner=rule.by_owner),)
        )

    async def remember(self, wanted: ApprovalRequest, holder: str, asked: Question, answer: RecordedAnswer) -> None:
        """Make rules of an answer that allows such calls for good."""
        tool, place, now = wanted.call.name, wanted.place, self.clock.now()
        await self.rules.add(
            [
                ApprovalRule(asked.id, holder, tool, place, part, label, answer.by, answer.owner, now)
                for part, label in zip(wanted.pattern, wanted.labels, strict=True)
            ]
        )

    def record_use(self, turn: Turn, tool: str, rules: Sequence[ApprovalRule]) -> None:
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


@record
class TurnQuestions:
    """Questions of the tools of one turn; the turn's clock is stopped while they are open."""

    questions: Questions
    standing: StandingApprovals
    turn: Turn
    pause: PauseBudget
    was_denied: Callable[[ToolCall], bool]
    """Whether a person said no in this turn to the call or one much like it."""
    agent: str = ""
    """The name of the subagent that asks; empty for the agent that answers the person."""
    prefix: str = ""
    """Begins the names of that agent's steps."""

    async def approve(self, wanted: ApprovalRequest) -> Consent:
        """Return whether this call may run: by a stored rule, or by the person's answer."""
        # An actor on behalf of others has none of their rules.
        rules = [] if self.turn.inbound.actor.behalf else await self.standing.matching(wanted, self._asker)
        if rules:
            self.standing.record_use(self.turn, wanted.call.name, rules)
            return Consent(
                wanted.digest, lapsed=lambda: "" if self.standing.hold(rules) else "the rule that allowed it is void"
            )
        if self.was_denied(wanted.call):
            return Consent(refusal=AGAIN)
        question = Question(
            id="",
            kind="approval",
            asker=self._asker,
            title=f"May {wanted.call.name} run?{f' (the agent {self.agent})' if self.agent else ''}",
            text=asking_text(wanted),
            options=(ALLOW, ALWAYS, DENY) if wanted.pattern else (ALLOW, DENY),
            free_text=False,
            required=True,
            about=wanted.call.name,
            digest=wanted.digest,
        )
        text = asking_text(wanted, SHOWN_INPUT)
        whole = whole_call(wanted.call) if is_long(wanted.call) else ""
        with self.pause():
            identified = self.questions.identified(question, self.turn)
            step = f"approve:{self.prefix}{wanted.step}"
            asked, answer = await self.questions.ask(self.turn, step, identified, text, whole)
        if answer.text not in (ALLOW, ALWAYS):
            in_time = "" if answer.by else " in time"
            return Consent(refusal=f"the user did not approve {wanted.call.name}{in_time}")
        if answer.text == ALWAYS and asked.digest == wanted.digest:
            await self.standing.remember(wanted, self._asker, asked, answer)
        return Consent(asked.digest, by=answer.actor, lapsed=lambda: self._find_lapse(asked, answer))

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the person, and return the answer; None when the person declines.

        Raises:
            ToolError: the person declined, and the question requires an answer.
        """
        if self.agent:
            question = replace(question, title=f"{question.title} (the agent {self.agent})")
        title, text, *options = map(mask_known, (question.title, question.text, *question.options))
        question = replace(question, title=title, text=text, options=tuple(options))
        identified = self.questions.identified(question, self.turn)
        with self.pause():
            _, answer = await self.questions.ask(self.turn, f"ask:{self.prefix}{step}", identified, question.text)
        if answer.declined or not answer.text:
            if question.required:
                raise ToolError("the user cancelled the question")
            return None
        return answer.text

    @property
    def _asker(self) -> str:
        return self.turn.inbound.actor.key

    def _find_lapse(self, asked: Question, answer: RecordedAnswer) -> str:
        """Return why an approval that was given does not hold any more."""
        if self.questions.left_of(answer) < 0:
            return "its approval is too old"
        if not self.questions.may_answer(answer.actor, asked, self.turn.inbound.session):
            return "whoever approved it may not do so any more"
        return ""


NO_PERSON = "nobody is there to ask: a scheduled or unattended turn may only do what needs no approval"


@record
class UnattendedQuestions:
    """Refuses what would ask, in a turn for which no person waits; standing rules of its actor still apply.

    The reason reaches the model as the call's result, and the person with the turn's answer.
    """

    standing: StandingApprovals
    turn: Turn

    async def approve(self, wanted: ApprovalRequest) -> Consent:
        """Return the consent of a standing rule, or a refusal."""
        actor = self.turn.inbound.actor
        rules = [] if actor.behalf else await self.standing.matching(wanted, actor.key)
        if not rules:
            return Consent(refusal=f"{wanted.call.name} needs approval, and {NO_PERSON}")
        self.standing.record_use(self.turn, wanted.call.name, rules)
        return Consent(
            wanted.digest, lapsed=lambda: "" if self.standing.hold(rules) else "the rule that allowed it is void"
        )

    async def ask(self, question: Question, step: str) -> str | None:
        """Return None for a question that may be declined. Raises ToolError for any other."""
        if question.required:
            raise ToolError(NO_PERSON)
        return None


class ExternalCaller(Protocol):
    """A caller outside any session, such as an MCP client (see `turns.external_runs`)."""

    async def approve_for_agent(self, wanted: ApprovalRequest, agent: str) -> Consent:
        """Ask it whether a call of the agent with this name may run. Raises ToolError where it cannot be asked."""

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask it a question. Raises ToolError where it cannot be asked."""

    def emit(self, event: TurnEvent) -> None:
        """Show it the work done for it."""


@record
class CallerQuestions:
    """Questions for a caller outside any session; rules that people made in sessions do not apply."""

    caller: ExternalCaller
    pause: PauseBudget
    was_denied: Callable[[ToolCall], bool]
    agent: str

    async def approve(self, wanted: ApprovalRequest) -> Consent:
        """Ask the caller whether this call may run. Raises ToolError where the caller cannot be asked."""
        if self.was_denied(wanted.call):
            return Consent(refusal=AGAIN)
        with self.pause():
            return await self.caller.approve_for_agent(wanted, self.agent)

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the caller, and return the answer. Raises ToolError where the caller cannot be asked."""
        with self.pause():
            return await self.caller.ask(question, step)
