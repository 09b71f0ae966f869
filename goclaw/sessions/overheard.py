"""What is heard beside the messages to the agent starts no turn: it waits, on disk, and goes with the next message."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from goclaw.engine.journal import Journal
from goclaw.errors import StateError
from goclaw.events import Inbound
from goclaw.messages import Piece
from goclaw.sessions.heard import MAX_SAID, OverheardMessage, change, one_line, with_one_more
from goclaw.sessions.state import HEARD, Contexts, Session
from goclaw.store.database import BoundStatement
from goclaw.store.settings import Settings

_QUOTED = re.compile(r"(?m)^[ ]{0,3}>.*(\n[ ]{0,3}>.*)*")
"""A quotation in Markdown (CommonMark 5.1): words in the agent's message that are not its own."""


class Overheard:
    """Takes in what is heard, for every session."""

    def __init__(self, contexts: Contexts, stored: Settings, journal: Journal) -> None:
        self._contexts = contexts
        self._stored = stored
        self._journal = journal

    async def said(self, inbound: Inbound, keep: int, at: float) -> bool:
        """Keep what a person said to others; False: there is no room for any, or the new version of what is gone."""
        session = await self._contexts.session(inbound.session)
        if not keep or (inbound.edited and inbound.ref not in {each.ref for each in session.heard}):
            return False
        text = inbound.text[:MAX_SAID]
        passed_on = inbound.forwarded or any(not piece.is_own for piece in inbound.foreign)
        heard = OverheardMessage("said", *_who(inbound), text, passed_on=passed_on, ref=inbound.ref, at=at)
        await self._keep(session, heard, inbound, keep)
        return True

    async def edited(self, inbound: Inbound, at: float) -> bool:
        """Keep how a person changed a message that the agent has heard; False: it was not heard, or says the same."""
        older = await self._journal.version(inbound.session, inbound.ref)
        if older is None or older.beside or older.forwarded or older.actor.key != inbound.actor.key:
            return False
        before, now = change(older.own_words, inbound.own_words)
        # A command was not heard, but where a text became one.
        if before == now or not now or (before.startswith("/") and not older.edited):
            return False
        session = await self._contexts.session(inbound.session)
        await self._keep(session, OverheardMessage("edit", *_who(inbound), now, before, inbound.ref, at=at), inbound)
        return True

    async def reacted(self, inbound: Inbound, on: str, text: str, at: float) -> None:
        """Keep a reaction to the agent's message with this text; `on`: the message's id."""
        session = await self._contexts.session(inbound.session)
        ref = f"{on} by {inbound.actor.key}"
        own = _QUOTED.sub("[…]", text)
        heard = OverheardMessage("reaction", *_who(inbound), inbound.text, one_line(own, 200), ref, at=at)
        await self._keep(session, heard, inbound)

    async def prune(self, before: float) -> None:
        """Forget what was heard before a moment and no message has brought since.

        Raises:
            StateError: it cannot be deleted; the next day tries again.
        """
        for key in await self._stored.sessions_with(HEARD):
            session = await self._contexts.session(key)
            young = tuple(each for each in session.heard if each.at >= before)
            if len(young) < len(session.heard):
                session.heard = young
                await self._stored.set(key, HEARD, [asdict(each) for each in young] or None)

    async def _keep(self, session: Session, heard: OverheardMessage, inbound: Inbound, keep: int = 0) -> None:
        """Raises StateError: it cannot be written, and must come again."""
        before = session.heard
        now = session.heard = with_one_more(before, heard, keep)
        try:
            settled = self._journal.settled(inbound, heard.at)
            await self._stored.set(session.key, HEARD, [asdict(each) for each in now], settled)
        except StateError:
            if session.heard is now:
                session.heard = before
            raise


@dataclass(slots=True)
class Carrying:
    """What goes with the message that a turn hears."""

    session: Session
    _carried: Sequence[OverheardMessage] = ()

    def pieces(self, speaker: str) -> Sequence[Piece]:
        """What waits, for a message of `speaker`."""
        self._carried = self.session.heard
        return [each.piece(speaker) for each in self._carried]

    def leave(self) -> None:
        """Leave what waits to the next message: this one goes without it."""
        self._carried = ()

    def settled(self) -> Sequence[BoundStatement]:
        """Take it out of what waits; the statement is for the transaction that stores the message.

        Memory is first, as what is heard from now on writes the whole list. Where the transaction fails, the session
        is read again from the disk.
        """
        if not self._carried:
            return ()
        left = tuple(each for each in self.session.heard if each not in self._carried)
        self.session.heard, self._carried = left, ()
        return [Settings.setting(self.session.key, HEARD, [asdict(each) for each in left] or None)]


def _who(inbound: Inbound) -> tuple[str, str]:
    return inbound.actor.key, inbound.actor.name
