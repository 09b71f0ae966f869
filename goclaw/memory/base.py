"""What memory is to those who use it: what searches find, the files, and the port that finds them.

Two things are searched: notes, which are Markdown files in a workspace, and talk, which is every message of the
transcripts.
"""

from collections.abc import Sequence
from dataclasses import field
from datetime import date
from typing import Literal, Protocol

from goclaw.records import record
from goclaw.workspace import USERS, Workspace

QUOTES = 20
"""Quotes of a search of conversations where nobody says how many: messages are short, and the budget holds them."""

Mode = Literal["hybrid", "keyword"]
"""How passages were found: by words and by meaning, or by words alone."""


@record
class Score:
    """How well a passage answers."""

    score: float
    """Comparable within one search only: 1 is the best passage of it."""
    keyword: float
    """The part of the query's terms that come together there."""
    cosine: float
    """The similarity of the meaning; 0 where only words were looked at."""
    weak: bool
    """No term of the query stands in it or beside it, and its meaning is not near: probably no answer."""


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
    """A message that answers a query, with what was said around it."""

    session: str
    lines: Sequence[TranscriptLine]
    """In the order in which they were said."""
    row: int
    """Which of them answers."""
    score: Score


@record
class NoteResults:
    """What a search of notes found."""

    mode: Mode
    hits: Sequence[NoteHit]
    """The best first."""
    more: bool = False
    """There was more than the limits let through."""


@record
class TranscriptResults:
    """What a search of conversations found."""

    mode: Mode
    quotes: Sequence[Quote]
    """The best first."""
    more: bool = False


@record
class TranscriptQuery:
    """What is looked for in conversations."""

    query: str
    sessions: Sequence[str]
    """The only ones that are looked into."""
    phrase: bool = False
    """The query's very words, in that order, and nothing else."""
    speaker: str = ""
    """Only what was said by whoever has this name, or the actor key."""
    since: date | None = None
    until: date | None = None
    """Only what was said on these days or between them (UTC)."""
    but_turn: str = ""
    """The turn whose messages are not meant: the one that asks."""


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
    """How memory stands."""

    files: int
    conversations: int
    passages: int
    """Of both."""
    embedder: str
    """Whose vectors serve; empty: none, words alone are searched."""
    trouble: str = ""
    """Why the embedder does not serve now."""
    embedded: int = 0
    to_embed: int = 0
    """How many texts have their vectors, and how many in all should."""
    coming: str = ""
    """The model whose vectors are being made beside those that serve."""
    details: Sequence[str] = field(default=())


class MemoryPort(Protocol):
    """Search over the memory files of a workspace, and over conversations."""

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> NoteResults:
        """The best passages of files that `actor_key` may see, at most `limit`, and within `memory.budget`.

        Any text is a valid query. What was written before the call is found by it, where no more than
        `sweeping.SWEPT_AT_ONCE` files are searched; else within two seconds.
        """
        ...

    async def files(self, workspace: Workspace, actor_key: str) -> Sequence[MemoryFile]:
        """The files that are searched for `actor_key`, sorted by path."""
        ...

    async def heard(self, wanted: TranscriptQuery, limit: int) -> TranscriptResults:
        """The best passages of conversations, at most `limit`, and within `memory.budget`.

        What was said before the call is found by it, unless very much waits to be taken in.

        Raises:
            ToolError: there are no transcripts at hand.
        """
        ...

    async def talks(self) -> Sequence[Talk]:
        """The conversations that can be searched.

        Raises:
            ToolError: there are no transcripts at hand.
        """
        ...

    async def forget(self) -> bool:
        """Have nothing of conversations that have gone from the transcripts, in any file of the index.

        False: it could not be done now; the log says why.
        """
        ...

    async def status(self) -> MemoryStatus:
        """How memory stands."""
        ...

    async def reindex(self) -> None:
        """Make the index anew in the background, from the files and the transcripts; vectors of the same texts stay."""
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
