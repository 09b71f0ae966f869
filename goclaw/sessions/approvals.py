"""Approval of tool calls: by a stored rule, or by a person's answer now.

One object per turn. A consent holds for exactly the call that was shown (`Consent.digest`); the dispatcher checks it
again right before running the call (`Consent.lapsed`).
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from goclaw.access import Access
from goclaw.audit import AuditEntry
from goclaw.clock import Clock
from goclaw.engine.base import Turn
from goclaw.errors import ToolError
from goclaw.events import ALLOW, ALWAYS, DENY, Actor, Question, TurnEvent
from goclaw.messages import ToolCall
from goclaw.records import record
from goclaw.sessions.questions import Questions, RecordedAnswer
from goclaw.sessions.wording import SHOWN_INPUT, asking_text, is_long, whole_call
from goclaw.store.approvals import ApprovalRule, ApprovalRules
from goclaw.toolkit.consent import ApprovalRequest, Consent

PauseBudget = Callable[[], AbstractContextManager[None]]
"""Stops the turn's clock while waiting for a person."""
AGAIN = "a call like it was denied in this turn already, and nobody was asked again"


@record
class ApprovalPorts:
    """The services that approvals use beside the questions."""

    access: Access
    audit: Callable[[AuditEntry], None]
    clock: Clock
    rules: ApprovalRules


@record
class TurnQuestions:
    """Questions of the tools of one turn; the turn's clock is stopped while they are open."""

    questions: Questions
    ports: ApprovalPorts
    turn: Turn
    pause: PauseBudget
    was_denied: Callable[[ToolCall], bool]
    """Whether a person said no in this turn to the call or one much like it."""
    agent: str = ""
    """The name of the subagent that asks; empty for the agent that answers the person."""
    prefix: str = ""
    """Begins the names of that agent's steps."""

    async def approve(self, wanted: ApprovalRequest) -> Consent:
        """May this call run?"""
        if rules := await self._rules(wanted):
            self._record_rules(wanted, rules)
            return Consent(
                wanted.digest, lapsed=lambda: "" if self._hold(rules) else "the rule that allowed it is void"
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
            await self._remember(wanted, asked, answer)
        return Consent(asked.digest, by=answer.actor, lapsed=lambda: self._lapsed(asked, answer))

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the person, and return the answer; None when the person declines.

        Raises:
            ToolError: the person declined, and the question requires an answer.
        """
        if self.agent:
            question = replace(question, title=f"{question.title} (the agent {self.agent})")
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

    def _lapsed(self, asked: Question, answer: RecordedAnswer) -> str:
        """Return why an approval that was given does not hold any more."""
        if self.questions.left_of(answer) < 0:
            return "its approval is too old"
        if not self.questions.may_answer(answer.actor, asked, self.turn.inbound.session):
            return "whoever approved it may not do so any more"
        return ""

    async def _rules(self, wanted: ApprovalRequest) -> list[ApprovalRule]:
        """Return the rules that together allow every part of the call; none where one part has none."""
        if not wanted.pattern or self.turn.inbound.actor.behalf:
            return []
        kept = await self.ports.rules.matching(self._asker, wanted.call.name, wanted.place)
        found = {rule.pattern: rule for rule in kept if self._hold([rule])}
        return [found[part] for part in wanted.pattern] if set(wanted.pattern) <= found.keys() else []

    def _hold(self, rules: list[ApprovalRule]) -> bool:
        """Whether the makers of all rules may still approve such calls."""
        access = self.ports.access
        return all(
            access.authorize(maker, "question.answer", rule.holder).allowed
            and access.authorize(maker, "tool.use", rule.tool).allowed
            for rule in rules
            for maker in (Actor(rule.made_by, "", owner=rule.by_owner),)
        )

    async def _remember(self, wanted: ApprovalRequest, asked: Question, answer: RecordedAnswer) -> None:
        now = self.ports.clock.now()
        await self.ports.rules.add(
            [
                ApprovalRule(
                    asked.id, self._asker, wanted.call.name, wanted.place, part, label, answer.by, answer.owner, now
                )
                for part, label in zip(wanted.pattern, wanted.labels, strict=True)
            ]
        )

    def _record_rules(self, wanted: ApprovalRequest, rules: list[ApprovalRule]) -> None:
        turn, numbers = self.turn, ", ".join(str(rule.id) for rule in rules)
        makers = ", ".join(sorted({rule.made_by for rule in rules}))
        rule = f"approval rule {numbers}, made by {makers}"
        inbound = turn.inbound
        self.ports.audit(
            AuditEntry(
                "tool.approval",
                wanted.call.name,
                inbound.actor,
                inbound.session,
                rule=rule,
                result="rule",
                turn=turn.id,
                tags=self.ports.access.tags(wanted.call.name),
            )
        )


@record
class ExternalCaller:
    """A caller outside any session, such as an MCP client (see `sessions.external_runs`)."""

    approve: Callable[[ApprovalRequest, str], Awaitable[Consent]]
    """Asks it whether a call may run, of the agent with this name. Raises ToolError where it cannot be asked."""
    ask: Callable[[Question, str], Awaitable[str | None]]
    emit: Callable[[TurnEvent], None]
    """Shows it what is done for it."""


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
            return await self.caller.approve(wanted, self.agent)

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the caller, and return the answer. Raises ToolError where the caller cannot be asked."""
        with self.pause():
            return await self.caller.ask(question, step)
