"""Reads one conversation from the state folder, which no daemon holds. A module of its own: with a daemon none of it is
needed.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from goclaw.access import Access
from goclaw.config.schema import Config
from goclaw.errors import AccessDenied
from goclaw.events import Actor, Outline, SessionInfo, TranscriptRow
from goclaw.servers.socket import owner_key
from goclaw.state import open_state
from goclaw.store.database import open_database
from goclaw.store.reading import TranscriptReader
from goclaw.store.transcripts import Transcripts
from goclaw.users import Users, login_name


class Stored:
    """Implements `source.Source` on the database. Made by `open_stored`."""

    def __init__(self, transcripts: Transcripts, reader: TranscriptReader, access: Access, session: str) -> None:
        self._transcripts = transcripts
        self._reader = reader
        self._access = access
        self._actor = Actor(owner_key(session), "cli", owner=True, name=login_name())
        self._session = access.session_for(self._actor, session)
        self._demand(self._session)

    async def sessions(self) -> Sequence[SessionInfo]:
        found = await self._transcripts.sessions()
        return [info for info in found if self._access.authorize(self._actor, "session.read", info.key).allowed]

    async def outline(self, last: int = 0) -> Outline:
        return await self._reader.outline(self._session, last)

    async def page(self, after: int) -> Sequence[TranscriptRow]:
        return await self._reader.page(self._session, after)

    def _demand(self, session: str) -> None:
        decision = self._access.authorize(self._actor, "session.read", session)
        if not decision.allowed:
            raise AccessDenied(f"denied: {decision.rule}")


@asynccontextmanager
async def open_stored(config: Config, session: str) -> AsyncIterator[Stored]:
    """Open the conversation, with the state folder locked until the block ends.

    Raises:
        StateError: another process holds it, or the database cannot be used.
        AccessDenied: the user may not read it.
    """
    with open_state(config):
        access = Access(Users.read(config.users_path), config)
        async with open_database(config.database_path) as database:
            yield Stored(Transcripts(database), TranscriptReader(database), access, session)
