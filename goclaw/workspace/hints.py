"""Change notifications of the kernel for folders of a workspace; a hint to look, and no more.

They come through inotify (`watchfiles`), for each folder by itself and never for its subfolders: so no symbolic link
leads a watch out of the workspace. The changes are then read by the workspace's own rules.
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from watchfiles import watch
from watchfiles.main import FileChange

from goclaw.core.supervise import see_through


class NothingTold(Exception):
    """The kernel cannot be asked, or does not answer. Caused by a FileNotFoundError when a folder is gone."""


class Hints:
    """The change notifications of some folders. Made by `open_hints`."""

    def __init__(self, root: Path, folders: Iterable[str]) -> None:
        self._root = root
        self._changes: Generator[set[FileChange], None, None] = watch(
            *(root / folder for folder in folders),
            watch_filter=None,
            debounce=1,
            step=1,
            rust_timeout=1,
            yield_on_timeout=True,
            recursive=False,
            force_polling=False,
            raise_interrupt=False,
        )

    async def look(self) -> list[str]:
        """Return the paths, relative to the workspace, changed since the last call; the first call sets the watch.

        Raises:
            NothingTold: the kernel does not answer.
        """
        # To its end: what is under way in a thread cannot be closed.
        found = await see_through(asyncio.to_thread(self._next), "looking at what the kernel told")
        return [str(Path(path).relative_to(self._root)) for _, path in found]

    async def close(self) -> None:
        """Give the watches back."""
        await see_through(asyncio.to_thread(self._changes.close), "closing a watch")

    def _next(self) -> set[FileChange]:
        try:
            return next(self._changes)
        except (OSError, RuntimeError) as error:  # the latter is the base of what `watchfiles` raises
            raise NothingTold(str(error)) from error


@asynccontextmanager
async def open_hints(root: Path, folders: Iterable[str]) -> AsyncIterator[Hints]:
    """Open hints about these folders, which are relative to `root`, while the block runs.

    Raises:
        NothingTold: they cannot be watched.
    """
    # The kernel names what it tells about by its real path.
    hints = Hints(await asyncio.to_thread(root.resolve), folders)
    try:
        await hints.look()
        yield hints
    finally:
        await hints.close()
