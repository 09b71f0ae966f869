"""The message that a turn answers: its rows, which are the turn's first step, and the conversation sent with it.

A conversation that a program sends stands in front of the message as messages of its own. Where a hook of the operator
judges messages it is a part of that message instead, marked as material, so that the hook judges all of it and no order
is smuggled past.
"""

from collections.abc import Iterator, Sequence

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Given, Inbound
from goclaw.common.core.messages import AssistantMessage, Message, Piece, Provenance, SourceKind, UserMessage, join
from goclaw.conversation.turns.hooking import context_of
from goclaw.durable.engine.base import PreparedStep
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.transcripts import Origin, StoredMessage, Transcripts, rows_of

USER: Codec[UserMessage] = Codec(UserMessage)
USER_STEP = "user"
"""The first step of a turn, which stores the person's message."""
EARLIER_TURN = ":earlier"
"""Follows a turn's id in the rows of the conversation that was given with its message."""
OF_THE_PROGRAM = Provenance()


def plain_message(inbound: Inbound, transcripts: Transcripts, at: float) -> PreparedStep[UserMessage]:
    """Return the first step of the turn of a message with which nothing came and that no hook judges."""
    text, foreign = join(inbound.pieces)
    message = UserMessage(text, foreign=foreign)
    origin = Origin(inbound.session, inbound.id, USER_STEP, at, *speaker_of(inbound, message))
    return PreparedStep(USER_STEP, message, USER.to_json(message), user_rows(message, origin, transcripts))


def user_rows(message: UserMessage, origin: Origin, transcripts: Transcripts) -> list[BoundStatement]:
    """Return the INSERTs of a person's message; its own row is the first."""
    return [*rows_of(message, origin), transcripts.ensure_session(origin.session, origin.at)]


def speaker_of(inbound: Inbound | None, message: Message | None) -> tuple[str, str]:
    """Return the sender and context of a row: those of the person's message that it holds, if it holds one."""
    if inbound is None:
        return "", ""
    return inbound.actor.key, context_of(inbound, message if isinstance(message, UserMessage) else None)


def earlier_messages(inbound: Inbound, at: float) -> list[StoredMessage]:
    """Return the conversation that a program sent with its message, without row numbers."""
    turn = f"{inbound.id}{EARLIER_TURN}"
    return [StoredMessage(0, turn, message, at, inbound.actor.key) for message in _messages_of(inbound.given)]


def earlier_rows(earlier: Sequence[StoredMessage], session: str) -> list[BoundStatement]:
    """Return the INSERTs of that conversation."""
    origins = (Origin(session, each.turn, "earlier", each.at, each.sender) for each in earlier)
    return [row for each, origin in zip(earlier, origins, strict=True) for row in rows_of(each.message, origin)]


def _messages_of(given: Given | None) -> list[Message]:
    """Return the conversation as messages, oldest first. An answer in it is text only, never a call."""
    return [
        UserMessage(each.text, each.images) if each.role == "user" else AssistantMessage(each.text)
        for each in (given.earlier if given else ())
    ]


def pieces_of(inbound: Inbound) -> Iterator[Piece]:
    """Yield the conversation as pieces of the message that it was given with."""
    mine = Provenance(SourceKind.PERSON, inbound.actor.key)
    for each in inbound.given.earlier if inbound.given else ():
        if each.role == "user":
            yield each.text, "an earlier message of the sender", mine
        else:
            yield each.text, "an earlier answer, as the sender's program has it", OF_THE_PROGRAM
