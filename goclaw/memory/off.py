"""The memory port while memory is off (`memory.enabled: false`): there is no index, and every search is empty."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from goclaw.memory.base import MemoryFile, MemoryStatus, NoteResults, Talk, TranscriptQuery, TranscriptResults
from goclaw.workspace import Workspace

WHY = "memory.enabled is false: nothing is indexed or searched"


class NoMemory:
    """An empty `MemoryPort`. Tools that search report that memory is off before they call it."""

    def __init__(self, path: Path | None = None) -> None:
        """Keep `path`: where an index made before memory was switched off may lie."""
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
        # No search reads it now, and it can be rebuilt: delete it with all other conversations in it.
        if self._path:
            await asyncio.to_thread(_remove, self._path)
        return True

    async def status(self) -> MemoryStatus:
        return MemoryStatus(0, 0, 0, "", details=(WHY,))

    async def reindex(self) -> None:
        """Do nothing: there is no index."""


def _remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink(missing_ok=True)
