"""Where what is remembered lies: in the workspace, for one person alone or for all who work there.

Files, so that a person can read and mend them, a backup has them, and nothing but the workspace keeps them apart.
"""

from goclaw.errors import ToolError
from goclaw.memory.base import notes_folder
from goclaw.records import record
from goclaw.workspace import Workspace

SHARED = "memory"
"""Folder of what is everybody's."""


@record
class MemoryFolder:
    """A folder of the workspace, seen with the eyes of whom it belongs to."""

    workspace: Workspace
    folder: str

    def path(self, name: str) -> str:
        """The file of that name in it, relative to the workspace."""
        return f"{self.folder}/{name}"

    async def check(self, path: str) -> None:
        """Whether `path` leads where it says.

        Raises:
            ToolError: a link is on the way.
        """
        if await self.workspace.has_link(path):
            raise ToolError(f"{path} is or lies behind a symbolic link, which may lead to somebody else's notes")


def place_of(workspace: Workspace, key: str, *, shared: bool) -> MemoryFolder:
    """The place of the person with this actor key, or the shared one, where nobody's own notes are seen.

    Raises:
        ToolError: the key names no folder.
    """
    if shared:
        return MemoryFolder(workspace.seen_by(""), SHARED)
    if key in ("", ".", "..") or "/" in key or "\0" in key:
        raise ToolError(f"nothing can be kept for {key or 'nobody'}: no folder can have that name; use shared")
    return MemoryFolder(workspace.seen_by(key), notes_folder(key))
