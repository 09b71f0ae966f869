"""Questions of a turn's tools: approval of calls, by a stored rule or by a person's answer now, and missing arguments.

One object per turn. An approval is valid for exactly the call that was shown (`Approval.digest`); the dispatcher
checks it again right before the call runs (`Approval.find_lapse`).

Of a call that lacks required arguments (`on_missing_fields`) one with names that the tool does not know is left to the
model: it probably means another field.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

import orjson

from goclaw.common.config.agents import MissingFields
from goclaw.common.core.events import ALLOW, ALWAYS, DENY, Question, TurnEvent
from goclaw.common.core.messages import ToolCall
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.common.specs import ToolSpec
from goclaw.conversation.questions.question_messages import (
    SHOWN_INPUT,
    always_label,
    asking_text,
    detailed,
    is_long,
    whole_call,
)
from goclaw.conversation.questions.questions import Questions, RecordedAnswer
from goclaw.durable.engine.base import Turn
from goclaw.errors import MissingArguments, ToolError
from goclaw.tools.approval.requests import Approval, ApprovalRequest
from goclaw.tools.approval.rules import StandingApprovals

PauseBudget = Callable[[], AbstractContextManager[None]]
"""Stops the turn's clock while waiting for a person."""
AGAIN = "a call like it was denied in this turn already, and nobody was asked again"
YES, NO = "yes", "no"


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
            title=self.questions.title_of(wanted, self._asker, self.agent),
            text=asking_text(wanted),
            options=(ALLOW, ALWAYS, DENY) if wanted.grounds.pattern else (ALLOW, DENY),
            free_text=False,
            required=True,
            about=wanted.tool,
            digest=wanted.digest,
            details=detailed(wanted),
            always=always_label(wanted),
        )
        text = asking_text(wanted, SHOWN_INPUT)
        whole = whole_call(wanted.call) if is_long(question) else ""
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


@record
class Clarifier:
    """Completes the calls of one turn."""

    mode: MissingFields
    ask: Callable[[Question, str], Awaitable[str | None]]
    """Asks a question under a step name. Raises ToolError where none can be asked."""
    person: str
    """Actor key of the person to ask."""

    async def complete(self, spec: ToolSpec, call: ToolCall, step: str) -> ToolCall:
        """Return the call with its missing arguments filled in by a person.

        Raises:
            MissingArguments: arguments are missing, and the policy asks no person.
            ToolError: the person declined to answer.
        """
        missing = missing_in(spec, call) if self.mode else ()
        if not missing:
            return call
        if self.mode != "await_clarification":
            raise MissingArguments(missing)
        given = {name: await self._ask(spec, name, step) for name in missing}
        return replace(call, input={**call.input, **given})

    async def _ask(self, spec: ToolSpec, name: str, step: str) -> Any:
        schema = spec.schema["properties"][name]
        choices = _choices(schema)
        about = f": {schema['description']}" if schema.get("description") else ""
        question = Question(
            id="",
            kind="question",
            asker=self.person,
            title=f"What should `{name}` be?",
            text=f"I need a value for `{name}` to use `{spec.name}`{about}",
            options=tuple(choices),
            free_text=not choices,
            required=True,
        )
        answer = await self.ask(question, f"{step}:{name}")
        if answer is None:
            raise ToolError("the user cancelled the question")
        return choices[answer] if answer in choices else parsed(answer, schema)


def missing_in(spec: ToolSpec, call: ToolCall) -> tuple[str, ...]:
    """Return the required arguments that a call lacks; none if it has any that the tool does not know."""
    known = spec.schema.get("properties", {})
    if not call.input.keys() <= known.keys():
        return ()
    return tuple(name for name in spec.schema.get("required", ()) if name not in call.input)


def parsed(text: str, schema: Mapping[str, Any]) -> Any:
    """Return a person's words as a value of the field's JSON type; words that are none are left for the validation."""
    kinds = _kinds(schema)
    if not kinds or "string" in kinds:
        return text
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return [part.strip() for part in text.split(",")] if "array" in kinds else text


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values a field may have, by the words for people; empty: too many to list."""
    if _kinds(schema) == {"boolean"}:
        return {YES: True, NO: False}
    return {str(value): value for value in schema.get("enum", ())}


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type", [])
    own = {declared} if isinstance(declared, str) else set(declared)
    return own.union(*(_kinds(each) for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()))))
