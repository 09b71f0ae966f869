"""The rows of a person's message, which are the first step of its turn."""

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Inbound
from goclaw.common.core.messages import Message, UserMessage, joined
from goclaw.conversation.turns.hooking import context_of
from goclaw.durable.engine.base import PreparedStep
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.transcripts import Origin, Transcripts, rows_of

USER: Codec[UserMessage] = Codec(UserMessage)
USER_STEP = "user"
"""The first step of a turn, which stores the person's message."""


def plain_message(inbound: Inbound, transcripts: Transcripts, at: float) -> PreparedStep[UserMessage]:
    """Return the first step of the turn of a message with which nothing came and that no hook judges."""
    text, foreign = joined(inbound.pieces)
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
