"""Stopping a turn, and answering what turns ask."""

import uuid
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from pydantic import Field

from goclaw.common.core.events import LOCAL, Address, AnswerRefusal, Inbound, QuestionAsked
from goclaw.gateway.servers.api.messages import TURN
from goclaw.gateway.servers.api.operations import Call, Key, Operations, Request, Response
from goclaw.gateway.servers.api.problems import Problem
from goclaw.gateway.servers.api.sessions import SessionAsked, writable

MAX_ANSWER = 20_000


class Stopped(Response):
    """The end of a turn."""

    turn: str = Field(description="The turn that is being stopped; empty: none was running.")
    text: str = Field(description="The result, in words.")


class QuestionPage(Response):
    """The open questions that the user may answer, oldest first."""

    questions: Sequence[QuestionAsked]


class QuestionAnswer(Request):
    """The fields of `answerQuestion`."""

    question: Annotated[Key, Field(description="Its id.")]
    answer: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_ANSWER,
            description="For an approval one of its options: `allow`, `always`, `deny`. For a question an option's "
            "number or text, or a text.",
        ),
    ]


class Answered(Response):
    """The receipt of an answer."""

    text: str = Field(description="The effect of the answer, in words.")


OPERATIONS = Operations()


@OPERATIONS.add("POST", "/sessions/{session}/stop", "messages", refusals=(HTTPStatus.NOT_FOUND,))
async def stop_turn(call: Call, asked: SessionAsked) -> Stopped:
    """Stop the running turn of a session"""
    session = await writable(call, asked.session)
    if not (decision := call.ports.access.authorize(call.actor, "command.run", "stop")).allowed:
        raise Problem(HTTPStatus.FORBIDDEN, f"you may not stop turns: {decision.rule}")
    turn = (await call.ports.engine.queue(session)).running
    identity, address = f"{TURN}{uuid.uuid4().hex}", Address(LOCAL, session)
    order = Inbound(identity, call.actor, session, "/stop", address, call.ports.clock.now())
    return Stopped(turn=turn, text=(await call.ports.gateway.accept(order)).text)


@OPERATIONS.add("GET", "/questions", "questions")
async def list_questions(call: Call, _: Request) -> QuestionPage:
    """List the approvals and questions waiting for you, in all sessions"""
    return QuestionPage(questions=await call.ports.gateway.answerable(call.actor))


@OPERATIONS.add(
    "POST",
    "/questions/{question}",
    "questions",
    refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY),
)
async def answer_question(call: Call, asked: QuestionAnswer) -> Answered:
    """Answer an approval or a question

    409: it was already answered. 422: the answer does not fit; the question is still open.
    """
    answer = await call.ports.gateway.decide(call.actor, asked.question, asked.answer)
    match answer.refusal:
        case AnswerRefusal.GONE:
            words = f"you have no open question {asked.question!r}"
            raise Problem(HTTPStatus.NOT_FOUND, words, field="question")
        case AnswerRefusal.DECIDED:
            raise Problem(HTTPStatus.CONFLICT, answer.text, field="question")
        case AnswerRefusal.INVALID:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, answer.text, field="answer")
    return Answered(text=answer.text)
