"""The conversation that a program sends with a message, as a model reads it.

It stands in front of the message as messages of its own. Where a hook of the operator judges messages it is a part of
that message instead, marked as material, so that the hook judges all of it and no order is smuggled past.
"""

from collections.abc import Iterator

from goclaw.common.core.events import Given, Inbound
from goclaw.common.core.messages import AssistantMessage, Message, Piece, Provenance, SourceKind, UserMessage

EARLIER_TURN = ":earlier"
"""Follows a turn's id in the rows of the conversation that was given with its message."""
OF_THE_PROGRAM = Provenance()


def messages_of(given: Given | None) -> list[Message]:
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
