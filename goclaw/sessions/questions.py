"""Questions to people while a turn waits: may this call run, and what `ask_user` wants to know.

A question is on disk before anybody sees it, so that it survives a restart with its turn. Its answer reaches the turn
and not the queue. An approval is answered by its id only; a plain message answers an `ask_user` question of the same
person in the same session.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import orjson

from goclaw.access import Access
from goclaw.clock import Clock
from goclaw.codec import Codec
from goclaw.engine.base import Turn
from goclaw.engine.journal import Parked
from goclaw.errors import ToolError
from goclaw.events import (
    ALLOW,
    DENY,
    GONE,
    LOCAL,
    Actor,
    Delivery,
    Question,
    QuestionAnswered,
    QuestionAsked,
    TurnEvent,
)
from goclaw.messages import ToolCall
from goclaw.redact import mask_order, revealed
from goclaw.store.database import Bound
from goclaw.supervise import background

log = logging.getLogger(__name__)

APPROVAL_SECONDS = 30 * 60.0
"""How long an approval waits: an approval that is forgotten must not fire days later."""
ID_BYTES = 5
"""40 random bits: short enough to type, and an answer needs the right to answer besides."""
SHOWN_INPUT = 3_000
"""Characters of a call's arguments that a person is shown; of a longer text the beginning and the end."""
LONGEST_NUMBER = 3
"""Digits of an option's number; Python refuses to read a number of thousands of digits."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person said, as the journal keeps it."""

    text: str
    by: str = ""
    """Actor key; empty: nobody answered in time."""
    declined: bool = False
    """The person does not want to answer."""


_QUESTION: Codec[Question] = Codec(Question)
_ANSWER: Codec[Answer] = Codec(Answer)


class Signal(Protocol):
    """Answers a parked turn: `engine.journal.Journal.answer`."""

    async def __call__(self, turn: str, name: str, answer: str, *also: Bound) -> bool: ...


@dataclass(frozen=True, slots=True)
class QuestionPorts:
    """What questions stand on."""

    access: Access
    clock: Clock
    publish: Callable[[TurnEvent], None]
    promise: Callable[[Delivery], Awaitable[bool]]
    """Puts a message to a chat into the outbox; the same id again does nothing."""
    signal: Signal


@dataclass(frozen=True, slots=True)
class _Open:
    turn: str
    session: str
    step: str
    question: Question
    until: float | None
    """When its time is over, on a clock that nobody can set and that goes on while the machine sleeps."""


class Questions:
    """All questions that are open."""

    def __init__(self, ports: QuestionPorts) -> None:
        self._ports = ports
        self._open: dict[str, _Open] = {}

    def restore(self, parked: Sequence[Parked]) -> None:
        """Know the questions of an earlier run before anybody can answer them: their turns come to them later."""
        for item in parked:
            question = _QUESTION.from_json(item.question)
            self._note(item.turn, item.session, item.step, question, self._left(question))

    def turn_ended(self, turn: str) -> None:
        """Forget what a turn was asked before a restart and did not come to again: its rights were taken away, say."""
        for item in [item for item in self._open.values() if item.turn == turn]:
            del self._open[item.question.id]

    def of(self, session: str) -> tuple[Question, ...]:
        """The open questions of a session, oldest first."""
        return tuple(item.question for item in self._open.values() if item.session == session)

    async def approve(self, turn: Turn, step: str, call: ToolCall, reason: str) -> bool:
        """Ask whether `call` may run; no answer in half an hour is no."""
        now = self._ports.clock.now()
        question = Question(
            id=secrets.token_hex(ID_BYTES),
            kind="approval",
            asker=turn.inbound.actor.key,
            title=f"May {call.name} run?",
            text=f"{reason}.\n\n{shown_call(call)}",
            options=(ALLOW, DENY),
            free_text=False,
            required=True,
            asked_at=now,
            expires_at=now + APPROVAL_SECONDS,
            about=call.name,
        )
        answer = await self._ask(turn, f"approve:{step}", question)
        log.info("%s of %s: %s by %s", question.kind, call.name, answer.text or "no answer", answer.by or "nobody")
        return answer.text == ALLOW

    async def ask(self, turn: Turn, step: str, question: Question) -> Answer:
        """Ask what `ask_user` wants to know; waits for days if need be."""
        identified = replace(
            question,
            id=secrets.token_hex(ID_BYTES),
            asker=turn.inbound.actor.key,
            asked_at=self._ports.clock.now(),
        )
        return await self._ask(turn, f"ask:{step}", identified)

    def waiting_for(self, actor: Actor, session: str) -> Question | None:
        """The oldest question that a plain message of `actor` in `session` answers; never an approval."""
        for item in self._open.values():
            question = item.question
            if item.session == session and question.kind == "question" and question.asker == actor.key:
                return question
        return None

    async def decide(self, actor: Actor, question_id: str, text: str, *also: Bound) -> str:
        """Answer the question with this id; `also` is written in the same transaction, whatever becomes of it.

        Returns a sentence for the person: the same one for a question that is gone and one that is not theirs.
        """
        item = self._open.get(question_id)
        if item is None or self._is_over(item) or not self._may(actor, item):
            return GONE
        given = chosen(item.question, text)
        if given is None:
            return f"Please answer with one of: {', '.join(item.question.options)}."
        answer = _ANSWER.to_json(Answer(given, actor.key))
        if not await self._ports.signal(item.turn, item.step, answer, *also):
            return GONE
        return f"{'Allowed' if given == ALLOW else 'Denied'}." if item.question.kind == "approval" else "Thank you."

    async def choose(self, actor: Actor, question_id: str, index: int) -> str:
        """Answer with one of the question's options: what its button says, and nothing that a client made up."""
        item = self._open.get(question_id)
        if item is None or not 0 <= index < len(item.question.options):
            return GONE
        return await self.decide(actor, question_id, str(index + 1))  # as `chosen` reads it

    async def decline(self, actor: Actor, question_id: str) -> str:
        """Answer that there will be no answer: no for an approval."""
        item = self._open.get(question_id)
        if item is not None and item.question.kind == "approval":
            return await self.decide(actor, question_id, DENY)
        if item is None or not self._may(actor, item):
            return GONE
        answer = _ANSWER.to_json(Answer("", actor.key, declined=True))
        return "No answer given." if await self._ports.signal(item.turn, item.step, answer) else GONE

    def _is_over(self, item: _Open) -> bool:
        """Whether its time is over, though nobody noticed yet: a machine that sleeps counts no time."""
        return item.until is not None and self._ports.clock.awake_or_not() >= item.until

    def _left(self, question: Question) -> float | None:
        """Seconds until the time of a question is over, as the wall clock says when it is shown; never more than ever.

        Where that was set back while the daemon was away, an approval must not live for longer.
        """
        if question.expires_at is None:
            return None
        return min(APPROVAL_SECONDS, max(0.0, question.expires_at - self._ports.clock.now()))

    def _note(self, turn: str, session: str, step: str, question: Question, left: float | None) -> None:
        until = None if left is None else self._ports.clock.awake_or_not() + left
        self._open[question.id] = _Open(turn, session, step, question, until)

    def _may(self, actor: Actor, item: _Open) -> bool:
        authorize, question = self._ports.access.authorize, item.question
        rights = [("question.answer", question.asker), ("session.write", item.session)]
        if question.kind == "approval":
            rights.append(("tool.use", question.about))
        return all(authorize(actor, action, target).allowed for action, target in rights)

    async def _ask(self, turn: Turn, step: str, question: Question) -> Answer:
        session, asked = turn.inbound.session, question
        shown: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()

        async def show(kept: str) -> None:
            nonlocal asked
            asked = _QUESTION.from_json(kept)
            left = self._left(asked)
            shown.set_result(left)
            self._note(turn.id, session, step, asked, left)
            self._ports.publish(QuestionAsked(turn.id, session, asked))
            if turn.inbound.address.channel != LOCAL:
                text = in_words(asked)
                await self._ports.promise(Delivery(f"{turn.id}:{step}", turn.inbound.address, text))

        answer = Answer("")
        try:
            async with background(self._expire(turn.id, step, shown), f"expiry of {step}"):
                answer = _ANSWER.from_json(await turn.park(step, _QUESTION.to_json(question), show))
        finally:
            if self._open.pop(asked.id, None):
                self._ports.publish(QuestionAnswered(turn.id, session, asked.id, answer.text, answer.by))
        return answer

    async def _expire(self, turn: str, step: str, shown: "asyncio.Future[float | None]") -> None:
        """Answer with nothing when the time of the question is over; a restart does not lengthen it."""
        left = await shown
        if left is not None:
            await self._ports.clock.sleep(left)
            await self._ports.signal(turn, step, _ANSWER.to_json(Answer("")))


def chosen(question: Question, text: str) -> str | None:
    """The answer that somebody meant: an option by number or text, or free words; None when that is not taken."""
    said = text.strip()
    if said.isdecimal() and len(said) <= LONGEST_NUMBER and 1 <= int(said) <= len(question.options):
        return question.options[int(said) - 1]
    for option in question.options:
        if said.casefold() == option.casefold():
            return option
    return said if said and (question.free_text or not question.options) else None


def in_words(question: Question) -> str:
    """A question for a chat without cards."""
    lines = [f"**{question.title}**", question.text]
    if question.kind == "approval":
        lines.append(f"/approve {question.id} or /deny {question.id} (within {APPROVAL_SECONDS / 60:.0f} minutes)")
    elif question.options:
        lines.append("\n".join(f"{number}. {option}" for number, option in enumerate(question.options, 1)))
        lines.append("Answer with a number" + (" or in your own words." if question.free_text else "."))
    return "\n\n".join(line for line in lines if line)


def shown_call(call: ToolCall) -> str:
    """A call's arguments as code, secrets masked, and everything that would not be seen as its code."""
    text = revealed(mask_order(orjson.dumps(call.input, option=orjson.OPT_INDENT_2).decode()))
    left = len(text) - SHOWN_INPUT
    if left <= 0:
        return _fenced(text)
    # The end as well: what matters is easily pushed out of sight behind what does not.
    beginning, end = text[: SHOWN_INPUT // 2], text[-(SHOWN_INPUT // 2) :]
    missing = f"**{left:,} characters between these two parts are not shown. Deny the call unless you know them.**"
    return f"{_fenced(beginning)}\n\n{missing}\n\n{_fenced(end)}"


def _fenced(text: str) -> str:
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"{fence}json\n{text}\n{fence}"


PauseBudget = Callable[[], AbstractContextManager[None]]
"""Stops the turn's clock while a person is waited for."""


@dataclass(frozen=True, slots=True)
class TurnQuestions:
    """What the tools of one turn may ask; the turn's time stands still meanwhile."""

    questions: Questions
    turn: Turn
    pause: PauseBudget

    async def approve(self, call: ToolCall, reason: str, step: str) -> bool:
        """May `call` run?"""
        with self.pause():
            return await self.questions.approve(self.turn, step, call, reason)

    async def ask(self, question: Question, step: str) -> str | None:
        """The answer; None when the person does not want to give one.

        Raises:
            ToolError: none was given, and the question requires one.
        """
        with self.pause():
            answer = await self.questions.ask(self.turn, step, question)
        if answer.declined or not answer.text:
            if question.required:
                raise ToolError("the user cancelled the question")
            return None
        return answer.text
