"""Texts that are said word for word in a chat, without a model."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from goclaw.common.auth.access import Access
from goclaw.common.core.events import LOCAL, Actor, Address, Delivery, Inbound
from goclaw.conversation.schedules.quiet_hours import Way
from goclaw.durable.engine.base import TurnKind
from goclaw.durable.store.database import BoundStatement


class Submit(Protocol):
    """Queues a message for its session's lane, in one transaction with other statements (`Engine.submit`)."""

    def __call__(
        self, inbound: Inbound, kind: TurnKind = ..., *, also: Sequence[BoundStatement] = ...
    ) -> Awaitable[bool]: ...


def home_of(actor: Actor, access: Access) -> tuple[str, Address]:
    """Return the session that a person has of their own, and the chat where they read it."""
    session = access.session_for(actor, actor.key)
    channel, _, chat = actor.key.partition(":")
    return session, Address(LOCAL, session) if channel == "tui" else Address(channel, chat)


async def send_to_chat(inbound: Inbound, submit: Submit, way: Way, also: Sequence[BoundStatement] = ()) -> bool:
    """Send the text of `inbound` to its address, in one transaction with other statements. False: it was sent before.

    `way`: the outbox, or what `QuietHours.way` returns.

    The text is part of the conversation, too: terminals read it there, and the agent knows the words.

    Raises:
        StateError: the disk refuses; nothing is sent.
    """
    delivery = Delivery(inbound.id, inbound.address, inbound.text, session=inbound.session)
    promised = [] if inbound.address.channel == LOCAL else [delivery]
    if not await submit(inbound, "say", also=[*also, *map(way.row, promised)]):
        return False
    way.enqueue(promised)
    return True
