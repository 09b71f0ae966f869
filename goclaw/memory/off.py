"""Memory that is switched off (`memory.enabled: false`): there is no index, and nothing is found."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from goclaw.memory.base import MemoryFile, MemoryStatus, NoteResults, Talk, TranscriptQuery, TranscriptResults
from goclaw.workspace import Workspace

WHY = "memory.enabled is false: nothing is indexed or searched"


class NoMemory:
    """A `MemoryPort` without anything in it. Tools that search say that they cannot before they ask."""

    def __init__(self, path: Path | None = None) -> None:
        """`path`: where the index lies that was made before memory was switched off, if there was one."""
        self._path = path

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        return NoteResults("keyword", ())

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        return ()

    async def heard(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        return TranscriptResults("keyword", ())

    async def talks(self) -> Sequence[Talk]:
        return ()

    async def forget(self) -> bool:
        # Nobody reads it now, and it can be made anew: what is in it of others is no reason to keep it.
        if self._path:
            await asyncio.to_thread(_remove, self._path)
        return True

    async def status(self) -> MemoryStatus:
        return MemoryStatus(0, 0, 0, "", details=(WHY,))

    async def reindex(self) -> None:
        """There is nothing to make."""


def _remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink(missing_ok=True)
