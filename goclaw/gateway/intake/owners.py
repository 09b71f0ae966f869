"""The owners of sessions, for the gateway of a process that shares its store: a session's own business is done where
the session is.

A message from a permitted sender goes one of three ways: it is done here, because this process has the session or
because it touches no session; it is journaled for the owner, as a plain message that begins a turn or waits for one; or
it is ordered of the owner, and the owner's gateway accepts it as if it had come in there.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import orjson
from pydantic import ValidationError

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Acceptance, Actor, Address, Inbound, QuestionAsked
from goclaw.common.core.records import BoundedDict, record
from goclaw.common.core.redact import storable
from goclaw.conversation.questions.question_messages import answered
from goclaw.conversation.sessions.pausing import STEP as PAUSE_STEP
from goclaw.conversation.sessions.state import QUEUE_MODE
from goclaw.conversation.turns.status import Details, SessionStatus
from goclaw.durable.engine.sessions import OwnedSessions
from goclaw.durable.engine.statements import MEETS
from goclaw.errors import NotAnswered, OwnershipLost, StateError
from goclaw.gateway.intake.commands.base import COMMAND
from goclaw.gateway.intake.gateway import Gateway, OwnersPart

log = logging.getLogger(__name__)

T = TypeVar("T")

ACCEPT, PRESS, STATUS = "accept", "press", "status"
"""Orders to the owner: take a message in, answer a question, say how a session is."""
LOOK_SECONDS = 2.0
"""Seconds to wait for the owner of a session when showing it; after that the stored state is shown."""
MAX_ASKED = 1_000
"""Questions of others that are remembered once they were answered through this process."""
NOT_ANSWERED = (
    "The gateway that works on this conversation did not answer in time, so I do not know whether that worked. Send it "
    "again in a moment."
)


@record
class Press:
    """An answer to a question, by its id."""

    actor: Actor
    question: str
    how: Literal["decide", "choose", "decline"]
    answer: str = ""
    index: int = 0
    is_coded: bool = False
    """Whether the reply is an `Acceptance`; a gateway of a former version asks for its text."""
    chat: Address | None = None
    """The chat that the answer comes from; None: a client's, or unknown to a gateway of a former version."""


_INBOUND: Codec[Inbound] = Codec(Inbound)
_ACCEPTANCE: Codec[Acceptance] = Codec(Acceptance)
_PRESS: Codec[Press] = Codec(Press)
_ACTOR: Codec[Actor] = Codec(Actor)
_STATUS: Codec[SessionStatus] = Codec(SessionStatus)


@dataclass(eq=False)
class SessionOwners:
    """Acts in sessions of this process, and has the owners of others act in theirs."""

    sessions: OwnedSessions
    gateway: Gateway
    _asked: BoundedDict[str, str] = field(default_factory=lambda: BoundedDict(MAX_ASKED))
    """Sessions by the questions that their owners were sent an answer to."""

    def __post_init__(self) -> None:
        self.sessions.serve({ACCEPT: self._accept_for, PRESS: self._press_for, STATUS: self._status_for})

    async def accept(self, inbound: Inbound) -> Acceptance:
        """Take a message in; returns as `Gateway.accept` does."""
        session = self.gateway.ports.access.session_for(inbound.actor, inbound.session)
        # A stranger never makes an order, and hears the same as where there is one process.
        is_allowed = self.gateway.ports.access.authorize(inbound.actor, "session.write", session).allowed
        if not is_allowed:
            return await self.gateway.accept_here(inbound)
        session, way = await self._session_beside(inbound, session), self._way(inbound)
        if (accepted := await self._here(session, lambda: self.gateway.accept_here(inbound))) is not None:
            return accepted
        if way == "anywhere" or (way == "turn" and not await self._meets_something(session)):
            if (elsewhere := self.sessions.elsewhere(session)) is not None and elsewhere.is_leaving(session):
                self.forget(session)  # a question that another process has closed is open here still
            return await self.gateway.accept_here(inbound)
        try:
            return _ACCEPTANCE.from_json(await self.sessions.ask(session, ACCEPT, _INBOUND.to_json(inbound)))
        except NotAnswered as error:
            if way != "command":
                raise  # it comes again
            log.warning("the reply to a command could not be read: %s", error, extra={"session": session})
            return await self.gateway.answer(replace(inbound, session=session), NOT_ANSWERED)

    def _way(self, inbound: Inbound) -> Literal["anywhere", "turn", "command", "note"]:
        if inbound.edited or inbound.beside:
            return "note"
        match = None if inbound.forwarded else COMMAND.fullmatch(storable(inbound.text).strip())
        if match is None:
            return "turn"
        command = self.gateway.known.get(match.group(1).lower())
        if command is None:
            return "turn" if self.gateway.ports.sessions.choices.agents.is_command(inbound) else "anywhere"
        return "anywhere" if command.anywhere else "command"

    async def _session_beside(self, inbound: Inbound, session: str) -> str:
        """Return the session that a message is about: a reaction is about that of its message."""
        if inbound.beside and inbound.beside.on:
            for delivery in await self.gateway.outbox.sent_as(inbound.address, inbound.beside.on):
                return delivery.session or session
        return session

    async def _here(self, session: str, act: Callable[[], Awaitable[T]]) -> T | None:
        """Act in a session of this process; None: it is not, or not any more, and nothing was written."""
        try:
            with self.sessions.acting(session) as fence:
                if fence is None:
                    return None
                done = await act()
                # What wrote nothing was refused nothing: it may say what was so before the process was paused.
                await self.sessions.ownership.check(fence)
                return done
        except OwnershipLost as lost:
            log.info("this belongs to another process: %s", lost, extra={"session": session})
            return None

    async def _meets_something(self, session: str) -> bool:
        """Whether a plain message meets what only the owner can judge: a question, a full queue, a turn to stop."""
        looking = MEETS(of_session=session, mode=QUEUE_MODE, pauses=f"{PAUSE_STEP}%")
        (met,) = await self.gateway.database.read(looking)
        if not met["open"]:
            return False
        ports = self.gateway.ports
        mode = orjson.loads(met["chosen"]) if met["chosen"] else ports.sessions.choices.queue_modes.default
        is_full = met["open"] > ports.environment.config.limits.queued_messages
        return bool(met["asked"]) or is_full or mode == "interrupt"

    async def decide(self, actor: Actor, question: str, answer: str, *, chat: Address | None = None) -> Acceptance:
        return await self._press(Press(actor, question, "decide", answer, chat=chat))

    async def choose(self, actor: Actor, question: str, index: int, chat: Address | None = None) -> Acceptance:
        return await self._press(Press(actor, question, "choose", index=index, chat=chat))

    async def decline(self, actor: Actor, question: str) -> Acceptance:
        return await self._press(Press(actor, question, "decline"))

    async def answerable(self, actor: Actor) -> Sequence[QuestionAsked]:
        """Return the open questions of other processes' sessions that an actor may answer now."""
        parked = await self.gateway.journal.list_open_questions()
        elsewhere = [each for each in parked if self.sessions.elsewhere(each.session) is not None]
        return self.gateway.ports.questions.answerable_of(actor, elsewhere)

    def forget(self, session: str) -> None:
        """Have a session read again that is not this process's, and is not being taken by it."""
        if self.sessions.ownership.fence_of(session) is None:
            self.gateway.ports.sessions.contexts.forget(session)
            self.gateway.ports.sessions.models.forget(session)
            self.gateway.ports.questions.forget(session)

    async def status(self, session: str, details: Details, actor: Actor) -> SessionStatus:
        """Return how a session is: by its owner, or by the store where that does not answer."""
        elsewhere = self.sessions.elsewhere(session)
        if elsewhere is not None and await elsewhere.is_owned(session):
            try:
                said = await self.sessions.ask(session, STATUS, _ACTOR.to_json(actor), LOOK_SECONDS)
                return replace(_STATUS.from_json(said), details=details)
            except StateError as error:
                log.warning("the status of a session could not be reported: %s", error, extra={"session": session})
        self.forget(session)
        return await self.gateway.ports.sessions.inspection.status(session, details, actor)

    async def _press(self, press: Press) -> Acceptance:
        session = await self._session_of(press.question)
        if session is None:
            return await self._apply_press(press)  # it is of no session, or gone
        if (said := await self._here(session, lambda: self._apply_press(press))) is not None:
            return said
        self._asked[press.question] = session
        try:
            reply = await self.sessions.ask(session, PRESS, _PRESS.to_json(replace(press, is_coded=True)))
        except NotAnswered as error:
            log.warning("the reply to an answer could not be read: %s", error, extra={"session": session})
            return answered(NOT_ANSWERED)
        try:
            return _ACCEPTANCE.from_json(reply)
        except ValidationError:
            return answered(reply)  # an owner of a former version replies with the text

    async def _session_of(self, question: str) -> str | None:
        """Return the session that any process asks a question in; None: none is known."""
        if session := self.gateway.ports.questions.session_of(question) or self._asked.get(question):
            return session
        parked = await self.gateway.journal.list_open_questions()
        return next((each.session for each in parked if orjson.loads(each.question).get("id") == question), None)

    async def _apply_press(self, press: Press) -> Acceptance:
        questions = self.gateway.ports.questions
        match press.how:
            case "decide":
                return await questions.decide(press.actor, press.question, press.answer, chat=press.chat)
            case "choose":
                return await questions.choose(press.actor, press.question, press.index, press.chat)
            case "decline":
                return await questions.decline(press.actor, press.question)

    async def _accept_for(self, session: str, body: str) -> str:
        return _ACCEPTANCE.to_json(await self.gateway.accept_here(_INBOUND.from_json(body)))

    async def _press_for(self, session: str, body: str) -> str:
        press = _PRESS.from_json(body)
        done = await self._apply_press(press)
        return _ACCEPTANCE.to_json(done) if press.is_coded else done.text

    async def _status_for(self, session: str, body: str) -> str:
        status = await self.gateway.ports.sessions.inspection.status(session, Details({}), _ACTOR.from_json(body))
        return _STATUS.to_json(status)


OWNERS = OwnersPart(SessionOwners)
"""The part that `OWNERS` of the catalogue names for Postgres."""
