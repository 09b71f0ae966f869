"""Putting a whole file in the place of another in one step."""

import os
import secrets
import stat

_NEW_FILE = 0o644


def replace(folder: int, name: str, data: bytes, old: os.stat_result | None) -> None:
    """Write `data` beside `name` in the folder descriptor, flush it to the disk, then rename it over `name`.

    Permission bits and, where the system lets us, the owner of `old` are kept; set-user-id bits never are.

    Raises:
        OSError: nothing was changed.
    """
    temporary = f".goclaw-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
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


def _keep_owner(descriptor: int, old: os.stat_result) -> None:
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) == (old.st_uid, old.st_gid):
        return
    try:
        os.fchown(descriptor, old.st_uid, old.st_gid)
    except PermissionError:
        pass  # only root gives files away; the content matters more
