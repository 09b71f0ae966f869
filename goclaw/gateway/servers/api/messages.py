"""Messages of a session: reading them, and sending one exactly once."""

from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

from pydantic import ConfigDict, Field

from goclaw.common.core.events import LOCAL, Acceptance, AcceptKind, Address, Inbound, MessageStored
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.common.core.wire import MAX_NAME
from goclaw.gateway.servers.api.files import attachments_of
from goclaw.gateway.servers.api.operations import Answer, Call, Key, Operations, Reply, Request, Response, Row
from goclaw.gateway.servers.api.problems import RETRY_SECONDS, Problem, bad_request
from goclaw.gateway.servers.api.sessions import readable, unknown, writable
from goclaw.gateway.servers.programs import digits_of

TURN = "api:"
"""Begins the ids of messages; 32 hex digits follow."""
MAX_PAGE = 200
MAX_ROWS = 5_000
"""Rows that are looked at for one message: an answer with its calls is a row for each."""
MAX_TEXT = 1_000_000
MAX_FILES = 10


class MessagesAsked(Request):
    """The fields of `listMessages`."""

    session: Key
    after: Annotated[Row, Field(description="Only messages after this row.")] = 0
    before: Annotated[Row | None, Field(description="Only messages before this row.")] = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE, description="Maximum number of rows, counted from the end.")] = 50


class MessagePage(Response):
    """Messages of a session, oldest first."""

    messages: Sequence[MessageStored] = Field(
        description="Earlier messages come before the first of these rows; empty: there are none."
    )


class MessageSent(Request):
    """The fields of `sendMessage`."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["text"], "properties": {"text": {"pattern": r"\S"}}},
                {"required": ["files"], "properties": {"files": {"minItems": 1}}},
            ]
        }
    )

    session: Key
    id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_NAME,
            pattern=r"^[\x21-\x7e]+$",
            description="Your own id for the message: a repeated message with the same id is accepted only once.",
        ),
    ]
    text: Annotated[str, Field(max_length=MAX_TEXT, description="Text or command; may be empty with `files`.")] = ""
    files: Annotated[
        tuple[Annotated[str, Field(pattern="^[0-9a-f]{32}$")], ...],
        Field(max_length=MAX_FILES, description="Ids of files uploaded before (`uploadFile`)."),
    ] = ()


class Accepted(Response):
    """The receipt: the message is on disk, or answered."""

    id: str = Field(description="The client's own id of the message.")
    kind: AcceptKind = Field(
        description="`turn`: a turn answers it; `reply`: a command, answered here; `answer`: it answered a question; "
        "`duplicate`: an earlier run of the daemon already received it."
    )
    session: str
    turn: str = Field("", description="The turn that answers it.")
    text: str = Field("", description="The answer to a command.")
    markdown: bool = Field(False, description="Whether `text` is Markdown with headings and tables.")


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/sessions/{session}/messages", "messages", refusals=(HTTPStatus.NOT_FOUND,))
async def list_messages(call: Call, asked: MessagesAsked) -> MessagePage:
    """Read messages of a session: the last ones in a range of rows"""
    session = await readable(call, asked.session)
    return MessagePage(messages=await latest(call, session, asked.limit, asked.after, asked.before))


async def latest(
    call: Call, session: str, limit: int, after: int = 0, before: int | None = None
) -> Sequence[MessageStored]:
    """Return the last messages between two rows, oldest first: `limit` rows at most, but one message if there is any.

    `session`: its name at the gateway.
    """
    history = call.ports.gateway.history
    rows = await history(session, after, limit, before)
    while not rows and limit < MAX_ROWS:  # calls without their answer's text, which is before them
        limit = min(MAX_ROWS, limit * 8)
        rows = await history(session, after, limit, before)
    return [for_people(row) for row in rows]


def for_people(row: MessageStored) -> MessageStored:
    """Return a message without the parts for its model and the model's provider alone."""
    match row.message:
        case AssistantMessage(native=native) as answer if native is not None:
            return replace(row, message=replace(answer, native=None))
        case UserMessage(told=told) as message if told:
            return replace(row, message=replace(message, told=""))
        case _:
            return row


@OPERATIONS.add(
    "POST",
    "/sessions/{session}/messages",
    "messages",
    Reply(
        body=Accepted,
        statuses={HTTPStatus.ACCEPTED: "A turn answers it.", HTTPStatus.OK: "It is answered, or was received before."},
    ),
    refusals=(HTTPStatus.NOT_FOUND,),
)
async def send_message(call: Call, asked: MessageSent) -> Answer:
    """Send a message or a command, exactly once

    If you get no answer, send it again with the same `id`: it is accepted only once, even after a restart.
    """
    if not asked.text.strip() and not asked.files:
        raise bad_request("`text` is empty, and there are no `files`", "text")
    session = await writable(call, asked.session)
    key = (call.actor.key, session, asked.id)
    accepted = await call.services.receipts.once(key, lambda: _accept(call, session, asked))
    if accepted.kind is AcceptKind.IGNORED:
        raise unknown(asked.session)
    goes_on = accepted.kind is AcceptKind.TURN
    body = Accepted(
        id=asked.id,
        kind=accepted.kind,
        session=accepted.session or session,
        turn=accepted.turn,
        text=accepted.text,
        markdown=accepted.markdown,
    )
    return Answer(HTTPStatus.ACCEPTED if goes_on else HTTPStatus.OK, body)


async def _accept(call: Call, session: str, asked: MessageSent) -> Acceptance:
    await _refuse_full(call, session, asked.text)
    attachments = await attachments_of(call, session, asked.files)
    turn, address = f"{TURN}{digits_of(call.actor.key, session, asked.id)}", Address(LOCAL, session)
    now = call.ports.clock.now()
    inbound = Inbound(turn, call.actor, session, asked.text, address, now, attachments=attachments)
    return await call.ports.gateway.accept(inbound)


async def _refuse_full(call: Call, session: str, text: str) -> None:
    """Raise Problem if too many messages wait; commands and answers to questions are taken all the same."""
    limit = call.ports.config.limits.queued_messages
    if text.lstrip().startswith("/") or (await call.ports.engine.queue(session)).waiting < limit:
        return
    if any(each.kind == "question" for each in (await call.ports.gateway.now(session)).questions):
        return
    words = f"{limit} messages are already waiting (limits.queued_messages)"
    raise Problem(HTTPStatus.TOO_MANY_REQUESTS, words, headers={"Retry-After": RETRY_SECONDS})
