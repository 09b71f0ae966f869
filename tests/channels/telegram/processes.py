"""What one process knows of chats and messages: of several on one schema of Postgres, or alone on a file of SQLite."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from goclaw.channels.telegram.chat_migrations import ChatMigrations
from goclaw.channels.telegram.live_message_ids import LiveMessageIds
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.fencing import Fence
from goclaw.durable.store.channel_state import ChannelRows
from goclaw.durable.store.database import Database
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.sqlite.database import open_file
from tests.acceptance.waiting import clock


@dataclass
class Process:
    """One process's view."""

    folder: Path
    database: Database
    state: ChannelRows
    ids: LiveMessageIds
    moved: ChatMigrations
    fences: dict[str, Fence]
    """Of the sessions that it holds."""

    async def take(self, *turns: str) -> None:
        """Take the sessions of turns, and read what is known of their previews; one that is alone has all of them."""
        for session in map(session_of, turns):
            if isinstance(self.database, PostgresDatabase):
                self.fences[session] = await self.database.acquire(session)
                await self.ids.read_notes(session)

    async def intend(self, turn: str, text: str = "") -> bool:
        return await self.ids.intend(turn, session_of(turn), text)

    async def remember(self, turn: str, message: int) -> None:
        await self.ids.remember(turn, session_of(turn), message)


@asynccontextmanager
async def process(place: PostgresPlace | None, folder: Path) -> AsyncIterator[Process]:
    """A process that has just begun; `place`: None: it is alone on the file of the folder."""
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    fences: dict[str, Fence] = {}
    async with open_schema(place, clock) if place else open_file(folder / "goclaw.db") as database:
        state = ChannelRows(database, fences.get if place else None)
        ids, moved = LiveMessageIds(state), ChatMigrations(state, is_alone=place is None)
        await ids.load("" if place else None)
        await moved.load()
        yield Process(folder, database, state, ids, moved, fences)


def session_of(turn: str) -> str:
    """The session of a turn."""
    return f"session of {turn}"
