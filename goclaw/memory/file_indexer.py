"""Indexing of a workspace's notes. The files are the truth, events only hints.

A sweep lists all files, reads those with a changed time, inode or size, and writes the passages that differ. Reading,
cutting and writing run in threads and in small portions, so that the event loop is never held up.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from glob import escape
from math import inf
from pathlib import Path, PurePosixPath

from goclaw.common.config.schema import MemorySettings
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.document_kinds import SEARCHED, is_searched
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.common.workspace import SHARED, USERS, GlobMatch, Opened, Pattern, Workspace
from goclaw.errors import SandboxUnavailable, ToolError
from goclaw.memory.base import owner_of
from goclaw.memory.chunks import chunk_markdown, lines_of
from goclaw.memory.index import notes
from goclaw.memory.index.database import IndexFile
from goclaw.memory.index.notes import FileVersion, IndexedNote

log = logging.getLogger(__name__)

MEMORY_FILES = ("MEMORY.md", "memory/**/*.md")
"""Files searched in every workspace; `memory.paths` adds to them."""
MAX_FILES = 10_000
"""Files that are searched per workspace: a first sweep takes ten seconds, later ones a sixth of one."""
MAX_FILE = 5 << 20
"""Bytes; a larger file is not indexed."""
MAX_DOCUMENT = 20 << 20
"""Bytes of a document."""
_DOCUMENTS = (*SEARCHED, ".md", ".txt", ".csv", ".ics")
MAX_LINES = 100_000
"""Lines of a file: each is an object, and sorting more of them would hold up the event loop. A file of the largest
size has as many if they have 50 characters."""
SWEPT_AT_ONCE = 500
"""Up to this number of files a search sweeps first: 15 ms."""

_PORTION_FILES, _PORTION_BYTES = 32, 128 << 10
"""Files and bytes read and cut at once: some 20 ms of a thread, which yields to the event loop at each file."""
_TRIES = 3
"""Consecutive sweeps when files are replaced while they are read."""
_TICK = 0.02
"""Seconds: the clock of a file system moves in steps of up to 10 ms, so a younger file may change without a trace."""
_AGAIN = 3600.0
"""Seconds until a document is tried again that was not read for want of time, room or a sandbox."""
_TOO_YOUNG = -1
"""The inode of a version that is unreliable."""

_Known = Mapping[str, tuple[FileVersion, str]]


DocumentText = Callable[[str, bytes], Awaitable[str]]
"""Returns the text of a document, by its name and its bytes; raises ToolError."""
WorksIn = Callable[[str, Path], bool]
"""Whether the person with this actor key works in the workspace at this path."""


def everywhere(key: str, root: Path) -> bool:
    """Have every person work in every workspace."""
    return True


@record
class _Unusable:
    """A file that cannot be a note, whatever its name."""

    why: str
    until: float = inf
    """When it is read again, if the fault lies not in its content: epoch seconds."""


@record
class _Replaced:
    """A file replaced by another one since it was listed."""


@record
class _Unread:
    """A document as bytes."""

    data: bytes
    version: FileVersion
    sha256: str


_Read = IndexedNote | FileVersion | _Unusable | _Replaced | _Unread


@dataclass(slots=True)
class _Swept:
    """The state of a workspace between two sweeps."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    begun: int = 0
    done: int = 0
    """Sequence numbers of sweeps."""
    changed: bool = False
    """Whether something is known to have changed since the last sweep began."""
    files: int = 0
    generation: int = -1
    """The generation of the index file that was swept into."""
    unusable: dict[str, tuple[FileVersion, float]] = field(default_factory=dict)
    """Files that are not text or too large, in the version that was read, and when they are read again."""
    reported: dict[str, FileVersion] = field(default_factory=dict)
    """Files already logged as left out: not repeated at each sweep."""
    overfull: bool = False
    documents: dict[str, GlobMatch] = field(default_factory=dict)
    """Documents that changed, and are not read yet."""
    due: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether there are any."""


@dataclass(slots=True)
class _Ready:
    """The result of reading a portion, for the index."""

    documents: list[IndexedNote] = field(default_factory=list)
    touched: dict[str, FileVersion] = field(default_factory=dict)
    """New versions of files with unchanged content."""


class FileIndexer:
    """A sweeper of workspaces into an index file.

    Its methods raise `BrokenIndex` when the index is damaged (a rebuilt one is swept from scratch), `StateError` when
    the disk refuses.
    """

    def __init__(
        self,
        index: IndexFile,
        settings: MemorySettings,
        clock: Clock | None = None,
        works_in: WorksIn = everywhere,
        document_text: DocumentText | None = None,
    ) -> None:
        """`works_in`: which private notes belong to a workspace. `document_text`: None: no document is read."""
        self._index = index
        self._document_text = document_text
        self._works_in = works_in
        self._notes = (*MEMORY_FILES, *_patterns(settings.paths, "**/*.md"))
        self._documents = _patterns(settings.documents, "**/*")
        self._clock = clock or RealClock()
        self._workspaces: dict[str, _Swept] = {}

    def on_change(self, workspace: Workspace) -> None:
        """Note that something may have changed: the next `fresh` sweeps."""
        self._swept(workspace).changed = True

    async def fresh(self, workspace: Workspace) -> None:
        """Sweep if searches must see the latest files: see `SWEPT_AT_ONCE`."""
        swept = self._swept(workspace)
        if swept.generation != self._index.generation or swept.changed or swept.files <= SWEPT_AT_ONCE:
            await self.sweep(workspace)

    async def sweep(self, workspace: Workspace) -> None:
        """Bring the index in line with the files as they are now.

        Sweeps of a workspace run one at a time: calls made during one share the next, which begins after all of them.
        """
        swept = self._swept(workspace)
        wanted = swept.begun + 1
        async with swept.lock:
            if swept.done >= wanted:
                return
            swept.begun += 1
            generation, swept.changed = self._index.generation, False
            try:
                for _ in range(_TRIES):
                    if await self._brought_in_line(workspace, swept):
                        break
            except BaseException:
                swept.changed = True
                raise
            swept.done, swept.generation = swept.begun, generation

    async def read_documents(self, workspace: Workspace) -> None:
        """Read the documents that sweeps find, one at a time, until it is cancelled: each may take seconds."""
        swept, name = self._swept(workspace), name_of(workspace)
        while await swept.due.wait():
            swept.due.clear()
            while swept.documents and self._document_text:
                path, entry = next(iter(swept.documents.items()))
                [(_, read)] = await self._read_files(workspace.seen_by(owner_of(path)), [entry], {})
                known = await self._index.read(lambda connection: notes.versions(connection, name))
                fault = read if isinstance(read, _Unusable | ToolError) else None
                try:
                    if isinstance(read, _Unread) and known.get(path, (None, ""))[1] == read.sha256:
                        await self._write(name, _Ready(touched={path: read.version}))
                    elif isinstance(read, _Unread):
                        text = await self._document_text(path, read.data)
                        passages = await asyncio.to_thread(chunk_markdown, text)
                        note = IndexedNote(path, read.version, read.sha256, len(lines_of(text)), passages)
                        await self._write(name, _Ready([note]))
                except (ToolError, OSError) as error:
                    passes = isinstance(error, OSError) or isinstance(error.__cause__, OSError | SandboxUnavailable)
                    fault = _Unusable(str(error), self._clock.now() + _AGAIN if passes else inf)
                if fault:
                    _leave_out(swept, entry, fault)
                    await self._remove(name, [path])
                if swept.documents.get(path) == entry:
                    del swept.documents[path]

    def _swept(self, workspace: Workspace) -> _Swept:
        return self._workspaces.setdefault(name_of(workspace), _Swept())

    async def _brought_in_line(self, workspace: Workspace, swept: _Swept) -> bool:
        """Run one pass; return False if files were replaced meanwhile, so that another pass is due."""
        name = name_of(workspace)
        entries = await self._entries(workspace)
        if len(entries) > MAX_FILES and not swept.overfull:
            swept.overfull = True
            log.warning(
                "too many memory files, the rest is not searched", extra={"workspace": name, "limit": MAX_FILES}
            )
        known = await self._index.read(lambda connection: notes.versions(connection, name))
        portions, gone, documents = await asyncio.to_thread(_due, entries[:MAX_FILES], known, swept, self._clock.now())
        swept.documents = documents  # here, not in the thread: `read_documents` looks and deletes in two steps
        if documents:
            swept.due.set()
        is_whole, ready = True, _Ready()
        for owner, portion in portions:
            # We read while SQLite writes: they need not wait for each other.
            async with background(self._write(name, ready), "memory files") as writing:
                found = await self._read_files(workspace.seen_by(owner), portion, known)
                await writing
            ready = _Ready()
            for entry, read in found:
                match read:
                    case IndexedNote():
                        ready.documents.append(read)
                    case FileVersion():
                        ready.touched[entry.path] = read
                    case _Replaced():
                        is_whole = False
                    case ToolError(__cause__=FileNotFoundError()):
                        is_whole = False  # gone since it was listed
                    case _Unusable() | ToolError():
                        _leave_out(swept, entry, read)
                        gone += {entry.path} & known.keys()
        await self._write(name, ready)
        await self._remove(name, gone)
        return is_whole

    async def _entries(self, workspace: Workspace) -> list[GlobMatch]:
        """List the files, each with the rights of its owner, so that no name leads to another user's file."""
        # Of the shared folder the same files, so that a search finds what its person may read, and no more.
        places = ("", f"{SHARED}/") if workspace.shared else ("",)
        wanted = [f"{place}{pattern}" for place in places for pattern in self._notes]
        entries = await workspace.seen_by("").walk(wanted, MAX_FILES + 1)
        if self._documents:
            wanted = [f"{place}{pattern}" for place in places for pattern in self._documents]
            found = {entry.path for entry in entries}
            documents = await workspace.seen_by("").walk(wanted, MAX_FILES + 1, _DOCUMENTS)
            entries += [entry for entry in documents if entry.path not in found]
        for folder in await workspace.seen_by_all().paths_in(USERS):
            key, left = PurePosixPath(folder).name, MAX_FILES + 1 - len(entries)
            if folder.endswith("/") and left > 0 and self._works_in(key, workspace.root):
                entries += await workspace.seen_by(key).walk([f"{USERS}/{escape(key)}/**/*.md"], left)
        return entries

    async def _read_files(
        self, workspace: Workspace, entries: Sequence[GlobMatch], known: _Known
    ) -> list[tuple[GlobMatch, _Read | ToolError]]:
        readers = {
            entry.path: partial(
                _read_file, entry=entry, known=known.get(entry.path, (None, ""))[1], now=self._clock.now()
            )
            for entry in entries
        }
        return list(zip(entries, await workspace.use_each(readers), strict=True))

    async def _write(self, name: str, ready: _Ready) -> None:
        if ready.touched:
            await self._index.write(lambda connection: notes.touch(connection, name, ready.touched))
        documents: Sequence[IndexedNote] = ready.documents
        while documents:
            documents = await self._index.write(partial(notes.put, workspace=name, documents=documents))

    async def _remove(self, name: str, paths: Sequence[str]) -> None:
        while paths:
            paths = await self._index.write(partial(notes.remove, workspace=name, paths=paths))


def is_by_others(path: str, settings: MemorySettings) -> bool:
    """Whether a file that a search finds is a document, or lies in a folder of `memory.documents`."""
    names = path.removeprefix(f"{SHARED}/").split("/")
    wanted = (f"./{folder}{rest}" for folder in settings.documents for rest in ("", "/**"))
    return is_searched(path) or any(Pattern(each).matches(names) for each in wanted)


def name_of(workspace: Workspace) -> str:
    """Return the name of the workspace in the index."""
    return str(workspace.root)


def _patterns(paths: Sequence[str], below: str) -> list[str]:
    """Globs for the configured extra paths: each may be a file, or a folder of those that `below` matches."""
    patterns: list[str] = []
    for given in paths:
        path = PurePosixPath(given)
        if path.is_absolute() or ".." in path.parts:
            log.warning("memory: only paths below the workspace are searched", extra={"path": given})
        else:
            patterns += [str(path), str(path / below)]
    return patterns


def _due(
    entries: Sequence[GlobMatch], known: _Known, swept: _Swept, now: float
) -> tuple[Sequence[tuple[str, Sequence[GlobMatch]]], list[str], dict[str, GlobMatch]]:
    """Compare the files with the index.

    Returns those to read, in portions with the user whose rights they are read with, the paths that are gone, and the
    documents to read.
    """
    found = {entry.path: entry for entry in entries}
    swept.files = len(found)
    # Copies: this runs in a thread, and documents are read meanwhile.
    swept.unusable = {path: each for path, each in list(swept.unusable.items()) if path in found and now < each[1]}
    swept.reported = {path: each for path, each in list(swept.reported.items()) if path in found}
    changed = [
        entry
        for path, entry in found.items()
        if _version(entry) not in (known.get(path, (None, ""))[0], swept.unusable.get(path, (None,))[0])
    ]
    documents = {entry.path: entry for entry in changed if is_searched(entry.path)}
    changed = [entry for entry in changed if entry.path not in documents]
    return list(_portions(changed)), sorted(known.keys() - found.keys()), documents


def _portions(entries: Sequence[GlobMatch]) -> Iterator[tuple[str, Sequence[GlobMatch]]]:
    portion: list[GlobMatch] = []
    size, owner = 0, ""
    for entry in entries:
        other = owner_of(entry.path)
        if portion and (other != owner or size + entry.size > _PORTION_BYTES or len(portion) == _PORTION_FILES):
            yield owner, portion
            portion, size = [], 0
        owner = other
        portion.append(entry)
        size += entry.size
    if portion:
        yield owner, portion


def _read_file(opened: Opened, entry: GlobMatch, known: str, now: float) -> _Read:
    """Return the file as passages, or only its version when its content has the SHA-256 `known`. Runs in a thread."""
    found = opened.stat
    if found.version.inode != entry.inode:
        # The sweep follows no symbolic link; one that took the file's place since could lead to another user's notes.
        return _Replaced()
    most = MAX_DOCUMENT if is_searched(entry.path) else MAX_FILE
    if found.size > most:
        return _Unusable(f"it has {found.size} bytes, the limit is {most}")
    is_young = abs(now - found.modified) < _TICK
    version = FileVersion(found.modified, _TOO_YOUNG if is_young else _inode(entry), found.size)
    data = opened.file.read(most)
    if is_searched(entry.path):
        return _Unread(data, version, hashlib.sha256(data).hexdigest())
    if (lines := max(data.count(b"\n"), data.count(b"\r"))) > MAX_LINES:
        return _Unusable(f"it has {lines} lines, the limit is {MAX_LINES}")
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 == known:
        return version
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _Unusable(f"it is not UTF-8: {error.reason} at byte {error.start}")
    if "\0" in text:
        return _Unusable("it is binary: it has zero bytes")
    return IndexedNote(entry.path, version, sha256, len(lines_of(text)), chunk_markdown(text))


def _leave_out(swept: _Swept, entry: GlobMatch, why: _Unusable | ToolError) -> None:
    """Log once why a file is not searched. If it is unusable, that version is not read again until then."""
    version = _version(entry)
    if isinstance(why, _Unusable):
        swept.unusable[entry.path] = version, why.until
    if swept.reported.get(entry.path) != version:
        swept.reported[entry.path] = version
        reason = why.why if isinstance(why, _Unusable) else str(why)
        log.warning("memory file skipped", extra={"path": entry.path, "why": reason})


def _version(entry: GlobMatch) -> FileVersion:
    return FileVersion(entry.modified, _inode(entry), entry.size)


def _inode(entry: GlobMatch) -> int:
    return entry.inode[1] & (2**63 - 1)  # SQLite's integers have a sign
