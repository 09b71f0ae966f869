"""The message that a turn answers, the conversation sent with it, and the operator's hooks for what is said.

A conversation that a program sends stands in front of the message as messages of its own. Where a hook of the operator
judges messages it is a part of that message instead, marked as material, so that the hook judges all of it and no order
is smuggled past.

Changes that hooks make to a message or an answer are part of the step that stores it: a turn resumed after a crash has
the stored message and calls no hook again.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Inbound
from goclaw.common.core.messages import (
    AssistantMessage,
    Foreign,
    Message,
    Piece,
    Provenance,
    SourceKind,
    UserMessage,
    join,
)
from goclaw.common.core.records import record
from goclaw.conversation.agent.context.model_messages import harmless
from goclaw.conversation.agent.context.window import Window
from goclaw.conversation.agent.prompt import CONTEXT_END, envelope
from goclaw.conversation.turns.attachments import message_without_files
from goclaw.durable.engine.base import PreparedStep
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.transcripts import Origin, StoredMessage, Transcripts, rows_of
from goclaw.errors import MessageDenied
from goclaw.tools.hooks.base import HookAnswer, HookEvent, Hooks, Point

log = logging.getLogger(__name__)

USER: Codec[UserMessage] = Codec(UserMessage)
USER_STEP = "user"
"""The first step of a turn, which stores the person's message."""
EARLIER_TURN = ":earlier"
"""Follows a turn's id in the rows of the conversation that was given with its message."""
OF_THE_PROGRAM = Provenance()

WITHHELD = "[A hook of the operator withholds this answer.]"
"""Replaces an answer that was held back, in the transcript and for the model."""
A_HOOK = "a hook of the operator"
HEARING = frozenset[Point]({"message_in", "session_start"})
"""The points at which hooks see a person's message."""
UNSEEN = "[This message was stopped before a hook of the operator had checked it.]"


@record
class Hooking:
    """The hooks, for one turn."""

    hooks: Hooks
    window: Window

    @property
    def judges_answers(self) -> bool:
        """Whether an answer is shown only when the hooks have seen it whole."""
        return "message_out" in self.hooks.points

    @property
    def judges_messages(self) -> bool:
        """Whether the hooks look at incoming messages."""
        return "message_in" in self.hooks.points

    async def apply_to_message(self, inbound: Inbound, message: UserMessage) -> UserMessage:
        """Return a person's message with its attachments, after the hooks.

        Raises:
            MessageDenied: a hook rejects it.
        """
        answer = await self._fire("message_in", inbound, message.text)
        if answer.deny:
            raise MessageDenied(answer.deny)
        begins = not self.window.entries and not self.window.summary
        beginning = await self._fire("session_start", inbound) if begins else HookAnswer()
        told = "\n".join(filter(None, (beginning.context, answer.context)))
        if answer.text is not None and answer.text != message.text:
            message = replace(message, text=answer.text, foreign=tuple(_realign(message, answer.text)))
        # Hooks have judged the text of a document, not the file.
        images = tuple(image for image in message.images if not (image.pages and self.judges_messages))
        return replace(message, told=told, images=images)

    def unheard(self, inbound: Inbound) -> UserMessage:
        """Return the message of a turn that ended before its message was accepted."""
        return UserMessage(UNSEEN) if "message_in" in self.hooks.points else message_without_files(inbound)

    async def apply_to_answer(self, inbound: Inbound, message: AssistantMessage) -> AssistantMessage:
        """Return an answer of the model after the hooks; its calls stay as they are."""
        if message.calls and not message.text.strip():
            return message
        answer = await self._fire("message_out", inbound, message.text)
        if answer.suppress and not answer.deny:
            log.info("a hook withholds the answer")
            return AssistantMessage(WITHHELD, message.calls, withheld=True, notice=True)
        text = f"This answer is withheld: {answer.deny}" if answer.deny else answer.text
        if text is None or text == message.text:
            return message
        return AssistantMessage(text, message.calls)  # without its provider's own form, which holds the other words

    async def _fire(self, point: Point, inbound: Inbound, text: str = "") -> HookAnswer:
        if point not in self.hooks.points:
            return HookAnswer()
        return await self.hooks.fire(HookEvent(point, inbound.session, inbound.actor, text=text))


def context_of(inbound: Inbound, message: UserMessage | None) -> str:
    """Return the context shown to the model before a person's message: `envelope`, and what hooks add to it."""
    context = envelope(inbound)
    if message is None or not message.told:
        return context
    return f"{context.removesuffix(CONTEXT_END)}\n{harmless(message.told)}{CONTEXT_END}"


def _realign(message: UserMessage, text: str) -> Iterator[Foreign]:
    """Find the foreign pieces in the new text: all of it is foreign where one of them was changed.

    Text that a hook wrote in place of a message without such pieces belongs to the hook.
    """
    if not message.foreign and text:
        yield Foreign(0, len(text), A_HOOK, Provenance(SourceKind.HOOK))
        return
    at, found = 0, []
    for piece in message.foreign:
        words = message.text[piece.start : piece.end]
        start = text.find(words, at)
        if start < 0:
            yield replace(piece, start=0, end=len(text))
            return
        at = start + len(words)
        found.append(replace(piece, start=start, end=at))
    yield from found


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
    """Return the conversation that a program sent with its message, oldest first, without row numbers."""
    turn = f"{inbound.id}{EARLIER_TURN}"
    messages = [
        # An answer in it is text only, never a call.
        UserMessage(each.text, each.images) if each.role == "user" else AssistantMessage(each.text)
        for each in (inbound.given.earlier if inbound.given else ())
    ]
    return [StoredMessage(0, turn, message, at, inbound.actor.key) for message in messages]


def earlier_rows(earlier: Sequence[StoredMessage], session: str) -> list[BoundStatement]:
    """Return the INSERTs of that conversation."""
    origins = (Origin(session, each.turn, "earlier", each.at, each.sender) for each in earlier)
    return [row for each, origin in zip(earlier, origins, strict=True) for row in rows_of(each.message, origin)]


def pieces_of(inbound: Inbound) -> Iterator[Piece]:
    """Yield the conversation as pieces of the message that it was given with."""
    mine = Provenance(SourceKind.PERSON, inbound.actor.key)
    for each in inbound.given.earlier if inbound.given else ():
        if each.role == "user":
            yield each.text, "an earlier message of the sender", mine
        else:
            yield each.text, "an earlier answer, as the sender's program has it", OF_THE_PROGRAM
