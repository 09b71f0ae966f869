"""Opens a path that the kernel keeps below a folder, despite concurrent renames and links.

`openat2` with RESOLVE_BENEATH does it in one system call. Where it is missing (Linux before 5.6, a container's seccomp
profile), a walk opens one component after the other and follows no symbolic link at all.
"""

import ctypes
import errno
import os
import stat
from functools import cache
from pathlib import Path

_SYS_OPENAT2 = 437  # the same number on x86-64 and aarch64 (uapi/asm-generic/unistd.h)
_RESOLVE_NO_XDEV = 0x01  # uapi/linux/openat2.h
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_TRIES = 1_000
"""Attempts: the kernel answers EAGAIN while folders of the path are renamed, which a hostile process may repeat."""


class _OpenHow(ctypes.Structure):
    """`struct open_how` of uapi/linux/openat2.h."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_SIZE = ctypes.sizeof(_OpenHow)
_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)


def open_beneath(folder: int, path: str, flags: int, *, by_walk: bool = False, one_mount: bool = False) -> int:
    """Open `path` below the folder descriptor `folder` and return a descriptor (close-on-exec).

    `path` is relative, without NUL and without `..`. Symbolic links are followed while they stay below the folder, or
    with `by_walk` not at all. `one_mount` keeps the system call off mount points; the walk does not know them.

    Raises:
        OSError: EXDEV when the path leaves the folder (an absolute symbolic link always counts as leaving) or, with
            `one_mount`, meets a mount point; ELOOP when the walk met a symbolic link; everything else as `open` does.
    """
    if by_walk:
        return _walk(folder, path, flags | os.O_CLOEXEC)
    how, name = _how(flags | os.O_CLOEXEC, one_mount=one_mount), os.fsencode(path or ".")
    number = errno.EAGAIN
    for _ in range(_TRIES):
        found: int = _syscall(_SYS_OPENAT2, folder, name, how, _SIZE)
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


@cache  # there are a handful of them, and the kernel only reads them
def _how(flags: int, *, one_mount: bool) -> _OpenHow:
    return _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (_RESOLVE_NO_XDEV if one_mount else 0))


def has_openat2(folder: int) -> bool:
    """Whether this kernel (and its seccomp profile) lets us use `openat2`."""
    try:
        os.close(open_beneath(folder, ".", os.O_PATH | os.O_DIRECTORY))
    except OSError:
        return False
    return True


def is_same_mount(one: int, other: int) -> bool:
    """Whether two descriptors were opened on the same mount; slower than `one_mount`, for where that is missing."""
    return _mount(one) == _mount(other)


def _mount(descriptor: int) -> str:
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").splitlines()
    return next(line for line in lines if line.startswith("mnt_id:"))


def _walk(folder: int, path: str, flags: int) -> int:
    parts = Path(path).parts
    if not parts:
        return os.open(".", flags, dir_fd=folder)
    current = os.dup(folder)
    try:
        for part in parts[:-1]:
            inner = _open_component(part, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, current)
            os.close(current)
            current = inner
        return _open_component(parts[-1], flags, current)
    finally:
        os.close(current)


def _open_component(name: str, flags: int, folder: int) -> int:
    try:
        found = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        # O_DIRECTORY|O_NOFOLLOW reports a symbolic link as "not a directory"; callers must see the link.
        if os.path.islink(f"/proc/self/fd/{folder}/{name}"):  # noqa: PTH114 -- a descriptor's path, not a file's
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise
    if flags & os.O_PATH and not flags & os.O_DIRECTORY and stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return found
