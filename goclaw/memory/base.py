"""What memory is to those who use it: hits, files, and the port that finds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from goclaw.workspace import USERS, Workspace


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage of a memory file that answers a query."""

    path: str
    """Relative to the workspace."""
    start: int
    end: int
    """First and last line, counted from 1."""
    score: float
    """0 to 1: 1 is the best passage of this search, 0 is what a passage without any word of the query would have."""
    heading: str
    """The headings above the passage, `Deploys > Rollback`; empty above the first one."""
    text: str


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file that is searched."""

    path: str
    """Relative to the workspace."""
    size: int
    """Bytes."""
    lines: int
    modified: float
    """Seconds since the epoch."""


class MemoryPort(Protocol):
    """Search over the memory files of a workspace."""

    @property
    def mode(self) -> str:
        """How passages are found, as the model reads it: `keyword`."""
        ...

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> Sequence[Hit]:
        """The best passages that `actor_key` may see, best first, at most `limit`.

        Any text is a valid query. What was written before the call is found by it.
        """
        ...

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        """The files that are searched for `actor_key`, sorted by path."""
        ...


def notes_folder(key: str) -> str:
    """Where the notes for one person lie, relative to the workspace."""
    return f"{USERS}/{key}"


def owner_of(path: str) -> str:
    """Whose file `path` (relative to the workspace) is: an actor's key, or empty for everybody's.

    A file directly in `memory/users` is in nobody's folder; its own name is its owner, which no actor's key is.
    """
    # Without case, because some file systems find `Memory/Users` under this name, too.
    if not path.casefold().startswith(f"{USERS}/"):
        return ""
    return path.split("/")[2]
