"""A copy of the machine's configuration files for commands in bubblewrap: one mount shows all of them.

A mount of each costs a command 3 of the 9 ms that `true` takes. The copy is made again when one of
the files has changed; a running command goes on with its copy.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from goclaw.tools.execution.sandbox.layout import CONFIGURATION
from goclaw.tools.execution.sandbox.scratch import scratch_folder

_Stamp = tuple[int, int, int]
"""What changes with a file: device, number, and time of the last change of content, name or rights."""


@dataclass(eq=False)
class _Copy:
    """A copy of the files as they were; `users` are the commands that see it."""

    folder: Path
    stamps: dict[str, _Stamp | None]
    users: int = 0

    def is_current(self) -> bool:
        return all(_stamp(path) == stamp for path, stamp in self.stamps.items())


class ConfigurationCopy:
    """The copies in use. Made by `open_configuration_copy`."""

    def __init__(self, stack: AsyncExitStack, machine: Path) -> None:
        self._stack = stack
        self._machine = machine
        self._folder: Path | None = None
        self._numbers = count(1)
        self._copies: list[_Copy] = []
        """The last one is the newest; the others go when nothing uses them."""
        self._copying = asyncio.Lock()

    @asynccontextmanager
    async def open_folder(self) -> AsyncIterator[Path | None]:
        """Yield a folder that holds, in the place of /etc, `CONFIGURATION` as it is now; None: there is no room for it.

        It stays as it is until the block ends.
        """
        try:
            copy = await self._newest()
        except OSError:
            yield None
            return
        copy.users += 1
        try:
            yield copy.folder
        finally:
            copy.users -= 1

    async def _newest(self) -> _Copy:
        async with self._copying:
            if not self._copies or not self._copies[-1].is_current():
                if self._folder is None:
                    self._folder = await self._stack.enter_async_context(scratch_folder())
                old = [copy for copy in self._copies if not copy.users]
                self._copies = [copy for copy in self._copies if copy.users]
                folder = self._folder / str(next(self._numbers))
                self._copies.append(await asyncio.to_thread(_copy_configuration, self._machine, folder, old))
            return self._copies[-1]


@asynccontextmanager
async def open_configuration_copy(machine: Path = Path("/")) -> AsyncIterator[ConfigurationCopy]:
    """Open the copies, which go with the block; `machine` is where `/etc` is looked for. Nothing is copied yet."""
    async with AsyncExitStack() as stack:
        yield ConfigurationCopy(stack, machine)


def _copy_configuration(machine: Path, folder: Path, old: list[_Copy]) -> _Copy:
    """Copy `CONFIGURATION` of `machine` to `folder`, after the removal of copies that are old."""
    for copy in old:
        shutil.rmtree(copy.folder, ignore_errors=True)
    copy = _Copy(folder, {})
    try:
        folder.mkdir()
        for path in CONFIGURATION:
            place = Path(path).relative_to("/")
            _copy(str(machine / place), folder / place.relative_to("etc"), copy.stamps)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return copy


def _copy(source: str, target: Path, stamps: dict[str, _Stamp | None]) -> None:
    """Copy a file, or a folder with all in it, and note the stamps of the copied files as they were before. Of links in
    a folder the words are copied: the folder's own stamp changes with them."""
    stamps[source] = _stamp(source)
    if stamps[source] is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):  # not for this user to read, nor for its commands
        mode = Path(source).stat().st_mode
        if stat.S_ISREG(mode):
            shutil.copy(source, target)
        elif stat.S_ISDIR(mode):
            target.mkdir()
            with os.scandir(source) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        (target / entry.name).symlink_to(Path(entry.path).readlink())
                    else:
                        _copy(entry.path, target / entry.name, stamps)


def _stamp(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116 -- of fifty files before each command; a path object costs as much again
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns
