"""Memory that is switched off (`memory.enabled: false`): there is no index, and nothing is found."""

from collections.abc import Sequence

from goclaw.memory.base import Found, Heard, MemoryFile, MemoryStatus, Talk, Wanted
from goclaw.workspace import Workspace

WHY = "memory.enabled is false: nothing is indexed or searched"


class NoMemory:
    """A `MemoryPort` without anything in it. Tools that search say that they cannot before they ask."""

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> Found:
        return Found("keyword", ())

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        return ()

    async def heard(self, wanted: Wanted, limit: int) -> Heard:
        return Heard("keyword", ())

    async def talks(self) -> Sequence[Talk]:
        return ()

    async def forget(self) -> bool:
        return True

    async def status(self) -> MemoryStatus:
        return MemoryStatus(0, 0, 0, "", details=(WHY,))

    async def reindex(self) -> None:
        """There is nothing to make."""
