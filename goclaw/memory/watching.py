"""Watching of a workspace for changes of memory files. Events are hints only: `file_indexer` checks.

The kernel reports changes of folders (`workspace.hints`); of the workspace itself only a few names matter. Where it
does not report all (no watches left, a network folder that another machine writes to) a sweep runs each minute.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.common.workspace import SHARED, Workspace
from goclaw.common.workspace.hints import Hints, NothingTold, open_hints
from goclaw.errors import ToolError

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.5
"""Seconds between two reads of the kernel's events: with a sweep of 0.1 s, a change is seen within two seconds."""
SAFETY_SECONDS = 6 * 3600.0
"""Seconds between two unprompted sweeps where the kernel tells of every change: it may have lost some."""
UNTOLD_SECONDS = 60.0
"""Seconds between two sweeps where it does not: one of 5,000 files costs 0.05 s."""
FLOOD = 1_000
"""Changed paths of one look with which some may have been lost (the kernel keeps 16,384 events): a sweep is due."""
MAX_FOLDERS = 1_000
"""Folders that are watched in a workspace; the kernel's limit is for all programs of a user (`max_user_watches`)."""
_MAX_NAMES = 10_000
"""Names read in one folder, to find its subfolders."""
_SOURCES = ("MEMORY.md", "memory")
_TOO_LARGE = (".", "./", "")
"""The workspace itself as a folder of notes: it is searched, not watched."""
_WILDCARDS = frozenset("*?[")
"""Characters of a source that names folders which are not looked for, to be watched."""


@record
class WatchedFolders:
    """The folders of a workspace where memory files may appear, relative to it; `.` is the workspace."""

    whole: frozenset[str]
    """Folders in which every change matters."""
    steps: frozenset[tuple[str, str]]
    """Pairs of a folder and the one name in it that matters: a searched file, or a folder on the way to one."""

    @property
    def all(self) -> list[str]:
        """Return all folders to watch."""
        return sorted({*self.whole, *(folder for folder, _ in self.steps)})

    def matters(self, path: str) -> bool:
        """Return whether a change of this path may be one of a memory file."""
        folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
        return (folder, name) in self.steps or (folder in self.whole and not name.startswith(".")) or path in self.whole


@asynccontextmanager
async def watch(
    workspace: Workspace, paths: Sequence[str], clock: Clock, changed: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """During the block, await `changed` whenever memory files may have changed, and once when watching begins.

    Args:
        paths: `memory.paths`. The workspace itself and wildcards are not watched: with them a sweep runs each minute.
        changed: sweeps. Called again after a growing pause when it raises.
    """
    sources = [*_SOURCES, *paths]
    sources += [f"{SHARED}/{source}" for source in sources] if workspace.shared else []
    watching = _Watching(workspace, sources, clock, changed)
    async with background(run_with_restarts("watching memory files", watching.run, clock), "watching memory files"):
        yield


async def folders_to_watch(workspace: Workspace, sources: Iterable[str]) -> WatchedFolders:
    """Return the folders where files of these names may appear: each may be a file, a folder or missing yet."""
    view, whole, steps = workspace.seen_by_all(), set[str](), set[tuple[str, str]]()
    for source in sources:
        names = PurePosixPath(source).parts
        if not names or names[0] == "/" or ".." in names:
            continue
        way = [str(PurePosixPath(*names[:depth])) for depth in range(len(names) + 1)]
        for folder, name in zip(way, names, strict=False):
            if not await _is_folder(view, folder):
                break
            steps.add((folder, name))
        else:
            if await _is_folder(view, way[-1]):
                await _add_tree(view, way[-1], whole)
    return WatchedFolders(frozenset(whole), frozenset(steps))


class _Watching:
    def __init__(
        self, workspace: Workspace, sources: Sequence[str], clock: Clock, changed: Callable[[], Awaitable[None]]
    ) -> None:
        self._workspace = workspace
        self._sources = sources
        self._clock = clock
        self._changed = changed
        self._told = False
        wanted = [source.removeprefix(f"{SHARED}/") for source in sources]
        self._searches_unwatched = any(each in _TOO_LARGE or not _WILDCARDS.isdisjoint(each) for each in wanted)

    async def run(self) -> None:
        """Watch until cancelled, starting again whenever folders appear or disappear."""
        while True:
            folders = await folders_to_watch(self._workspace, self._sources)
            try:
                async with open_hints(self._workspace, folders.all) as hints:
                    await self._follow(folders, hints)
            except NothingTold as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    await self._clock.sleep(LOOK_SECONDS)  # a folder went while the watch was laid
                    continue
                if not self._told:
                    self._told = True
                    extra = {"workspace": str(self._workspace.root), "why": str(error), "seconds": UNTOLD_SECONDS}
                    log.warning("memory files cannot be watched, changes are looked for now and then", extra=extra)
                await self._changed()
                await self._clock.sleep(UNTOLD_SECONDS)

    async def _follow(self, folders: WatchedFolders, hints: Hints) -> None:
        """Return when the set of folders has changed."""
        due = True  # what happened before the watch was laid
        swept = self._clock.monotonic()
        is_watched = hints.tell_all and not self._searches_unwatched and len(folders.whole) < MAX_FOLDERS
        rest = SAFETY_SECONDS if is_watched else UNTOLD_SECONDS
        while True:
            if due or self._clock.monotonic() - swept >= rest:
                await self._changed()
                swept = self._clock.monotonic()
                if await folders_to_watch(self._workspace, self._sources) != folders:
                    return
            await self._clock.sleep(LOOK_SECONDS)
            told = await hints.poll()
            paths = [path for path in told if folders.matters(path)]
            if not folders.whole.isdisjoint(paths):
                return  # a folder that comes again under its old name is another one
            due = bool(paths) or len(told) >= FLOOD


async def _is_folder(workspace: Workspace, path: str) -> bool:
    """Return whether it is a folder under its own name: folders reached through a link are not searched."""
    try:
        found = await workspace.stat(path)
    except ToolError:
        return False
    return found.is_folder and found.path == path


async def _add_tree(workspace: Workspace, folder: str, whole: set[str]) -> None:
    """Add a folder and its searched subfolders. The workspace itself is too large."""
    left = [folder] if folder != "." else []
    while left and len(whole) < MAX_FOLDERS:
        below = left.pop()
        whole.add(below)
        try:
            _, names = await workspace.entries(below, _MAX_NAMES)
        except ToolError:
            continue  # gone meanwhile: its end is noticed
        left += [f"{below}/{name}" for name, size in names if size is None and not name.startswith(".")]
