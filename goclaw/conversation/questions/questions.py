"""Questions to people while a turn waits: approvals of calls, and the questions of `ask_user`.

A question is on disk before it is shown, so that it survives a restart with its turn. Its answer goes to the turn
and not to the queue. An approval is answered by its id only; a plain message answers an `ask_user` question of the same
person in the same session. The right to answer is checked with `Access` at each answer, and never kept.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from goclaw.common.auth.access import Access
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.users import Users
from goclaw.common.core.bus import Bus
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import (
    ALLOW,
    ALWAYS,
    DENY,
    DETAILS,
    Acceptance,
    Actor,
    Address,
    AnswerRefusal,
    Question,
    QuestionAnswered,
    QuestionAsked,
)
from goclaw.common.core.records import BoundedDict, record
from goclaw.common.core.supervise import background
from goclaw.conversation.questions.prompt_files import ANSWERS, PromptFileQuestions
from goclaw.conversation.questions.question_messages import (
    NO_QUESTION,
    STARTING,
    QuestionMessages,
    answered,
    decision,
    heading,
    name_of,
    parse_choice,
)
from goclaw.conversation.sessions.pausing import STEP as PAUSE_STEP
from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.journal import Journal, Parked
from goclaw.durable.engine.outbox import Outbox
from goclaw.durable.store.database import BoundStatement
from goclaw.tools.approval.requests import ApprovalRequest
from goclaw.tools.toolkit.base import ToolEnvironment

log = logging.getLogger(__name__)

ID_SIGNS = "23456789abcdefghjkmnpqrstuvwxyz"
"""Characters of question ids, without those mistaken for others when typed."""
ID_LENGTH = 13
"""64 random bits; an answer requires the right to answer besides."""
DECIDED = "Already decided:"
"""The beginning of the reply to a second answer."""
_DONE = {ALLOW: "Allowed.", ALWAYS: "Always allowed from now on. /approvals lists it."}
MAX_DECIDED = 1_000
"""Maximum decided questions that are remembered."""


@record
class RecordedAnswer:
    """A person's answer, as the journal keeps it."""

    text: str
    by: str = ""
    """Actor key; empty: not answered in time."""
    declined: bool = False
    """The person declined to answer."""
    entry: str = ""
    """The way that the answer came in by."""
    owner: bool = False
    """Whether the operating system vouched for the person who answered."""
    at: float = 0.0
    """Epoch seconds."""

    @property
    def actor(self) -> Actor:
        """The person who answered."""
        return Actor(self.by, self.entry, owner=self.owner)


_QUESTION: Codec[Question] = Codec(Question)
_ANSWER: Codec[RecordedAnswer] = Codec(RecordedAnswer)


@record
class _Open:
    turn: str
    session: str
    step: str
    question: Question
    until: float | None
    """When its time is over, on a clock that cannot be set and that goes on while the machine sleeps."""


class Questions:
    """All questions that are open."""

    def __init__(
        self, *, access: Access, bus: Bus, environment: ToolEnvironment, journal: Journal, outbox: Outbox, users: Users
    ) -> None:
        self._access = access
        self._audit = environment.audit
        self._bus = bus
        self._clock = environment.clock
        self._journal = journal
        self._users = users
        self._approval_seconds = 60.0 * environment.config.policy.approval_minutes
        """Seconds for which an approval waits, and a given one holds: a forgotten one must not fire days later."""
        self._open: dict[str, _Open] = {}
        self._decided: BoundedDict[str, tuple[_Open, str]] = BoundedDict(MAX_DECIDED)
        self.prompt_files = PromptFileQuestions(environment, access=access, bus=bus, outbox=outbox, users=users)
        """Questions about prompt files, which belong to no turn."""
        self.besides: list[Callable[[Actor, str, str], Awaitable[Acceptance | None]]] = [self.prompt_files.answer]
        """Functions that answer questions outside of turns; None: there is no such question for this person."""
        self._messages = QuestionMessages(outbox, environment.blobs, users, self.may_answer)

    def restore(self, parked: Sequence[Parked]) -> None:
        """Know the questions of an earlier run before they can be answered: their turns come to them later."""
        for item in parked:
            if item.step.startswith(PAUSE_STEP):
                continue  # it waits for /resume, and asks nothing
            question = _QUESTION.from_json(item.question)
            self._note(item.turn, item.session, item.step, question, self._seconds_left_of(question))

    def forget(self, session: str) -> None:
        """Know no question of a session any more: another process asks them."""
        for item in [item for item in self._open.values() if item.session == session]:
            del self._open[item.question.id]

    async def on_turn_end(self, turn: str) -> None:
        """Drop the open questions of a turn that was stopped, or that lost its rights."""
        for item in [item for item in self._open.values() if item.turn == turn]:
            del self._open[item.question.id]
        await self._messages.withdraw(turn)

    def title_of(self, wanted: ApprovalRequest, asker: str, agent: str = "") -> str:
        """Return who wants what, for the person who is asked."""
        person = name_of(self._users, asker) if self._users.get(asker) else ""
        recipient = self._users.get(wanted.grounds.recipient)
        return heading(wanted, person, recipient.name if recipient else "", agent)

    def of(self, session: str) -> tuple[Question, ...]:
        """Return the open questions of a session, oldest first."""
        return tuple(item.question for item in self._open.values() if item.session == session)

    def with_new_id(self, question: Question, turn: Turn) -> Question:
        """Return the question as it is asked now, under an id of its own."""
        now = self._clock.now()
        until = now + self._approval_seconds if question.kind == "approval" else None
        name = "".join(secrets.choice(ID_SIGNS) for _ in range(ID_LENGTH))
        return replace(question, id=name, asker=turn.inbound.actor.key, asked_at=now, expires_at=until)

    def may_answer(self, actor: Actor, question: Question, session: str) -> bool:
        """Whether `actor` may answer, at this moment. An actor on behalf of others answers nothing in their name."""
        authorize = self._access.authorize
        rights = [("session.write", session)]
        if question.kind == "approval":
            # To say yes to what is shown is not to take part in the conversation.
            rights = [("question.answer", question.asker), ("session.read", session), ("tool.use", question.about)]
        elif actor.key != question.asker:
            rights.append(("question.answer", question.asker))
        return not actor.behalf and all(authorize(actor, action, target).allowed for action, target in rights)

    def waiting_for(self, actor: Actor, session: str) -> Question | None:
        """Return the oldest question that a plain message of `actor` in `session` answers; never an approval."""
        for item in self._open.values():
            question = item.question
            if item.session == session and question.kind == "question" and question.asker == actor.key:
                return question
        return None

    def approvals_for(self, actor: Actor, session: str) -> Sequence[Question]:
        """Return the open approvals of a session that `actor` may answer."""
        found = self.answerable(actor)
        return [each.question for each in found if each.session == session and each.question.kind == "approval"]

    def answerable(self, actor: Actor) -> Sequence[QuestionAsked]:
        """Return the open questions that `actor` may answer now, oldest first, in all sessions."""
        return [
            QuestionAsked(item.turn, item.session, item.question)
            for item in self._open.values()
            if item.question.id not in self._decided
            and not self._is_over(item)
            and self.may_answer(actor, item.question, item.session)
        ]

    def answerable_of(self, actor: Actor, parked: Sequence[Parked]) -> Sequence[QuestionAsked]:
        """Return those of the parked turns' questions that `actor` may answer now; other processes may ask them."""
        asked = [
            QuestionAsked(item.turn, item.session, _QUESTION.from_json(item.question))
            for item in parked
            if not item.step.startswith(PAUSE_STEP)
        ]
        return [
            each
            for each in asked
            if self._seconds_left_of(each.question) != 0 and self.may_answer(actor, each.question, each.session)
        ]

    def session_of(self, question_id: str) -> str | None:
        """Return the session that this process asks or asked a question in; None: it knows none."""
        item = self._open.get(question_id) or self._decided.get(question_id, (None, ""))[0]
        return item.session if item else None

    async def decide(
        self, actor: Actor, question_id: str, text: str, *also: BoundStatement, chat: Address | None = None
    ) -> Acceptance:
        """Answer the question with this id; `also` is written in the same transaction, whatever becomes of it.

        `chat`: where the answer comes from, if that is a chat. The reply is the same for a missing question and for
        another person's.
        """
        item = self._answerable(actor, question_id)
        if isinstance(item, Acceptance):
            return await self._answer_besides(actor, question_id, text) or item
        if item.question.kind == "approval" and text == DETAILS:
            return answered("" if await self._messages.show_details(item.turn, item.step) else STARTING)
        given = parse_choice(item.question, text)
        if isinstance(given, Acceptance):
            return given
        if given in (ALLOW, ALWAYS) and not self._messages.has_shown_all(
            item.turn, item.step, item.question, actor, chat
        ):
            return await self._messages.show_all(item.turn, item.step, actor, chat)
        if not await self._answer(item, actor, given, *also):
            return self._decided_already(actor, question_id)
        if item.question.kind == "question":
            return answered("Thank you.")
        return answered(_DONE.get(given, "Denied."))

    async def _answer_besides(self, actor: Actor, question_id: str, text: str) -> Acceptance | None:
        for answer in self.besides:
            if (said := await answer(actor, question_id, text)) is not None:
                return said
        return None

    async def choose(self, actor: Actor, question_id: str, index: int, chat: Address | None = None) -> Acceptance:
        """Answer with one of the question's options: what its button says, and nothing that a client made up."""
        item = self._open.get(question_id)
        if item is None:
            return await self.decide(actor, question_id, ANSWERS[index] if index in range(len(ANSWERS)) else "")
        options = (*item.question.options, *([DETAILS] if item.question.kind == "approval" else []))
        if index not in range(len(options)):
            return NO_QUESTION
        return await self.decide(actor, question_id, options[index], chat=chat)

    async def decline(self, actor: Actor, question_id: str) -> Acceptance:
        """Answer that there will be no answer: no for an approval."""
        item = self._answerable(actor, question_id)
        if isinstance(item, Acceptance):
            return await self._answer_besides(actor, question_id, DENY) or item
        if item.question.kind == "approval":
            return await self.decide(actor, question_id, DENY)
        return answered("No answer given.") if await self._answer(item, actor, "", declined=True) else NO_QUESTION

    async def ask(
        self, turn: Turn, step: str, question: Question, chat_text: str, whole: str = ""
    ) -> tuple[Question, RecordedAnswer]:
        """Ask a question, and wait for its answer, over restarts if need be.

        Returns the question as asked, and the answer.

        Args:
            turn: the turn that asks.
            step: its name in the journal.
            question: see `with_new_id`; after a restart the first one holds.
            chat_text: its text where there is less room than in a terminal.
            whole: a file sent along, because `chat_text` leaves some of it out.
        """
        session, asked = turn.inbound.session, question
        shown: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()

        async def show(kept: str) -> None:
            nonlocal asked
            asked = _QUESTION.from_json(kept)
            media = await self._messages.store(whole)  # who answers at once, in a terminal, gets the whole call, too
            left = self._seconds_left_of(asked)
            shown.set_result(left)
            self._note(turn.id, session, step, asked, left)
            self._bus.publish(QuestionAsked(turn.id, session, asked))
            if asked.id == question.id:
                self._record(asked, turn.inbound.actor, session, turn.id, "asked")
            await self._messages.ask(turn, step, asked, chat_text, media)

        answer = RecordedAnswer("")
        try:
            async with background(self._expire(turn.id, step, shown), f"expiry of {step}"):
                answer = _ANSWER.from_json(await turn.park(step, _QUESTION.to_json(question), show))
        finally:
            if self._open.pop(asked.id, None):
                self._bus.publish(QuestionAnswered(turn.id, session, asked.id, answer.text, answer.by))
        if not answer.by:
            self._record(asked, Actor("", ""), session, turn.id, "expired")
        # The disk has the answer, and this is said once only, so that a crash in between leaves no buttons behind.
        await self._messages.show_decision(turn, step, asked, chat_text, answer.text, answer.by)
        return asked, answer

    def left_of(self, answer: RecordedAnswer) -> float:
        """Return the seconds for which a given approval still holds, by the wall clock: it may be days old."""
        age = self._clock.now() - answer.at
        return self._approval_seconds - abs(age)

    def _answerable(self, actor: Actor, question_id: str) -> "_Open | Acceptance":
        item = self._open.get(question_id)
        if item is None:
            return self._decided_already(actor, question_id)
        if self._is_over(item):
            return NO_QUESTION
        return item if self.may_answer(actor, item.question, item.session) else self._refuse(actor, item)

    def _refuse(self, actor: Actor, item: _Open) -> Acceptance:
        """Return who may answer, for a person who is listed; the id, which cannot be guessed, was seen on a card."""
        if actor.behalf or item.question.kind != "approval" or self._users.get(actor.key) is None:
            return NO_QUESTION
        asker = item.question.asker
        may = self.may_answer(Actor(asker, asker.partition(":")[0]), item.question, item.session)
        names = f"{name_of(self._users, asker)} or an admin" if may and asker != actor.key else "an admin"
        return answered(f"Only {names} can answer this.", AnswerRefusal.GONE)

    async def _answer(
        self, item: _Open, actor: Actor, text: str, *also: BoundStatement, declined: bool = False
    ) -> bool:
        """Hand an answer to its turn. False: another answer was quicker."""
        answer = RecordedAnswer(text, actor.key, declined, actor.entry, actor.owner, self._clock.now())
        if not await self._journal.answer(item.turn, item.step, _ANSWER.to_json(answer), *also):
            return False
        self._decided[item.question.id] = (item, decision(item.question, text, name_of(self._users, actor.key)))
        self._record(item.question, actor, item.session, item.turn, text or "declined")
        return True

    def _decided_already(self, actor: Actor, question_id: str) -> Acceptance:
        item, words = self._decided.get(question_id, (None, ""))
        if item is None or not self.may_answer(actor, item.question, item.session):
            return NO_QUESTION
        return answered(f"{DECIDED} {words[:1].lower()}{words[1:]}.", AnswerRefusal.DECIDED)

    def _record(self, question: Question, actor: Actor, session: str, turn: str, result: str) -> None:
        if question.kind == "approval":
            allowed = result in (ALLOW, ALWAYS, "asked")
            entry = AuditEntry("tool.approval", question.about, actor, session, allowed, result=result, turn=turn)
            tags = self._access.tags(question.about)
            self._audit(replace(entry, detail=f"question {question.id} of {question.asker}", tags=tags))

    def _is_over(self, item: _Open) -> bool:
        """Whether its time is over, noticed or not: a machine that sleeps counts no time."""
        return item.until is not None and self._clock.awake_or_not() >= item.until

    def _seconds_left_of(self, question: Question) -> float | None:
        """Return the seconds until a question expires, by the wall clock when it is shown; at most the original time.

        Where that was set back while the daemon was away, an approval must not live for longer.
        """
        if question.expires_at is None:
            return None
        return min(self._approval_seconds, max(0.0, question.expires_at - self._clock.now()))

    def _note(self, turn: str, session: str, step: str, question: Question, left: float | None) -> None:
        until = None if left is None else self._clock.awake_or_not() + left
        self._open[question.id] = _Open(turn, session, step, question, until)

    async def _expire(self, turn: str, step: str, shown: "asyncio.Future[float | None]") -> None:
        """Answer with nothing when the time of the question is over; a restart does not lengthen it."""
        left = await shown
        if left is not None:
            await self._clock.sleep(left)
            await self._journal.answer(turn, step, _ANSWER.to_json(RecordedAnswer("")))
