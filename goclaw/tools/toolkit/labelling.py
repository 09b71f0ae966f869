"""The labels of files: what a call reads and writes, and whose words the model that makes it has read.

A file that is written, or changed by a command, while there is a word of others in the model's window, carries the
label from then on; whatever reads it brings the label back into a window. What a person changes loses it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile

from goclaw.common.core.messages import Provenance, SourceKind
from goclaw.common.core.records import record
from goclaw.common.specs import ToolSpec
from goclaw.durable.store.file_labels import MAX_FILES, WHOLE, FileLabels
from goclaw.tools.toolkit.acting_files import ActingFiles, describe
from goclaw.tools.toolkit.base import ToolContext
from goclaw.tools.toolkit.scheduling import EVERYTHING, ResourceUse
from goclaw.tools.toolkit.scope import Watch

MAX_ENTRIES = 50_000
"""Entries of a workspace that are looked at after a command; in a larger one all of it is labelled."""
TICK_SECONDS = 0.02
"""The stamps of files are those of the kernel's last tick."""
_UNCHANGED_BY_PEOPLE = (".git/objects",)
_SOURCES = {"mcp": SourceKind.MCP, "web": SourceKind.WEB, "filesystem": SourceKind.FILE, "memory": SourceKind.FILE}
"""Where tools with such a tag have from what they tell; the first one counts."""
_LABELLED = (SourceKind.FILE, SourceKind.TOOL)


def provenance_of(spec: ToolSpec) -> Provenance | None:
    """Return the source of a tool's content; None: GoClaw itself."""
    if not spec.foreign:
        return None
    return Provenance(next((kind for tag, kind in _SOURCES.items() if tag in spec.tags), SourceKind.TOOL))


class Labelling:
    """Keeps the labels of files with what calls do. `labels`: None: nothing keeps them, and no file has one."""

    def __init__(self, labels: FileLabels | None = None) -> None:
        self._labels = labels

    @asynccontextmanager
    async def follow(self, context: ToolContext, watch: Watch) -> AsyncIterator[None]:
        """Follow a call while the block runs it: label what it writes, and its result with what it reads."""
        labels, use, folder = self._labels, watch.options.slot.access, str(context.workspace.root)
        if labels is None or use is None or not (use.reads or use.writes or use.category == "shell"):
            yield
            return
        is_foreign = bool(use.writes or use.category == "shell") and _is_foreign(watch)
        if not is_foreign and not await labels.of(folder):
            yield
            return
        followed = _Followed(labels, use, folder, is_foreign, await asyncio.to_thread(_file_time))
        acting = await asyncio.to_thread(ActingFiles, folder) if followed.is_command and is_foreign else None
        try:
            yield
        finally:
            if acting and (aside := await asyncio.to_thread(acting.set_aside)):
                watch.outcome.notes.append(describe(aside))
            await followed.label_writes()
            provenance = watch.outcome.provenance
            if provenance and provenance.kind in _LABELLED and await followed.has_read_labelled():
                watch.set_source(SourceKind.DOCUMENT)


@record
class _Followed:
    """A call that runs where files have labels, or get some."""

    labels: FileLabels
    use: ResourceUse
    folder: str
    is_foreign: bool
    """Whether others' words are in the window of the model that makes it."""
    began: float
    """By the clock that stamps files, in seconds."""

    @property
    def is_command(self) -> bool:
        """Whether it may read and write any file."""
        return self.use.category == "shell"

    async def label_writes(self) -> None:
        """Label what the call wrote; without others' words in the window, where labels go on with their files."""
        writes = self._relative(self.use.writes)
        if self.is_foreign:
            changed = await self._changed() if self.is_command else writes
            if changed:
                await self.labels.add(self.folder, await self._stamps(changed))
        elif writes or self.is_command:
            await self._carry_over()

    async def has_read_labelled(self) -> bool:
        """Whether one of the files that it read, or may have read, has a label that still counts."""
        known, reads = await self.labels.of(self.folder), self._relative(self.use.reads)
        if WHOLE in known:
            return True
        is_any = self.is_command or EVERYTHING in self.use.reads
        read = [path for path in known if is_any or any(_overlap(path, each) for each in reads)]
        now = await self._stamps(read)
        if lapsed := [path for path in read if now.get(path) != known[path]]:
            await self.labels.remove(self.folder, *lapsed)
        return len(lapsed) < len(read)

    async def _carry_over(self) -> None:
        """Let labels go on with files that the call changed, copied or moved, as far as that can be seen."""
        known = await self.labels.of(self.folder)
        now = await self._stamps(known)
        ours = {path: stamp for path, stamp in now.items() if stamp != known[path] and _is_since(stamp, self.began)}
        gone = known.keys() - now.keys() - {WHOLE}
        if self.is_command and (gone or ours):
            ours |= await self._stamps(await self._changed())
        if ours:
            await self.labels.add(self.folder, ours)
        if gone:
            await self.labels.remove(self.folder, *gone)

    def _relative(self, paths: Iterable[str]) -> list[str]:
        """Return real paths as they are kept: from the workspace on, if they lie there."""
        return ["." if path == self.folder else path.removeprefix(f"{self.folder}/") for path in paths]

    async def _stamps(self, paths: Iterable[str]) -> dict[str, str]:
        return await asyncio.to_thread(_stamps, self.folder, paths)

    async def _changed(self) -> list[str]:
        return await asyncio.to_thread(_changed, self.folder, self.began)


def _is_foreign(watch: Watch) -> bool:
    seen = watch.scope.services.window()
    return seen is not None and bool(seen.foreign)


def _full(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"


def _file_time() -> float:
    """Return the time by the clock that stamps files, in seconds."""
    with TemporaryFile() as made:
        return os.fstat(made.fileno()).st_mtime


def _overlap(path: str, other: str) -> bool:
    return PurePosixPath(path).is_relative_to(other) or PurePosixPath(other).is_relative_to(path)


def _stamps(folder: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the stamps of those files that exist: the time of their last change in nanoseconds, and their size."""
    found = {}
    for path in paths:
        with suppress(OSError):
            status = Path(_full(folder, path)).stat(follow_symlinks=False)
            found[path] = f"{status.st_mtime_ns}:{status.st_size}"
    return found


def _is_since(stamp: str, began: float) -> bool:
    return int(stamp.partition(":")[0]) >= (began - TICK_SECONDS) * 1e9


def _changed(folder: str, began: float) -> list[str]:
    """Return the files below a folder that changed since a time; `WHOLE` alone, if these are too many."""
    found: list[str] = []
    waiting, seen = [""], 0
    while waiting:
        inside = waiting.pop()
        with suppress(OSError), os.scandir(_full(folder, inside)) as entries:
            for entry in entries:
                path, seen = f"{inside}/{entry.name}".lstrip("/"), seen + 1
                if entry.is_dir(follow_symlinks=False):
                    waiting += [] if path.endswith(_UNCHANGED_BY_PEOPLE) else [path]
                elif entry.stat(follow_symlinks=False).st_ctime >= began - TICK_SECONDS:
                    found.append(path)
                if len(found) > MAX_FILES or seen > MAX_ENTRIES:
                    return [WHOLE]
    return found
