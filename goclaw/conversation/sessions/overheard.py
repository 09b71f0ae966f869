"""Storage of overheard messages: they start no turn, but wait on disk and go with the next message to the agent."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from goclaw.common.core.events import Inbound
from goclaw.common.core.messages import Piece
from goclaw.common.core.records import record
from goclaw.conversation.sessions.overheard_message import MAX_SAID, OverheardMessage, change, one_line, with_one_more
from goclaw.conversation.sessions.state import HEARD, Contexts, Session
from goclaw.durable.engine.journal import Journal
from goclaw.durable.store.database import BoundStatement
from goclaw.durable.store.settings import Settings
from goclaw.errors import StateError

_QUOTED = re.compile(r"(?m)^[ ]{0,3}>.*(\n[ ]{0,3}>.*)*")
"""A quotation in Markdown (CommonMark 5.1): words of others in the agent's message."""


@record
class Overheard:
    """Stores overheard messages of all sessions."""

    contexts: Contexts
    stored: Settings
    journal: Journal

    async def add(self, inbound: Inbound, keep: int, at: float) -> bool:
        """Add a person's words to others; False: there is no room, or it is the new version of words that are gone."""
        session = await self.contexts.session(inbound.session)
        if not keep or (inbound.edited and inbound.ref not in {each.ref for each in session.settings.overheard}):
            return False
        text = inbound.text[:MAX_SAID]
        passed_on = inbound.forwarded or any(not piece.is_own for piece in inbound.foreign)
        overheard = OverheardMessage("said", *_who(inbound), text, passed_on=passed_on, ref=inbound.ref, at=at)
        await self._store(session, overheard, inbound, keep)
        return True

    async def add_edit(self, inbound: Inbound, at: float) -> bool:
        """Store a person's edit of a message the agent has read; False: it was not read, or the text is the same."""
        older = await self.journal.version(inbound.session, inbound.ref)
        if older is None or older.beside or older.forwarded or older.actor.key != inbound.actor.key:
            return False
        before, now = change(older.own_words, inbound.own_words)
        # A command was never read by the agent, except where an edit turned a text into one.
        if before == now or not now or (before.startswith("/") and not older.edited):
            return False
        session = await self.contexts.session(inbound.session)
        await self._store(session, OverheardMessage("edit", *_who(inbound), now, before, inbound.ref, at=at), inbound)
        return True

    async def add_reaction(self, inbound: Inbound, on: str, text: str, at: float) -> None:
        """Add a reaction to the agent's message with this text; `on`: the message's id."""
        session = await self.contexts.session(inbound.session)
        ref = f"{on} by {inbound.actor.key}"
        own = _QUOTED.sub("[…]", text)
        overheard = OverheardMessage("reaction", *_who(inbound), inbound.text, one_line(own, 200), ref, at=at)
        await self._store(session, overheard, inbound)

    async def prune(self, before: float) -> None:
        """Delete words overheard before a moment and not delivered since.

        Raises:
            StateError: it cannot be deleted; the next day tries again.
        """
        for key in await self.stored.sessions_with(HEARD):
            session = await self.contexts.session(key)
            young = tuple(each for each in session.settings.overheard if each.at >= before)
            if len(young) < len(session.settings.overheard):
                session.settings.overheard = young
                await self.stored.set(key, HEARD, [asdict(each) for each in young] or None)

    async def _store(self, session: Session, overheard: OverheardMessage, inbound: Inbound, keep: int = 0) -> None:
        """Add a message to those that wait. Raises StateError: it cannot be written, and must come again."""
        before = session.settings.overheard
        now = session.settings.overheard = with_one_more(before, overheard, keep)
        try:
            settled = self.journal.insert_without_turn(inbound, overheard.at)
            await self.stored.set(session.key, HEARD, [asdict(each) for each in now], settled)
        except StateError:
            if session.settings.overheard is now:
                session.settings.overheard = before
            raise


@dataclass(slots=True)
class Carrying:
    """The overheard messages that go with a turn's message."""

    session: Session
    _carried: Sequence[OverheardMessage] = ()

    def pieces(self, speaker: str) -> Sequence[Piece]:
        """Return the waiting pieces, for a message of `speaker`."""
        self._carried = self.session.settings.overheard
        return [each.piece(speaker) for each in self._carried]

    def leave(self) -> None:
        """Send this message without the waiting pieces, and keep them for the next one."""
        self._carried = ()

    def remove(self) -> Sequence[BoundStatement]:
        """Remove the carried pieces; return the statements for the transaction that stores the message.

        Memory is first, as a message overheard from now on writes the whole list. Where the transaction fails, the
        session is read again from the disk.
        """
        if not self._carried:
            return ()
        left = tuple(each for each in self.session.settings.overheard if each not in self._carried)
        self.session.settings.overheard, self._carried = left, ()
        return [Settings.setting(self.session.key, HEARD, [asdict(each) for each in left] or None)]


def _who(inbound: Inbound) -> tuple[str, str]:
    return inbound.actor.key, inbound.actor.name
