"""Notices when memory files of a workspace may have changed. What it notices is a hint and no more: `sweeping` looks.

The kernel tells about folders (`workspace.hints`); of the workspace itself only a few names matter. Where it tells
nothing (no watches left, a network folder that another machine writes to) there is a look now and then.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

from goclaw.clock import Clock
from goclaw.errors import ToolError
from goclaw.records import record
from goclaw.supervise import background, keep_running
from goclaw.workspace import Workspace
from goclaw.workspace.hints import Hints, NothingTold, open_hints

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks at what the kernel told. With a sweep of 0.1 s, a change is visible long before two seconds."""
SAFETY_SECONDS = 60.0
"""Between two sweeps for which there was no reason: one of 5,000 files costs 0.05 s."""
MAX_FOLDERS = 1_000
"""Folders that are watched in a workspace; the kernel's limit is for all programs of a user (`max_user_watches`)."""
_MAX_NAMES = 10_000
"""What is looked at in one folder, to find the folders in it."""
_SOURCES = ("MEMORY.md", "memory")


@record
class WatchedFolders:
    """The folders of a workspace where memory files may appear, relative to it; `.` is the workspace."""

    whole: frozenset[str]
    """Whatever changes in these matters."""
    steps: frozenset[tuple[str, str]]
    """In these folders one name matters: a file that is searched, or a folder on the way to one."""

    @property
    def folders(self) -> list[str]:
        """All that are to be watched."""
        return sorted({*self.whole, *(folder for folder, _ in self.steps)})

    def matters(self, path: str) -> bool:
        """Whether a change of this path may be one of a memory file."""
        folder, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
        return (folder, name) in self.steps or (folder in self.whole and not name.startswith(".")) or path in self.whole


@asynccontextmanager
async def watched(
    workspace: Workspace, paths: Sequence[str], clock: Clock, changed: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Beside the block, await `changed` whenever memory files may have changed; at first, once, when watching begins.

    Args:
        paths: `memory.paths`. The workspace itself among them is not watched, but looked at now and then.
        changed: sweeps. Called again after a growing pause when it raises.
    """
    watching = _Watching(workspace, (*_SOURCES, *paths), clock, changed)
    async with background(keep_running("watching memory files", watching.run, clock), "watching memory files"):
        yield


async def ground_of(workspace: Workspace, sources: Iterable[str]) -> WatchedFolders:
    """Where files may appear that are found under these names: each may be a file, a folder or not there yet."""
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

    async def run(self) -> None:
        """Watch until cancelled, anew whenever folders come or go."""
        while True:
            ground = await ground_of(self._workspace, self._sources)
            try:
                async with open_hints(self._workspace.root, ground.folders) as hints:
                    await self._follow(ground, hints)
            except NothingTold as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    await self._clock.sleep(LOOK_SECONDS)  # a folder went while the watch was laid
                    continue
                self._tell(str(error))
                await self._changed()
                await self._clock.sleep(SAFETY_SECONDS)

    async def _follow(self, ground: WatchedFolders, hints: Hints) -> None:
        """Return when other folders are to be watched."""
        due = True  # what happened before the watch was laid
        swept = self._clock.monotonic()
        while True:
            if due or self._clock.monotonic() - swept >= SAFETY_SECONDS:
                await self._changed()
                swept = self._clock.monotonic()
                if await ground_of(self._workspace, self._sources) != ground:
                    return
            await self._clock.sleep(LOOK_SECONDS)
            paths = [path for path in await hints.look() if ground.matters(path)]
            if not ground.whole.isdisjoint(paths):
                return  # a folder that comes again under its old name is another one
            due = bool(paths)

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            extra = {"workspace": str(self._workspace.root), "why": why, "seconds": SAFETY_SECONDS}
            log.warning("memory files cannot be watched, changes are looked for now and then", extra=extra)


async def _is_folder(workspace: Workspace, path: str) -> bool:
    """Whether it is a folder under its own name: what lies behind a link is not searched."""
    try:
        found = await workspace.stat(path)
    except ToolError:
        return False
    return found.is_folder and found.path == path


async def _add_tree(workspace: Workspace, folder: str, whole: set[str]) -> None:
    """Add a folder and those below it, as far as they are searched. The workspace itself is too much."""
    left = [folder] if folder != "." else []
    while left and len(whole) < MAX_FOLDERS:
        below = left.pop()
        whole.add(below)
        try:
            _, names = await workspace.entries(below, _MAX_NAMES)
        except ToolError:
            continue  # gone meanwhile: its end is noticed
        left += [f"{below}/{name}" for name, size in names if size is None and not name.startswith(".")]
