"""The interface of memory: search results, files, and the port that searches; `NoMemory` is the port while it is off.

Two things are searched: notes, which are Markdown files in a workspace, and talk, which is every message of the
transcripts. While memory is off (`memory.enabled: false`) there is no index, and every search is empty.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field
from datetime import date
from pathlib import Path
from typing import Literal, Protocol

from goclaw.common.core.records import record
from goclaw.common.workspace import USERS, Workspace

QUOTES = 20
"""Default number of quotes in a search of conversations: messages are short, and the budget limits them."""

Mode = Literal["hybrid", "keyword"]
"""How passages were found: by words and by meaning, or by words alone."""


@record
class Score:
    """How well a passage answers."""

    score: float
    """Comparable within one search only: 1 is its best passage."""
    keyword: float
    """The share of the query's terms that occur together there."""
    cosine: float
    """The similarity of the meaning; 0 where only words were compared."""
    weak: bool
    """No term of the query occurs in it or next to it, and its meaning is not close: probably not an answer."""


@record
class NoteHit:
    """A passage of a memory file that answers a query."""

    path: str
    """Relative to the workspace."""
    start: int
    end: int
    """First and last line, counted from 1."""
    score: Score
    heading: str
    """The headings above the passage, `Deploys > Rollback`; empty above the first one."""
    text: str
    modified: float
    """When the file was changed: epoch seconds."""


@record
class TranscriptLine:
    """A message of a conversation, or a part of a long one."""

    row: int
    """Number of the message in the transcript."""
    at: float
    """Epoch seconds."""
    speaker: str
    text: str


@record
class Quote:
    """A message that answers a query, with the messages around it."""

    session: str
    lines: Sequence[TranscriptLine]
    """In the order in which they were said."""
    row: int
    """The row of the answering message."""
    score: Score


@record
class NoteResults:
    """The results of a search of notes."""

    mode: Mode
    hits: Sequence[NoteHit]
    """The best first."""
    more: bool = False
    """Whether the limits cut off further results."""


@record
class TranscriptResults:
    """The results of a search of conversations."""

    mode: Mode
    quotes: Sequence[Quote]
    """The best first."""
    more: bool = False
    missing: tuple[float, float] | None = None
    """From when to when messages are not in the index yet, in epoch seconds; None: all are there."""


@record
class TranscriptQuery:
    """A query over conversations."""

    query: str
    sessions: Sequence[str]
    """The only sessions that are searched."""
    phrase: bool = False
    """Search for the exact phrase only."""
    speaker: str = ""
    """Only messages of the speaker with this name or actor key."""
    since: date | None = None
    until: date | None = None
    """Only messages of these days or between them (UTC)."""
    but_turn: str = ""
    """The turn whose messages are excluded: the turn that searches."""


@record
class MemoryFile:
    """A file that is searched."""

    path: str
    """Relative to the workspace."""
    size: int
    """Bytes."""
    lines: int
    modified: float
    """Seconds since the epoch."""


@record
class Talk:
    """A conversation that is searched."""

    session: str
    senders: frozenset[str]
    """Actor keys of who wrote in it."""


@record
class MemoryStatus:
    """The state of memory."""

    files: int
    conversations: int
    passages: int
    """Passages of notes and conversations together."""
    embedder: str
    """The embedder whose vectors are in use; empty: none, only words are searched."""
    trouble: str = ""
    """Why the embedder is unavailable now."""
    embedded: int = 0
    to_embed: int = 0
    """The number of texts with a vector, and of all texts that should have one."""
    coming: str = ""
    """The model whose vectors are being computed in addition to those in use."""
    details: Sequence[str] = field(default=())
    enabled: bool = True
    """Whether anything is indexed and searched (`memory.enabled`)."""


class MemoryPort(Protocol):
    """Search over the memory files of a workspace, and over conversations."""

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        """Return the best passages of files that `actor_key` may see, at most `limit`, and within `memory.budget`.

        Any text is a valid query. Files written before the call are found, where no more than
        `file_indexer.SWEPT_AT_ONCE` files are searched; else within two seconds.
        """
        ...

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        """Return the files that are searched for `actor_key`, sorted by path."""
        ...

    async def search_transcripts(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        """Return the best passages of conversations, at most `limit`, and within `memory.budget`.

        Messages stored before the call are found, unless a large backlog waits for indexing.

        Raises:
            ToolError: no transcripts are available.
        """
        ...

    async def talks(self) -> Sequence[Talk]:
        """Return the conversations that can be searched.

        Raises:
            ToolError: no transcripts are available.
        """
        ...

    async def forget(self) -> bool:
        """Remove deleted conversations from every file of the index.

        Returns False if that is impossible now; the log says why.
        """
        ...

    async def status(self) -> MemoryStatus:
        """Return the state of memory."""
        ...

    async def reindex(self) -> None:
        """Rebuild the index in the background, from the files and the transcripts; vectors of unchanged texts stay."""
        ...


def notes_folder(key: str) -> str:
    """Return the folder of one person's notes, relative to the workspace."""
    return f"{USERS}/{key}"


def owner_of(path: str) -> str:
    """Return the actor key of a file's owner; empty for a shared file. `path` is relative to the workspace.

    A file directly in `memory/users` is in no user's folder; its owner is its own name, which is no actor's key.
    """
    # Without case, because some file systems also find `Memory/Users` under this name.
    if not path.casefold().startswith(f"{USERS}/"):
        return ""
    return path.split("/")[2]


DISABLED = "memory.enabled is false, so nothing is indexed or searched"


class NoMemory:
    """An empty `MemoryPort`. Tools that search report that memory is off before they call it."""

    def __init__(self, path: Path | None = None) -> None:
        """Keep `path`: where an index made before memory was switched off may lie."""
        self._path = path

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        return NoteResults("keyword", ())

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        return ()

    async def search_transcripts(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        return TranscriptResults("keyword", ())

    async def talks(self) -> Sequence[Talk]:
        return ()

    async def forget(self) -> bool:
        # No search reads it now, and it can be rebuilt: delete it with all other conversations in it.
        if self._path:
            await asyncio.to_thread(_remove, self._path)
        return True

    async def status(self) -> MemoryStatus:
        return MemoryStatus(0, 0, 0, "", details=(DISABLED,), enabled=False)

    async def reindex(self) -> None:
        """Do nothing: there is no index."""


def _remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink(missing_ok=True)
