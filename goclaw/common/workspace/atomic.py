"""Writes a whole file in one step, and lets one process at a time read and replace it.

The new content has no name until all of it is on the disk, where the file system can do that (O_TMPFILE): a kill leaves
no trace. Elsewhere, and for the moment between two system calls, it is called `.goclaw-….tmp`, which no listing
shows.

Several processes write into one workspace: the daemon, `goclaw mcp serve`, `goclaw tool run`. Each locks the inode of
the file by a file in a folder that they share and no tool reaches. The lock is `flock`'s: it ends with its process,
however that dies, and a file that was left there locks nothing. Programs that do not ask (`exec`) are not held up.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import TypeVar

from goclaw.common.core.clock import RealClock
from goclaw.common.workspace.described import FileChanged, status_at
from goclaw.errors import ToolError

_NEW_FILE = 0o666
"""Less what the umask takes, as for any program."""
_PRIVATE_FILE = 0o600
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""How file systems without hard links (a memory stick) refuse one."""
_NO_NAMELESS = _NO_LINKS | {errno.EISDIR, errno.EINVAL, errno.ENOENT}
"""How file systems and kernels without O_TMPFILE refuse it, and machines without /proc to give it a name."""
_TEMPORARY = re.compile(r"\.goclaw-[0-9a-f]{16}\.tmp")
_ACCESS_LIST = "system.posix_acl_access"
_TICK_NS = 1_000_000_000
"""File systems stamp files at best with the last tick of the kernel, at worst with the second."""
_WRITING = os.O_WRONLY | os.O_CLOEXEC


def replace(folder: int, name: str, data: bytes, old: int | None, ready: Callable[[], None]) -> None:
    """Write `data` next to `name` in the folder descriptor, flush it to the disk, then rename it over `name`.

    Of the file open as `old` the permission bits, the access list and the user's attributes are kept and, where the
    system lets us, the owner; set-user-id bits and capabilities never are. `ready` is called right before the rename
    and may raise.

    Raises:
        OSError: nothing was changed.
    """
    temporary = _write_new(folder, data, _NEW_FILE if old is None else _PRIVATE_FILE, old)
    try:
        ready()
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        _drop(folder, temporary)
        raise
    os.fsync(folder)


def create(folder: int, name: str, data: bytes) -> bool:
    """Write `data` to a new file `name` in the folder descriptor, complete or not at all; False: `name` is taken.

    Only its owner may read it.

    Raises:
        OSError: nothing was changed.
    """
    if status_at(folder, name):  # a look saves writing megabytes for nothing; the link below decides
        return False
    temporary = _write_new(folder, data, _PRIVATE_FILE)
    try:
        _link_name(folder, temporary, name)
    except FileExistsError:
        return False
    finally:
        _drop(folder, temporary)
    os.fsync(folder)
    return True


def is_temporary(name: str) -> bool:
    """Whether a file with this name is half-written, or left by a kill."""
    return name.startswith(".goclaw-") and _TEMPORARY.fullmatch(name) is not None


def _write_new(folder: int, data: bytes, mode: int, old: int | None = None) -> str:
    """Write a new file in the folder and flush it to the disk; returns its unique name."""
    name = f".goclaw-{secrets.token_hex(8)}.tmp"
    try:
        with _fill(os.open(".", os.O_TMPFILE | _WRITING, mode, dir_fd=folder), data, old) as descriptor:
            os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=folder, follow_symlinks=True)
            return name
    except OSError as error:
        if error.errno not in _NO_NAMELESS:
            raise
    descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _WRITING, mode, dir_fd=folder)
    try:
        with _fill(descriptor, data, old):
            return name
    except BaseException:
        _drop(folder, name)
        raise


@contextmanager
def _fill(descriptor: int, data: bytes, old: int | None) -> Iterator[int]:
    """Yield the descriptor of a file with all of the data; it is closed afterwards."""
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        if old is not None:
            _copy_metadata(descriptor, old)
        os.fsync(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _drop(folder: int, temporary: str) -> None:
    with suppress(FileNotFoundError):  # it may have been renamed
        os.unlink(temporary, dir_fd=folder)


def _link_name(folder: int, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | _WRITING
        os.close(os.open(name, flags, _PRIVATE_FILE, dir_fd=folder))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _copy_metadata(descriptor: int, old: int) -> None:
    """Copy the old file's metadata that a new content does not change."""
    was, mine = os.fstat(old), os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (was.st_uid, was.st_gid):
        with suppress(PermissionError):  # only root gives files away; the content matters more
            os.fchown(descriptor, was.st_uid, was.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(was.st_mode) & 0o777)
    if 0 <= was.st_mtime_ns - mine.st_mtime_ns < _TICK_NS:
        # Inode numbers are used again at once: the time alone may tell this content from that before the old one.
        os.utime(descriptor, ns=(mine.st_atime_ns, was.st_mtime_ns + 1))
    for name in _attributes(old):
        if name == _ACCESS_LIST:
            # Not without it: the bits of the group are what the list allows at most, not what the group may do.
            os.setxattr(descriptor, name, os.getxattr(old, name))
        elif name.startswith("user."):
            with suppress(OSError):  # no room for them, or another process removed them
                os.setxattr(descriptor, name, os.getxattr(old, name))


def _attributes(descriptor: int) -> list[str]:
    try:
        return os.listxattr(descriptor)
    except OSError:
        return []  # this file system has none


ResultT = TypeVar("ResultT")

PATIENCE_SECONDS = 5.0
"""So long a write waits for others; each of them holds the lock for milliseconds."""
_PAUSE_SECONDS = 0.002
_OPENING = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def lock(folder: Path, inode: tuple[int, int], path: str) -> Iterator[None]:
    """Hold the lock of a file (`st_dev`, `st_ino`) until the block ends; `path` is its name in errors. Blocks.

    Raises:
        ToolError: another process holds it for longer than the patience, or the folder cannot be written.
    """
    name = folder / f"{inode[0]:x}-{inode[1]:x}"
    descriptor = _acquire_lock(name, path)
    try:
        yield
    finally:
        # Under the lock: a process that waits for this very file finds its name gone, and begins again.
        with suppress(OSError):
            name.unlink()
        os.close(descriptor)


def _acquire_lock(name: Path, path: str) -> int:
    clock = RealClock()
    until = clock.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            descriptor = _lock_file(name)
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
    """Return the result of `change`, which reads a file and writes it `unless_changed`; retry while others change it.

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


def _lock_file(name: Path) -> int:
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
