"""From a program's question to a turn, and from the turn's events to its answer.

A question without a session makes one of its own (`core.events.PROGRAM_MARK`), where no person is asked anything. In
a kept session a turn that asks is parked, as everywhere, and the answer so far says where the question is answered.
"""

import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from goclaw.common.config.listening import OPENAI as PREFIX
from goclaw.common.core.bus import Following
from goclaw.common.core.events import (
    ALLOW,
    ALWAYS,
    DENY,
    LOCAL,
    AcceptKind,
    Address,
    Earlier,
    Given,
    Inbound,
    Outcome,
    Question,
    TurnFinished,
    Unattended,
)
from goclaw.common.core.messages import Image
from goclaw.common.core.records import BoundedDict, record
from goclaw.common.core.replay_buffer import NOWHERE
from goclaw.common.core.supervise import background
from goclaw.durable.store.blobs import image_type
from goclaw.durable.store.spending import Spent
from goclaw.errors import StateError
from goclaw.gateway.servers.connections import count_one
from goclaw.gateway.servers.http import ENDING
from goclaw.gateway.servers.openai.errors import NOT_AGAIN, ApiError
from goclaw.gateway.servers.openai.places import Place
from goclaw.gateway.servers.openai.reading import Delta, TurnReader
from goclaw.gateway.servers.openai.requests import Asked, Said
from goclaw.gateway.servers.programs import Program, Programs
from goclaw.gateway.servers.routes import RoutePorts
from goclaw.tools.toolkit.pictures import keep_picture

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks whether the caller is still there and may still be."""
KNOWN_OUTCOMES = 1_000
"""Maximum turns whose outcome is remembered, besides their rows."""
MAX_ROWS = 5_000
"""Rows of a session that are read for the answer of a turn that was asked for before."""
RETRY_SECONDS = "5"
SETTLED = "settle"
"""The step that ends a turn without a whole answer (`turns.turn.TurnRun.finish`)."""
_DECISION = re.compile(r"/(approve|deny)\s+(\S+)(?:\s+(always))?\s*")


@record
class Wanted:
    """A request for an answer."""

    request: web.Request
    program: Program
    place: Place
    turn: str
    asked: Asked
    agent: str
    """Empty: the agent that answers the user."""
    live: bool
    """Whether the answer is streamed."""

    @property
    def is_gone(self) -> bool:
        """Whether the program has closed its connection."""
        return self.request.transport is None or self.request.transport.is_closing()

    @property
    def is_ending(self) -> bool:
        """Whether the daemon ends."""
        return self.request.app[ENDING].is_set()


@record
class Answered:
    """The end of an answer."""

    turn: str
    is_whole: bool
    spent: Spent


@dataclass(slots=True, eq=False)
class _Watch:
    """Why an answer is not followed to its end."""

    question: str = ""
    """The question that the program has answered, as far as can be told; empty: none."""
    objection: str = ""
    gone: bool = False
    ending: bool = False
    idle_looks: int = 0
    """Latest looks at which the turn was not at work: at the second one its end was missed."""

    @property
    def is_over(self) -> bool:
        return bool(self.objection or self.gone or self.ending) or self.idle_looks > 1

    def check(self) -> None:
        """Raise the error for the program, or ConnectionResetError if it is gone."""
        if self.objection:
            raise ApiError(HTTPStatus.UNAUTHORIZED, self.objection, code="invalid_api_key")
        if self.ending:
            words = (
                f"GoClaw is shutting down; repeat the request with the same `Idempotency-Key` in {RETRY_SECONDS} "
                "seconds"
            )
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, words, headers={"Retry-After": RETRY_SECONDS})
        if self.gone:
            raise ConnectionResetError


class Asking:
    """Begins turns for programs and follows them."""

    def __init__(self, ports: RoutePorts, programs: Programs) -> None:
        self._ports = ports
        self._programs = programs
        self._link = ports.config.http.public_url or ""
        self._outcomes: BoundedDict[str, Outcome] = BoundedDict(KNOWN_OUTCOMES)
        self._awaited: Counter[str] = Counter()

    async def answer(self, wanted: Wanted) -> AsyncGenerator[Delta | Answered, None]:
        """Yield the pieces of the answer, then its end. Closing it stops a turn for which no program waits any more.

        Raises:
            ApiError: the turn may not begin, or has no answer.
        """
        reader = self._reader(wanted, wanted.turn)
        try:
            async with self._ports.gateway.follow(wanted.place.session, "", NOWHERE) as following:
                with count_one(self._awaited, wanted.turn):
                    async with aclosing(self._follow(wanted, reader, following)) as pieces:
                        async for piece in pieces:
                            yield piece
        except StateError as error:
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), headers={"Retry-After": RETRY_SECONDS}) from None
        if reader.finished:
            self._outcomes[reader.turn] = reader.finished.outcome
            _check(reader)
        spent = await self._ports.gauges.spending.of_turn(wanted.place.session, reader.turn)
        is_whole = reader.finished is None or reader.finished.outcome is Outcome.ANSWERED
        yield Answered(reader.turn, is_whole, spent)

    def _reader(self, wanted: Wanted, turn: str, *, live: bool | None = None) -> TurnReader:
        home = self._link or f"{wanted.request.scheme}://{wanted.request.host}"
        return TurnReader(
            turn,
            unattended=not wanted.place.is_kept,
            progress=wanted.live and self._ports.config.openai.progress,
            live=wanted.live if live is None else live,
            link=self._link,
            files=f"{home.rstrip('/')}{PREFIX}files/",
        )

    async def _follow(self, wanted: Wanted, reader: TurnReader, following: Following) -> AsyncGenerator[Delta, None]:
        """Begin the turn, or find it; yield its words until it is over, or waits for a person."""
        said, question = await self._submit_question(wanted, reader)
        for delta in reader.paragraph(said):
            yield delta
        if reader.turn and (question or await self._works(wanted.place.session, reader.turn)):
            async with aclosing(self._events(wanted, reader, following, _Watch(question))) as deltas:
                async for delta in deltas:
                    yield delta
        if reader.turn and not reader.is_over:
            for delta in await self._afterwards(wanted, reader):
                yield delta

    async def _events(
        self, wanted: Wanted, reader: TurnReader, following: Following, watch: _Watch
    ) -> AsyncGenerator[Delta, None]:
        """Yield what events say until the turn is over or waits, or its end was missed; raises as `_Watch.check`."""
        try:
            async with background(self._watch_caller(wanted, reader, following, watch), "the caller of a turn"):
                async for _, event, _ in following.events:
                    for delta in reader.translate(event):
                        yield delta
                    if reader.is_over:
                        return
        finally:
            await self._leave(wanted, reader, watch)
        watch.check()

    async def _watch_caller(self, wanted: Wanted, reader: TurnReader, following: Following, watch: _Watch) -> None:
        """End the following when the caller is gone or has to go, or the turn is over unseen."""
        session = wanted.place.session
        while not watch.is_over:
            await self._ports.clock.sleep(LOOK_SECONDS)
            watch.objection, watch.gone = self._programs.objection(wanted.program), wanted.is_gone
            watch.ending = wanted.is_ending
            watch.idle_looks = 0 if await self._works(session, reader.turn) else watch.idle_looks + 1
            if watch.question in {each.id for each in (await self._ports.gateway.now(session)).questions}:
                reader.turn = ""  # it was not answered after all, and its turn waits on
                break
        following.end()

    async def _leave(self, wanted: Wanted, reader: TurnReader, watch: _Watch) -> None:
        """Stop the turn of a session that is not kept when its last caller has gone before its end."""
        unwanted = watch.gone or watch.objection or (wanted.is_gone and not wanted.is_ending)
        if unwanted and not reader.is_over and not wanted.place.is_kept and self._awaited[wanted.turn] == 1:
            log.info("stopped the turn of a program: nobody waits for it any more", extra={"turn": wanted.turn})
            await self._ports.engine.cancel(wanted.place.session, 0.0)

    async def _works(self, session: str, turn: str) -> bool:
        queue = await self._ports.engine.queue(session)
        return queue.running == turn or queue.waiting > 0

    async def _afterwards(self, wanted: Wanted, reader: TurnReader) -> Sequence[Delta]:
        """Return the answer of a turn that ended before, from its rows."""
        gateway, session = self._ports.gateway, wanted.place.session
        rows = await gateway.history(session, 0, MAX_ROWS)
        turn = next((row.turn for row in rows if row.joined == reader.turn), reader.turn)
        rows = [row for row in rows if row.turn == turn]
        outcome = self._outcomes.get(turn)
        if outcome is None and rows:
            (last, *_) = await gateway.transcript(session, rows[-1].row - 1)
            outcome = Outcome.FAILED if last.step == SETTLED else Outcome.ANSWERED
        again = self._reader(wanted, turn, live=False)
        found = [delta for row in rows for delta in again.translate(row)]
        found += again.translate(TurnFinished(turn, session, outcome or Outcome.FAILED, ""))
        reader.turn, reader.finished = turn, again.finished
        return [] if reader.has_text else found

    async def _submit_question(self, wanted: Wanted, reader: TurnReader) -> tuple[str, str]:
        """Submit the question; return its immediate answer (empty: a turn answers), and the question it answers itself.

        `reader` then has the turn that goes on, or none.

        Raises:
            ApiError: it cannot be taken.
        """
        if not wanted.place.is_kept:
            await self._submit(wanted)
            return "", ""
        before = await self._ports.gateway.now(wanted.place.session)
        answered = next((each.id for each in before.questions if _answer_to(each, wanted.asked.message.text)), "")
        said = await self._send(wanted, before.questions)
        if said is None:
            return "", ""
        reader.turn = before.turn if answered else ""
        return said, answered

    async def _submit(self, wanted: Wanted) -> None:
        await self._refuse_full(wanted.place.session)
        if await self._ports.engine.submit(await self._inbound(wanted)):
            log.info("a program makes requests as %s", wanted.program.actor.key, extra={"turn": wanted.turn})

    async def _send(self, wanted: Wanted, questions: Sequence[Question]) -> str | None:
        """Say something in a kept session; return the answer of a command or to a question, None: it is a turn."""
        actor, gateway = wanted.program.actor, self._ports.gateway
        if not wanted.place.is_of_program:
            await self._refuse_full(wanted.place.session)
            accepted = await gateway.accept(await self._inbound(wanted))
            if accepted.kind is AcceptKind.IGNORED:
                raise ApiError(HTTPStatus.FORBIDDEN, "you may not write to this session")
            return accepted.text if accepted.kind in (AcceptKind.REPLY, AcceptKind.ANSWER) else None
        for each in questions:
            if (answer := _answer_to(each, wanted.asked.message.text)) is not None:
                return (await gateway.decide(actor, each.id, answer)).text
        await self._submit(wanted)
        return None

    async def _refuse_full(self, session: str) -> None:
        limit = self._ports.config.limits.queued_messages
        if (await self._ports.engine.queue(session)).waiting >= limit:
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{limit} messages are already waiting (limits.queued_messages)",
                headers={"Retry-After": RETRY_SECONDS},
            )

    async def _inbound(self, wanted: Wanted) -> Inbound:
        place, asked = wanted.place, wanted.asked
        earlier = (
            () if place.is_kept else [Earlier(each.role, each.text, await self._images(each)) for each in asked.earlier]
        )
        given = Given(tuple(earlier), await self._images(asked.message))
        unattended = Unattended(0, "a program", ask=place.is_kept, agent=wanted.agent, awaited=True)
        is_plain = place.is_kept and not place.is_of_program and not wanted.agent
        return Inbound(
            wanted.turn,
            wanted.program.actor,
            place.session,
            asked.message.text,
            Address(LOCAL, place.session),
            self._ports.clock.now(),
            unattended=None if is_plain else unattended,
            given=given if given.earlier or given.images else None,
        )

    async def _images(self, said: Said) -> tuple[Image, ...]:
        typed = [(data, image_type(data)) for data in said.pictures]
        return tuple([(await keep_picture(self._ports.environment, data, mime))[0] for data, mime in typed if mime])


def _answer_to(question: Question, text: str) -> str | None:
    """Return the answer to a question that a message gives; None: it gives none."""
    found = _DECISION.fullmatch(text.strip())
    if question.kind != "approval":
        return text if found is None else None
    if found is None or found[2] != question.id:
        return None
    if found[1] == "deny":
        return DENY
    return ALWAYS if found[3] else ALLOW


def _check(reader: TurnReader) -> None:
    """Raise ApiError for a turn that did not answer."""
    finished = reader.finished
    if finished is None or finished.outcome.went_well:
        return
    words = finished.text or "the turn ended without an answer; the session has the messages so far"
    code = "turn_stopped" if finished.outcome is Outcome.STOPPED else "turn_failed"
    raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, words, code=code, headers=NOT_AGAIN)
