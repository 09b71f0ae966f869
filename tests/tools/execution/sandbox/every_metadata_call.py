"""Run inside a sandbox: every call that changes a file's metadata, each in the ways in which a file can be named.

Started by `test_metadata_calls.py` with the numbers of the calls and a file; prints what became of each, as JSON.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import struct
import sys
from collections.abc import Callable, Iterator

HERE, NO_FOLLOW, EMPTY = -100, 0x100, 0x1000
VALUE = ctypes.create_string_buffer(b"value")
libc = ctypes.CDLL(None, use_errno=True)
numbers: dict[str, int | None] = json.loads(sys.argv[1])
path = os.fsencode(sys.argv[2])


def call(name: str, *arguments: int | bytes) -> str:
    """Make a system call; `made`, or the name of the error."""
    number = numbers[name]
    if number is None:
        return "no such call here"
    kept = [ctypes.create_string_buffer(one, len(one) + 1) if isinstance(one, bytes) else one for one in arguments]
    words = [ctypes.c_size_t(one if isinstance(one, int) else ctypes.addressof(one)) for one in kept]
    result = libc.syscall(ctypes.c_long(number), *words)
    return "made" if result >= 0 else errno.errorcode[ctypes.get_errno()]


def looks(at: bytes) -> str:
    """What the calls may change, but for the time of the change itself."""
    found = os.lstat(at)
    attributes: dict[str, bytes] = {}
    with contextlib.suppress(OSError):
        attributes = {name: os.getxattr(at, name) for name in sorted(os.listxattr(at, follow_symlinks=False))}
    return f"{found.st_mode:o} {found.st_uid} {found.st_gid} {found.st_atime_ns} {found.st_mtime_ns} {attributes}"


def times(first: int) -> bytes:
    return struct.pack("=4q", first, 5, first + 1, 6)


def of_modes(fd: int, folder: int, name: bytes) -> Iterator[tuple[str, Callable[[], str]]]:
    own = b"/proc/self/fd/%d" % fd
    yield "chmod", lambda: call("chmod", path, 0o604)
    yield "fchmod", lambda: call("fchmod", fd, 0o611)
    yield "fchmodat by path", lambda: call("fchmodat", HERE, path, 0o622)
    yield "fchmodat by folder", lambda: call("fchmodat", folder, name, 0o633)
    yield "fchmodat2 by folder", lambda: call("fchmodat2", folder, name, 0o640, NO_FOLLOW)
    yield "fchmodat2 of itself", lambda: call("fchmodat2", fd, b"", 0o650, EMPTY)
    yield "fchmodat by a descriptor's path", lambda: call("fchmodat", HERE, own, 0o606)
    yield "fchmodat by a folder's path", lambda: call("fchmodat", HERE, b"/dev/fd/%d/%s" % (folder, name), 0o607)
    yield "chown", lambda: call("chown", path, os.getuid(), -1)
    yield "lchown", lambda: call("lchown", path, os.getuid(), -1)
    yield "fchown", lambda: call("fchown", fd, os.getuid(), os.getgid())
    yield "fchownat", lambda: call("fchownat", folder, name, os.getuid(), -1, NO_FOLLOW)
    yield "fchownat of itself", lambda: call("fchownat", fd, b"", os.getuid(), -1, EMPTY)


def of_times(fd: int, folder: int, name: bytes) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "utime", lambda: call("utime", path, struct.pack("=2q", 11, 12))
    yield "utimes", lambda: call("utimes", path, times(21))
    yield "futimesat", lambda: call("futimesat", folder, name, times(31))
    yield "futimesat of itself", lambda: call("futimesat", fd, 0, times(41))
    yield "utimensat", lambda: call("utimensat", folder, name, times(51), 0)
    yield "utimensat of itself", lambda: call("utimensat", fd, 0, times(61), 0)
    yield "utimensat by name of itself", lambda: call("utimensat", fd, b"", times(71), EMPTY)
    omit = struct.pack("=4q", 0, (1 << 30) - 2, 81, 0)
    yield "utimensat of one of two", lambda: call("utimensat", folder, name, omit, 0)


def of_attributes(fd: int, folder: int, name: bytes) -> Iterator[tuple[str, Callable[[], str]]]:
    given = struct.pack("=QII", ctypes.addressof(VALUE), 5, 0)
    yield "setxattr", lambda: call("setxattr", path, b"user.a", b"1", 1, 0)
    yield "lsetxattr", lambda: call("lsetxattr", path, b"user.b", b"22", 2, 0)
    yield "fsetxattr", lambda: call("fsetxattr", fd, b"user.c", b"", 0, 0)
    yield "setxattrat", lambda: call("setxattrat", folder, name, 0, b"user.d", given, 16)
    yield "setxattr of what exists", lambda: call("setxattr", path, b"user.a", b"1", 1, os.XATTR_CREATE)
    yield "removexattr", lambda: call("removexattr", path, b"user.a")
    yield "lremovexattr", lambda: call("lremovexattr", path, b"user.b")
    yield "fremovexattr", lambda: call("fremovexattr", fd, b"user.c")
    yield "removexattrat", lambda: call("removexattrat", folder, name, 0, b"user.none")
    yield "ioctl SETFLAGS", lambda: call("ioctl", fd, 0x40086602, _flags(fd))
    yield "ioctl FSSETXATTR", lambda: call("ioctl", fd, 0x401C5820, _fsxattr(fd))
    yield "file_setattr", lambda: call("file_setattr", folder, name, _file_attr(fd), 24, 0)


def _flags(fd: int) -> bytes:
    found = bytearray(8)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, 0x80086601, found)  # FS_IOC_GETFLAGS
    return bytes(found)


def _fsxattr(fd: int) -> bytes:
    found = bytearray(28)
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, 0x801C581F, found)  # FS_IOC_FSGETXATTR
    return bytes(found)


def _file_attr(fd: int) -> bytes:
    return struct.pack("=QIIII", struct.unpack_from("=I", _fsxattr(fd))[0], 0, 0, 0, 0)


def odd(fd: int, folder: int, name: bytes) -> Iterator[tuple[str, Callable[[], str]]]:
    """What a kernel answers to what makes no sense, and where links lead."""
    yield "no path", lambda: call("fchmodat", HERE, b"", 0o600)
    yield "no such file", lambda: call("fchmodat", folder, b"none", 0o600)
    yield "a file as a folder", lambda: call("fchmodat", folder, name + b"/x", 0o600)
    yield "a long name", lambda: call("fchmodat", folder, b"x" * 300, 0o600)
    yield "a long path", lambda: call("fchmodat", folder, b"x/" * 2100, 0o600)
    yield "no such memory", lambda: call("fchmodat", folder, 8, 0o600)
    yield "no such times", lambda: call("utimensat", folder, name, 8, 0)
    yield "no such descriptor", lambda: call("fchmod", 999, 0o600)
    yield "a negative descriptor", lambda: call("fchmod", -1, 0o600)
    yield "no such folder", lambda: call("fchmodat", 999, name, 0o600)
    yield "unknown flags", lambda: call("utimensat", folder, name, times(1), 0x4)
    yield "times that are none", lambda: call("utimensat", folder, name, struct.pack("=4q", 0, -1, 0, 0), 0)
    yield "microseconds that are none", lambda: call("futimesat", folder, name, struct.pack("=4q", 0, 1 << 20, 0, 0))
    yield "an attribute without a name", lambda: call("setxattr", path, b"", b"1", 1, 0)
    yield "a long attribute", lambda: call("setxattr", path, b"user." + b"x" * 300, b"1", 1, 0)
    yield "a large attribute", lambda: call("setxattr", path, b"user.x", b"1", 1 << 17, 0)
    yield "other attributes", lambda: call("setxattrat", folder, name, 0, b"user.x", bytes(8), 8)
    yield "through a link", lambda: call("utimensat", folder, b"link", times(91), 0)
    yield "of a link", lambda: call("utimensat", folder, b"link", times(92), NO_FOLLOW)
    yield "through two links", lambda: call("utimensat", folder, b"links", times(93), 0)
    yield "through a folder's link", lambda: call("utimensat", folder, b"sub/../to/" + name, times(94), 0)
    yield "a link to nothing", lambda: call("utimensat", folder, b"dangling", times(95), 0)
    yield "a link to itself", lambda: call("utimensat", folder, b"loop", times(96), 0)
    yield "the folder itself", lambda: call("utimensat", folder, b".", times(97), 0)
    yield "the current folder", lambda: call("utimensat", HERE, b"sub/", times(98), 0)


def main() -> None:
    parent, _, name = path.rpartition(b"/")
    folder = os.open(parent, os.O_PATH)
    readable = sys.argv[3] == "readable"
    fd = os.open(path, os.O_RDONLY if readable else os.O_PATH)
    rows = [*of_modes(fd, folder, name), *of_times(fd, folder, name), *of_attributes(fd, folder, name)]
    rows += odd(fd, folder, name) if sys.argv[4:] == ["odd"] else []
    json.dump({row: [attempt(), looks(path)] for row, attempt in rows}, sys.stdout)


main()
