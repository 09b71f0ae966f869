"""Memory as its users have it: files on disk in, passages out. Above: tools, context, commands. Below: `index`.

Every call first sweeps the workspace for what changed, so that a file is found as soon as it is written; a file that
did not change costs one stat. Vectors will be a second ranked list in `search`, merged by score with the keyword one.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from glob import escape
from pathlib import Path, PurePosixPath
from typing import TypeVar

from goclaw.clock import Clock
from goclaw.config.schema import MemorySettings
from goclaw.errors import ToolError
from goclaw.memory.base import Found, Heard, Hit, MemoryFile, MemoryStatus, Talk, Wanted, owner_of
from goclaw.memory.chunks import chunk_markdown
from goclaw.memory.index import BrokenIndex, Document, Index, Version, open_index
from goclaw.memory.listening import Feed
from goclaw.memory.words import extra_terms, match_expressions
from goclaw.workspace import USERS, Entry, Opened, Workspace

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

MEMORY_FILES = ("MEMORY.md", "memory/**/*.md")
"""What is searched in every workspace; `memory.paths` adds to it."""
MOST_FILES = 5_000
"""Files that are searched per workspace: a first sweep reads them in about five seconds, later ones in 0.1 s."""
LARGEST_FILE = 5 << 20
"""Bytes; a larger file is no note."""
_BATCH = 50
"""Files per transaction: a few milliseconds of writing."""


class Memory:
    """The `MemoryPort` over an index file; made by `open_memory`."""

    def __init__(self, index: Index, settings: MemorySettings) -> None:
        self._index = index
        self._patterns = (*MEMORY_FILES, *_patterns(settings.paths))
        self._lock = asyncio.Lock()
        # What was reported once is not reported at each sweep: files that are no text, in the version that was looked
        # at, and workspaces with too many files.
        self._overfull: set[str] = set()
        self._unusable: dict[tuple[str, str], Version] = {}

    async def search(self, workspace: Workspace, actor_key: str, query: str, limit: int) -> Found:
        """See `MemoryPort.search`.

        Raises:
            StateError: the index file cannot be written (a full disk).
        """

        async def best(index: Index) -> list[Hit]:
            for expression in match_expressions(query):
                if hits := await index.search(_name(workspace), actor_key, expression, limit):
                    return hits
            return []

        return Found("keyword", await self._with_fresh_index(workspace, best))

    async def files(self, workspace: Workspace, actor_key: str) -> list[MemoryFile]:
        """See `MemoryPort.files`.

        Raises:
            StateError: the index file cannot be written (a full disk).
        """
        return await self._with_fresh_index(workspace, lambda index: index.files(_name(workspace), actor_key))

    async def heard(self, wanted: Wanted, limit: int) -> Heard:
        """Nothing: conversations are not indexed yet."""
        return Heard("keyword", ())

    async def talks(self) -> list[Talk]:
        """None: conversations are not indexed yet."""
        return []

    async def forget(self) -> bool:
        """Nothing is there that could be forgotten."""
        return True

    async def status(self) -> MemoryStatus:
        """Nothing is counted yet."""
        return MemoryStatus(0, 0, 0, "")

    async def reindex(self) -> None:
        """Made anew."""
        await self._index.rebuild()

    async def _with_fresh_index(self, workspace: Workspace, use: Callable[[Index], Awaitable[ResultT]]) -> ResultT:
        async with self._lock:
            try:
                await self._refresh(workspace)
                return await use(self._index)
            except BrokenIndex as error:
                log.warning("the memory index is damaged and is made anew", extra={"why": str(error)})
                await self._index.rebuild()
                await self._refresh(workspace)
                return await use(self._index)

    async def _refresh(self, workspace: Workspace) -> None:
        """Bring the index in line with the files."""
        name = _name(workspace)
        entries = await self._entries(workspace)
        if len(entries) > MOST_FILES and name not in self._overfull:
            self._overfull.add(name)
            log.warning(
                "too many memory files, the rest is not searched", extra={"workspace": name, "limit": MOST_FILES}
            )
        indexed = await self._index.versions(name)
        found = {entry.path: entry for entry in entries[:MOST_FILES]}
        changed = [
            entry
            for path, entry in found.items()
            if _version(entry) not in (indexed.get(path, (None,))[0], self._unusable.get((name, path)))
        ]
        gone = set(indexed) - set(found)
        for start in range(0, len(changed), _BATCH):
            gone |= await self._take_in(workspace, changed[start : start + _BATCH], indexed)
        if gone:
            await self._index.remove(name, gone)

    async def _entries(self, workspace: Workspace) -> list[Entry]:
        """The files, each found with the eyes of whom it is served to: nothing of others is behind its name."""
        entries = await workspace.seen_by("").walk(self._patterns, MOST_FILES + 1)
        for folder in await workspace.seen_by_all().paths_in(USERS):
            key, left = PurePosixPath(folder).name, MOST_FILES + 1 - len(entries)
            if folder.endswith("/") and left > 0:
                entries += await workspace.seen_by(key).walk([f"{USERS}/{escape(key)}/**/*.md"], left)
        return entries

    async def _take_in(
        self, workspace: Workspace, entries: Iterable[Entry], indexed: dict[str, tuple[Version, str]]
    ) -> set[str]:
        """Read and index files; returns the paths of those that were indexed and cannot be any more."""
        name = _name(workspace)
        documents, touched, lost = [], {}, set()
        for entry in entries:
            known = indexed[entry.path][1] if entry.path in indexed else ""
            try:
                own = workspace.seen_by(owner_of(entry.path))
                document = await own.use(entry.path, partial(_read, entry=entry, known=known))
            except (ToolError, UnicodeDecodeError) as error:
                log.warning("memory file skipped", extra={"path": entry.path, "why": str(error)})
                self._unusable[name, entry.path] = _version(entry)
                lost.update({entry.path} & indexed.keys())
                continue
            if isinstance(document, Version):
                touched[entry.path] = document
            else:
                documents.append(document)
        if touched:
            await self._index.touch(name, touched)
        if documents:
            await self._index.put(name, documents)
        return lost


@asynccontextmanager
async def open_memory(
    path: Path, settings: MemorySettings, clock: Clock | None = None, *, feed: Feed | None = None
) -> AsyncIterator[Memory]:
    """Open the memory whose index is the file `path` (made if it is missing, set aside and made anew if broken).

    Raises:
        StateError: the file cannot be made.
    """
    async with open_index(path) as index:
        yield Memory(index, settings)


def _patterns(paths: Iterable[str]) -> list[str]:
    """Globs for the configured extra paths: each may be a file of any name, or a folder of Markdown files."""
    patterns: list[str] = []
    for given in paths:
        path = PurePosixPath(given)
        if path.is_absolute() or ".." in path.parts:
            log.warning("memory.paths: only paths below the workspace are searched", extra={"path": given})
        else:
            patterns += [str(path), str(path / "**/*.md")]
    return patterns


def _read(opened: Opened, entry: Entry, known: str) -> Document | Version:
    """The file as passages, or only its version when its content has the SHA-256 `known`. Runs in a thread."""
    found = opened.stat
    if found.version.inode != entry.inode:
        # The sweep follows no symbolic link; one that took the file's place since could lead to another user's notes.
        raise ToolError("it was replaced while it was read")
    if found.size > LARGEST_FILE:
        raise ToolError(f"it has {found.size} bytes, the limit is {LARGEST_FILE}")
    version = Version(found.modified, _inode(entry), found.size)
    data = opened.file.read(LARGEST_FILE)
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 == known:
        return version
    text = data.decode("utf-8-sig")
    stem = PurePosixPath(entry.path).stem  # `2026-11-20`: what notes of a day are asked for by
    chunks = [
        (chunk, " ".join((stem, *extra_terms(f"{chunk.heading}\n{chunk.text}")))) for chunk in chunk_markdown(text)
    ]
    return Document(entry.path, version, sha256, len(text.splitlines()), chunks)


def _name(workspace: Workspace) -> str:
    return str(workspace.root)


def _version(entry: Entry) -> Version:
    return Version(entry.modified, _inode(entry), entry.size)


def _inode(entry: Entry) -> int:
    return entry.inode[1] & (2**63 - 1)  # SQLite's integers have a sign
