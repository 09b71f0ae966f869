"""The folders of memory: in the workspace, for one person or for all users of the workspace.

Files, so that a person can read and edit them, a backup has them, and the workspace alone separates users.
"""

from goclaw.errors import ToolError
from goclaw.memory.base import notes_folder
from goclaw.records import record
from goclaw.workspace import Workspace

SHARED = "memory"
"""The folder shared by all users."""


@record
class MemoryFolder:
    """A folder of the workspace, accessed with the rights of its owner."""

    workspace: Workspace
    folder: str

    def path(self, name: str) -> str:
        """Return the file of that name in it, relative to the workspace."""
        return f"{self.folder}/{name}"

    async def check(self, path: str) -> None:
        """Check that no link redirects `path`.

        Raises:
            ToolError: a link is on the way.
        """
        if await self.workspace.has_link(path):
            raise ToolError(f"{path} is or lies behind a symbolic link, which may lead to somebody else's notes")


def place_of(workspace: Workspace, key: str, *, shared: bool) -> MemoryFolder:
    """Return the folder of the person with this actor key, or the shared one, which shows no user's own notes.

    Raises:
        ToolError: the key names no folder.
    """
    if shared:
        return MemoryFolder(workspace.seen_by(""), SHARED)
    if key in ("", ".", "..") or "/" in key or "\0" in key:
        raise ToolError(f"nothing can be kept for {key or 'nobody'}: no folder can have that name; use shared")
    return MemoryFolder(workspace.seen_by(key), notes_folder(key))
