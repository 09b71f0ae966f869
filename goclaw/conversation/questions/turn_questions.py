"""Approval of tool calls: by a stored rule, or by a person's answer now.

One object per turn. An approval is valid for exactly the call that was shown (`Approval.digest`); the dispatcher
checks it again right before the call runs (`Approval.find_lapse`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from goclaw.common.core.events import ALLOW, ALWAYS, DENY, Question, TurnEvent
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.conversation.questions.question_messages import SHOWN_INPUT, asking_text, is_long, whole_call
from goclaw.conversation.questions.questions import Questions, RecordedAnswer
from goclaw.durable.engine.base import Turn
from goclaw.errors import ToolError
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.approval.rules import StandingApprovals

PauseBudget = Callable[[], AbstractContextManager[None]]
"""Stops the turn's clock while waiting for a person."""
AGAIN = "a call like it was denied in this turn already, and nobody was asked again"


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

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        """Return whether this call may run: by a stored rule, or by the person's answer."""
        if by_rule := await self.standing.approve(wanted, self.turn):
            return by_rule
        if self.was_denied(wanted.call):
            return Approval(refusal=AGAIN)
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
            identified = self.questions.with_new_id(question, self.turn)
            step = f"approve:{self.prefix}{wanted.step}"
            asked, answer = await self.questions.ask(self.turn, step, identified, text, whole)
        if answer.text not in (ALLOW, ALWAYS):
            in_time = "" if answer.by else " in time"
            return Approval(refusal=f"the user did not approve {wanted.call.name}{in_time}")
        if answer.text == ALWAYS and asked.digest == wanted.digest:
            await self.standing.add(wanted, self._asker, asked.id, answer.actor)
        return Approval(asked.digest, by=answer.actor, find_lapse=lambda: self._find_lapse(asked, answer))

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the person, and return the answer; None when the person declines.

        Raises:
            ToolError: the person declined, and the question requires an answer.
        """
        if self.agent:
            question = replace(question, title=f"{question.title} (the agent {self.agent})")
        title, text, *options = map(mask_known, (question.title, question.text, *question.options))
        question = replace(question, title=title, text=text, options=tuple(options))
        identified = self.questions.with_new_id(question, self.turn)
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

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        """Return the approval of a standing rule, or a refusal."""
        by_rule = await self.standing.approve(wanted, self.turn)
        return by_rule or Approval(refusal=f"{wanted.call.name} needs approval, and {NO_PERSON}")

    async def ask(self, question: Question, step: str) -> str | None:
        """Return None for a question that may be declined. Raises ToolError for any other."""
        if question.required:
            raise ToolError(NO_PERSON)
        return None


class ExternalCaller(Protocol):
    """A caller outside any session, such as an MCP client (see `turns.external_runs`)."""

    async def approve_for_agent(self, wanted: ApprovalRequest, agent: str) -> Approval:
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

    async def approve(self, wanted: ApprovalRequest) -> Approval:
        """Ask the caller whether this call may run. Raises ToolError where the caller cannot be asked."""
        if self.was_denied(wanted.call):
            return Approval(refusal=AGAIN)
        with self.pause():
            return await self.caller.approve_for_agent(wanted, self.agent)

    async def ask(self, question: Question, step: str) -> str | None:
        """Ask the caller, and return the answer. Raises ToolError where the caller cannot be asked."""
        with self.pause():
            return await self.caller.ask(question, step)
