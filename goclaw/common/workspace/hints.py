"""Change notifications of the kernel for folders of a workspace; a hint to look, and no more.

They come through inotify (`watchfiles`), for each folder by itself and never for its subfolders: so no symbolic link
leads a watch out of the workspace. Private notes lie elsewhere (`Workspace.on_disk`) and are reported by the paths that
the workspace shows. The changes are then read by the workspace's own rules. The kernel tells only what
this machine changes: in a network folder also others write, so it tells not all (`Hints.tell_all`).
"""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Generator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

from watchfiles import watch
from watchfiles.main import FileChange

from goclaw.common.core.supervise import finish_despite_cancel
from goclaw.common.workspace.notes import ABOVE
from goclaw.common.workspace.workspace import Workspace

MOUNTS = Path("/proc/self/mountinfo")
LOCAL_FILE_SYSTEMS = frozenset(
    ("bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "vfat", "xfs", "zfs")
)
"""Those that only this machine writes to. Others may be folders of another machine, or of the host of a container."""


class NothingTold(Exception):
    """The kernel cannot be asked, or does not answer. Caused by a FileNotFoundError when a folder is gone."""


class Hints:
    """The change notifications of some folders. Made by `open_hints`."""

    def __init__(self, folders: Mapping[Path, str]) -> None:
        self.tell_all = True
        """Whether the kernel tells of all changes; False: other machines may write there, too."""
        self._names = folders
        self._folders = list(map(str, folders))
        self._changes: Generator[set[FileChange], None, None] = watch(
            *self._folders,
            watch_filter=None,
            debounce=1,
            step=1,
            rust_timeout=1,
            yield_on_timeout=True,
            recursive=False,
            force_polling=False,
            raise_interrupt=False,
        )

    async def start(self) -> None:
        """Set the watch.

        Raises:
            NothingTold: the kernel does not answer.
        """
        await self.poll()
        self.tell_all = await asyncio.to_thread(_are_local, self._folders)

    async def poll(self) -> list[str]:
        """Return the paths, as the workspace shows them, changed since the last call.

        Raises:
            NothingTold: the kernel does not answer.
        """
        # To its end: what is under way in a thread cannot be closed.
        found = await finish_despite_cancel(asyncio.to_thread(self._next), "looking at what the kernel told")
        return [name for _, path in found if (name := self._name(Path(path))) is not None]

    def _name(self, path: Path) -> str | None:
        """Return the path that the workspace shows; None: it is no change in a watched folder."""
        if (name := self._names.get(path)) is not None:
            return name
        above = self._names.get(path.parent)
        return None if above is None else str(PurePosixPath(above, path.name))

    async def close(self) -> None:
        """Give the watches back."""
        await finish_despite_cancel(asyncio.to_thread(self._changes.close), "closing a watch")

    def _next(self) -> set[FileChange]:
        try:
            return next(self._changes)
        except (OSError, RuntimeError) as error:  # the latter is the base of what `watchfiles` raises
            raise NothingTold(str(error)) from error


@asynccontextmanager
async def open_hints(workspace: Workspace, folders: Iterable[str]) -> AsyncIterator[Hints]:
    """Open hints about these folders, which are relative to the workspace, while the block runs.

    Raises:
        NothingTold: they cannot be watched.
    """
    hints = Hints(await asyncio.to_thread(_places, workspace, folders))
    try:
        await hints.start()
        yield hints
    finally:
        await hints.close()


def _places(workspace: Workspace, folders: Iterable[str]) -> dict[Path, str]:
    """Return the folders by their real paths, which the kernel uses in its notifications."""
    places = {name: workspace.on_disk(name).resolve() for name in folders}
    # The folder that lists private notes may be none on the disk.
    return {place: name for name, place in places.items() if name != ABOVE or place.is_dir()}


def _are_local(folders: Iterable[str]) -> bool:
    """Return whether only this machine writes to the folders, which are real paths. Blocks."""
    try:
        text = MOUNTS.read_bytes().decode(errors="surrogateescape")  # text would end lines at \r, too
    except OSError:
        return sys.platform != "linux"  # macOS has no such list
    kinds = dict(map(_mount, filter(None, text.split("\n"))))  # what was mounted later hides what is below
    # The innermost comes first.
    mounts = sorted(kinds, key=len, reverse=True)
    places = (next(filter(f"{folder}/".startswith, mounts), "/") for folder in folders)
    return all(kinds.get(place) in LOCAL_FILE_SYSTEMS for place in places)


def _mount(line: str) -> tuple[str, str]:
    """Return where a file system is mounted, with a slash at the end, and its kind (proc_pid_mountinfo(5))."""
    placed, _, described = line.partition(" - ")
    place = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), placed.split(" ")[4])
    return f"{place.rstrip('/')}/", described.split(" ")[0]
