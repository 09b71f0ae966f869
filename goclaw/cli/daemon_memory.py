"""Memory for `goclaw tool run` beside a daemon: what was said is searched there, notes are searched here.

The daemon holds the database with the conversations, so that no other process reads them. Who may search which is
decided by the tool, here, as everywhere.
"""

from collections.abc import Sequence
from typing import Any

from goclaw.config.schema import Config
from goclaw.errors import GoclawError, ToolError
from goclaw.memory.base import (
    MemoryFile,
    MemoryPort,
    MemoryStatus,
    NoteResults,
    Talk,
    TranscriptQuery,
    TranscriptResults,
)
from goclaw.memory.memory_queries import HEARD, TALKS, WANTED
from goclaw.users import login_name
from goclaw.wire import AskMemory, MemoryFrame
from goclaw.workspace import Workspace


class DaemonMemory:
    """A `MemoryPort` that asks the daemon of a state folder for conversations, and another one for all else."""

    def __init__(self, notes: MemoryPort, config: Config) -> None:
        self._notes = notes
        self._config = config

    async def heard(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        answer = await self._asked(AskMemory("heard", limit=limit, wanted=WANTED.to_data(wanted)))
        return HEARD.from_data(answer["heard"])

    async def talks(self) -> Sequence[Talk]:
        return TALKS.from_data((await self._asked(AskMemory("talks")))["talks"])

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        return await self._notes.search(workspace, actor_key, query, limit)

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        return await self._notes.files(workspace, actor_key)

    async def forget(self) -> bool:
        return await self._notes.forget()

    async def status(self) -> MemoryStatus:
        return await self._notes.status()

    async def reindex(self) -> None:
        await self._notes.reindex()

    async def _asked(self, question: AskMemory) -> dict[str, Any]:
        from goclaw.tui.client import attach  # most calls search no conversation

        try:
            async with attach(self._config.socket_path, f"tui:{login_name()}", limit=0) as client:
                return (await client.answer(question, MemoryFrame)).answer
        except GoclawError as error:
            raise ToolError(f"the daemon does not search conversations now: {error}") from error
