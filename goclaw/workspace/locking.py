"""Locks by inode, so that one process at a time reads and replaces a file.

Several processes write into one workspace: the daemon, `goclaw mcp serve`, `goclaw tool run`. Each locks the inode of
the file by a file in a folder that they share and no tool reaches. The lock is `flock`'s: it ends with its process,
however that dies, and a file that was left there locks nothing. Programs that do not ask (`exec`) are not held up.
"""

import fcntl
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TypeVar

from goclaw.clock import RealClock
from goclaw.errors import ToolError
from goclaw.workspace.described import FileChanged

ResultT = TypeVar("ResultT")

PATIENCE_SECONDS = 5.0
"""So long a write waits for others; each of them holds the lock for milliseconds."""
_PAUSE_SECONDS = 0.002
_OPENING = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def locked(folder: Path, inode: tuple[int, int], path: str) -> Iterator[None]:
    """Hold the lock of a file (`st_dev`, `st_ino`) until the block ends; `path` is its name in errors. Blocks.

    Raises:
        ToolError: another process holds it for longer than the patience, or the folder cannot be written.
    """
    name = folder / f"{inode[0]:x}-{inode[1]:x}"
    descriptor = _held(name, path)
    try:
        yield
    finally:
        # Under the lock: a process that waits for this very file finds its name gone, and begins again.
        with suppress(OSError):
            name.unlink()
        os.close(descriptor)


def _held(name: Path, path: str) -> int:
    clock = RealClock()
    until = clock.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            descriptor = _opened(name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_still(name, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        except BlockingIOError:
            if clock.monotonic() >= until:
                raise _busy(path) from None
            Event().wait(_PAUSE_SECONDS)
        except OSError as error:
            raise ToolError(f"{path} cannot be locked: {name.parent}: {error.strerror}") from error


async def again_when_changed(change: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Return what `change` makes; it reads a file and writes it `unless_changed`, anew while others change it between.

    Raises:
        ToolError: `busy`, when others never leave the file alone; and what `change` raises.
    """
    clock = RealClock()
    until = clock.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await change()
        except FileChanged as error:
            if clock.monotonic() >= until:
                raise _busy(error.path) from error


def _busy(path: str) -> ToolError:
    return ToolError(f"busy: {path} is being changed by another process; nothing was changed, try again")


def _opened(name: Path) -> int:
    try:
        return os.open(name, _OPENING, 0o600)
    except FileNotFoundError:
        name.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(name, _OPENING, 0o600)


def _is_still(name: Path, descriptor: int) -> bool:
    """Whether the file that was locked still has its name: the one who held it before takes it away."""
    try:
        return os.path.samestat(name.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
