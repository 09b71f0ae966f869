"""Conversations and memory from the state folder, which no daemon holds.

A module of its own: with a daemon none of it is needed.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from goclaw.common.auth.access import Access
from goclaw.common.auth.users import Users, login_name, open_users
from goclaw.common.config.schema import Config
from goclaw.common.config.state import open_state
from goclaw.common.core.clock import RealClock
from goclaw.common.core.events import Actor, Outline, SessionInfo, TranscriptRow
from goclaw.common.core.wire import AskMemory
from goclaw.durable.store.open import is_there, open_database
from goclaw.durable.store.reading import TranscriptFeed, TranscriptReader
from goclaw.durable.store.transcripts import Transcripts
from goclaw.errors import AccessDenied
from goclaw.gateway.servers.terminals import owner_key
from goclaw.memory.memory_queries import MemoryQueries, MemoryQuery


class StoredConversation:
    """Implements `transcripts.ConversationSource` on the database. Made by `open_stored`."""

    def __init__(self, transcripts: Transcripts, reader: TranscriptReader, access: Access, session: str) -> None:
        self._transcripts = transcripts
        self._reader = reader
        self._access = access
        self._actor = Actor(owner_key(session), "cli", owner=True, name=login_name())
        self._session = access.session_for(self._actor, session)
        decision = access.authorize(self._actor, "session.read", self._session)
        if not decision.allowed:
            raise AccessDenied(f"denied: {decision.rule}")

    async def sessions(self) -> Sequence[SessionInfo]:
        found = await self._transcripts.sessions()
        return [info for info in found if self._access.authorize(self._actor, "session.read", info.key).allowed]

    async def outline(self, last: int = 0) -> Outline:
        return await self._reader.outline(self._session, last)

    async def page(self, after: int) -> Sequence[TranscriptRow]:
        return await self._reader.page(self._session, after)


@asynccontextmanager
async def open_stored(config: Config, session: str) -> AsyncIterator[StoredConversation]:
    """Open the conversation, with the state folder locked until the block ends.

    Raises:
        StateError: another process holds it, or the database cannot be used.
        AccessDenied: the user may not read it.
    """
    with open_state(config):
        access = Access(Users.read(config.users_path), config)
        async with open_database(config.store_place) as database:
            yield StoredConversation(Transcripts(database), TranscriptReader(database), access, session)


async def answer(config: Config, asked: AskMemory) -> dict[str, Any]:
    """Return memory's answer, with the state folder locked meanwhile.

    Raises:
        StateError: another process holds it, or memory is off.
        AccessDenied: the user may not ask for that.
    """
    from goclaw.program.app import open_environment  # a conversation needs none of it

    clock = RealClock()
    async with AsyncExitStack() as stack:
        stack.enter_context(open_state(config))
        users = await stack.enter_async_context(open_users(config.users_path, clock))
        feed = None
        if is_there(config.store_place):
            feed = TranscriptFeed(await stack.enter_async_context(open_database(config.store_place)))
        environment = await stack.enter_async_context(open_environment(config, users, clock, feed=feed))
        actor = Actor(f"tui:{login_name()}", "cli", owner=True, name=login_name())
        if asked.order == "reindex" and config.memory.enabled:
            # Every workspace that exists is one of those that have their files indexed.
            for each in (actor, *(Actor(user.key, "cli") for user in users.all())):
                if environment.workspaces.place(each.key).root.is_dir():
                    await environment.memory.files(await environment.workspace(each), each.key)
        queries = MemoryQueries(environment.memory, Access(users, config), environment.workspace, config.memory)
        question = MemoryQuery(asked.order, asked.query, asked.user, asked.everybody, asked.limit, asked.wanted)
        return await queries.answer(actor, question)
