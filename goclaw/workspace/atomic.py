"""Putting a whole file in the place of another, or where nothing is, in one step."""

import errno
import os
import secrets
import stat
from contextlib import suppress

_NEW_FILE = 0o644
_PRIVATE_FILE = 0o600
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""How file systems without hard links (a memory stick) refuse one."""


def replace(folder: int, name: str, data: bytes, old: os.stat_result | None) -> None:
    """Write `data` beside `name` in the folder descriptor, flush it to the disk, then rename it over `name`.

    Permission bits and, where the system lets us, the owner of `old` are kept; set-user-id bits never are.

    Raises:
        OSError: nothing was changed.
    """
    temporary, descriptor = _temporary(folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if old is not None:
                _keep_owner(file.fileno(), old)
            os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode) & 0o777 if old else _NEW_FILE)
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def create(folder: int, name: str, data: bytes) -> bool:
    """Write `data` to a new file `name` in the folder descriptor, which is there whole or not; False: `name` is taken.

    Only its owner may read it.

    Raises:
        OSError: nothing was changed.
    """
    if _is_taken(folder, name):  # a look saves writing megabytes for nothing; the link below decides
        return False
    temporary, descriptor = _temporary(folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _give_name(folder, temporary, name)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):  # it may have been renamed
            os.unlink(temporary, dir_fd=folder)
    os.fsync(folder)
    return True


def _is_taken(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _give_name(folder: int, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(name, flags, _PRIVATE_FILE, dir_fd=folder))
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _temporary(folder: int) -> tuple[str, int]:
    """A new file beside the one that is written: its name, and a descriptor for writing."""
    name = f".goclaw-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return name, os.open(name, flags, _PRIVATE_FILE, dir_fd=folder)


def _keep_owner(descriptor: int, old: os.stat_result) -> None:
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) == (old.st_uid, old.st_gid):
        return
    try:
        os.fchown(descriptor, old.st_uid, old.st_gid)
    except PermissionError:
        pass  # only root gives files away; the content matters more
