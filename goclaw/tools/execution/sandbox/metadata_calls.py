"""Changes of modes, owners, times and attributes that a contained command asks for: made for it, in its own folders.

Landlock has no right for them, so the filter halts those calls (`seccomp.METADATA`), and the command's supervisor makes
them: it opens the file of the call as the kernel would, looks where that file is, and changes this file and no other.
The command goes on with the answer; its own call never happens (SECCOMP_USER_NOTIF_FLAG_CONTINUE would let it change
the path in its memory after we looked).

Runs in the broker, so it imports nothing but the standard library. Layouts and numbers: linux/seccomp.h,
linux/openat2.h, linux/fcntl.h, linux/xattr.h; seccomp_unotify(2) has the rules for reading a halted process.
"""

import ctypes
import errno
import fcntl
import os
import platform
import re
import select
import stat
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from goclaw.tools.execution.sandbox import seccomp

_RECEIVE, _SEND, _STILL_VALID, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082102, 0x40082104
_SAME_PROCESSOR = 1  # SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6
_NOTIFICATION = struct.Struct(
    "=QIIiIQ6Q"
)  # id, thread, flags; struct seccomp_data: number, architecture, place, arguments
_UNSET = bytes(_NOTIFICATION.size)
_IDENTITY = struct.Struct("=Q")
_ANSWER = struct.Struct("=QqiI")  # id, value, negative error, flags

_OPENAT2, _FCHMODAT2 = 437, 452
_NO_MAGIC_LINKS = 2  # RESOLVE_NO_MAGICLINKS: what is "self" for us is not what it is for the caller
_FIND = os.O_PATH | os.O_CLOEXEC
_HERE, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000  # AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH
_PATH_MAX, _NAME_MAX, _VALUE_MAX, _PAGE = 4096, 256, 1 << 16, 4096
_FSXATTR = 28  # bytes of struct fsxattr
_FILE_ATTR = range(24, _PAGE + 1)  # bytes of struct file_attr, in all versions to come
_XATTR_ARGS = struct.Struct("=QII")  # value, its size, flags

_OURS = "/proc/self/fd/"
_OWN_DESCRIPTOR = re.compile(rb"/+(?:proc/+(?:self|thread-self)|dev)/+fd/+(\d{1,10})(?:/+(.*))?", re.DOTALL)
"""A path through the caller's own descriptors: the C library changes modes by it where it must not follow links."""

_libc = ctypes.CDLL(None, use_errno=True)
_buffer = ctypes.create_string_buffer(_VALUE_MAX)
_copied = memoryview(_buffer).cast("B")
_ours = (ctypes.c_size_t * 2)(ctypes.addressof(_buffer), 0)
_theirs = (ctypes.c_size_t * 2)()
_how_following = (ctypes.c_uint64 * 3)(_FIND, 0, _NO_MAGIC_LINKS)
_how_not_following = (ctypes.c_uint64 * 3)(_FIND | os.O_NOFOLLOW, 0, _NO_MAGIC_LINKS)
_size_of_how = ctypes.c_size_t(ctypes.sizeof(_how_following))


class _Caller:
    """A thread that waits for the answer to a call with these arguments; kept for its next call."""

    __slots__ = ("_descriptors", "_opened_one", "arguments", "thread")

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.arguments: Sequence[int] = ()
        self._opened_one = False
        self._descriptors: int | None = None

    def signed(self, index: int) -> int:
        """An argument that the kernel takes as `int`."""
        return (self.arguments[index] & 0xFFFFFFFF ^ 0x80000000) - 0x80000000

    def unsigned(self, index: int) -> int:
        return self.arguments[index] & 0xFFFFFFFF

    def memory(self, address: int, length: int) -> bytes:
        """Copy from the caller's memory. It may change any moment: read each used value only once."""
        _theirs[0] = address
        _ours[1] = _theirs[1] = length
        read = _libc.process_vm_readv(self.thread, _ours, 1, _theirs, 1, 0)
        if read < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
            return self._memory_by_file(address, length)
        if read < 0:
            raise OSError(ctypes.get_errno(), "the caller's memory cannot be read")
        if read != length:
            raise OSError(errno.EFAULT, "no such memory")
        return bytes(_copied[:length])

    def _memory_by_file(self, address: int, length: int) -> bytes:
        """Copy where the call is refused; the kernel asks for the same right on both ways (proc(5), `/proc/pid/mem`).

        The default profile of Docker before 23 allows `process_vm_readv` only with CAP_SYS_PTRACE.
        """
        opened = os.open(f"/proc/{self.thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.pread(opened, length, address)
        except (OSError, OverflowError):
            raise OSError(errno.EFAULT, "no such memory") from None
        finally:
            os.close(opened)
        if len(found) != length:
            raise OSError(errno.EFAULT, "no such memory")
        return found

    def text(self, address: int, most: int, too_long: int) -> bytes:
        """Copy a text that ends with a zero byte; one that has none among `most` bytes is the error `too_long`."""
        found = b""
        while len(found) < most:
            start = address + len(found)
            part, end, _ = self.memory(start, min(_PAGE - start % _PAGE, most - len(found))).partition(b"\0")
            found += part
            if end:
                return found
        raise OSError(too_long, "too long")

    def open(self, descriptor: int) -> int:
        """Open the file of one of the caller's descriptors, or its folder for AT_FDCWD."""
        if descriptor == _HERE:
            return os.open(f"/proc/{self.thread}/cwd", _FIND)
        if self._descriptors is not None:
            try:
                return os.open(b"%d" % descriptor, _FIND, dir_fd=self._descriptors)
            except OSError:
                # No such descriptor; or the thread has ended, and another one has its number: never its folder.
                self.forget()
        try:
            if self._opened_one:
                self._descriptors = os.open(f"/proc/{self.thread}/fd", _FIND)
            self._opened_one = True
            return os.open(f"/proc/{self.thread}/fd/{descriptor}", _FIND)
        except FileNotFoundError:
            raise OSError(errno.EBADF, "no such descriptor") from None

    def forget(self) -> None:
        """Close the folder of its descriptors, which is kept open from the second one on."""
        if self._descriptors is not None:
            os.close(self._descriptors)
        self._descriptors = None


_Change = Callable[[int], None]
"""Makes the change to the file of a descriptor, which is open for nothing else."""
_Read = Callable[[_Caller], _Change]
"""Reads from a call the change that it asks for."""


class _Call(NamedTuple):
    """A system call: the indices of its arguments, None for those that it does not have."""

    read: _Read
    descriptor: int | None = None
    path: int | None = None
    flags: int | None = None
    follows: bool = True
    """Whether it follows a symbolic link at the end, where no flag says otherwise."""
    may_lack_path: bool = False
    """Whether a null pointer for the path means the descriptor itself."""


def _mode(index: int) -> _Read:
    def read(call: _Caller) -> _Change:
        mode = call.unsigned(index) & 0o7777
        if mode & (stat.S_ISUID | stat.S_ISGID):
            raise PermissionError(errno.EPERM, "no bits that give rights")

        def change(file: int) -> None:
            # Older kernels lack fchmodat2, and filters of older container engines refuse it: then by a path.
            if _libc.syscall(_FCHMODAT2, file, b"", mode, _EMPTY_PATH) != 0:
                os.chmod(str(file), mode, dir_fd=_own_descriptors())

        return change

    return read


def _owner(index: int) -> _Read:
    def read(call: _Caller) -> _Change:
        user, group = call.signed(index), call.signed(index + 1)
        return lambda file: _check(_libc.fchownat(file, b"", user, group, _EMPTY_PATH))

    return read


def _times(index: int, size: int = 32, timespecs: Callable[[bytes], bytes] = bytes) -> _Read:
    """Of a call with argument `index` pointing to two times of `size` bytes, which `timespecs` converts."""

    def read(call: _Caller) -> _Change:
        address = call.arguments[index]
        times = timespecs(call.memory(address, size)) if address else None
        return lambda file: _check(_libc.utimensat(file, b"", times, _EMPTY_PATH))

    return read


def _from_seconds(times: bytes) -> bytes:
    accessed, modified = struct.unpack("=2q", times)
    return struct.pack("=4q", accessed, 0, modified, 0)


def _from_microseconds(times: bytes) -> bytes:
    accessed, a_fraction, modified, m_fraction = struct.unpack("=4q", times)
    if not (0 <= a_fraction < 1_000_000 and 0 <= m_fraction < 1_000_000):
        raise OSError(errno.EINVAL, "no time")
    return struct.pack("=4q", accessed, 1000 * a_fraction, modified, 1000 * m_fraction)


def _attribute_set(call: _Caller) -> _Change:
    return _attribute(call, call.arguments[1], call.arguments[2], call.arguments[3], call.signed(4))


def _attribute_set_at(call: _Caller) -> _Change:
    if call.arguments[5] != _XATTR_ARGS.size:
        raise OSError(errno.EINVAL if call.arguments[5] < _XATTR_ARGS.size else errno.E2BIG, "unknown arguments")
    value, size, flags = _XATTR_ARGS.unpack(call.memory(call.arguments[4], _XATTR_ARGS.size))
    return _attribute(call, call.arguments[3], value, size, flags)


def _attribute(call: _Caller, name_at: int, value_at: int, size: int, flags: int) -> _Change:
    if size > _VALUE_MAX:
        raise OSError(errno.E2BIG, "too large")
    name = call.text(name_at, _NAME_MAX, errno.ERANGE)
    value = call.memory(value_at, size) if size else b""
    return lambda file: os.setxattr(f"{_OURS}{file}", name, value, flags)


def _attribute_removal(index: int) -> _Read:
    def read(call: _Caller) -> _Change:
        name = call.text(call.arguments[index], _NAME_MAX, errno.ERANGE)
        return lambda file: os.removexattr(f"{_OURS}{file}", name)

    return read


def _flags(call: _Caller) -> _Change:
    command = call.unsigned(1)
    flags = call.memory(call.arguments[2], _FSXATTR if command == seccomp.FS_IOC_FSSETXATTR else 4)

    def change(file: int) -> None:
        if stat.S_IFMT(os.fstat(file).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise OSError(errno.ENOTTY, "no flags")
        readable = os.open(f"{_OURS}{file}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.ioctl(readable, command, flags)
        finally:
            os.close(readable)

    return change


def _file_attributes(call: _Caller) -> _Change:
    size = call.arguments[3]
    if size not in _FILE_ATTR:
        raise OSError(errno.EINVAL if size < _FILE_ATTR.start else errno.E2BIG, "unknown attributes")
    attributes = call.memory(call.arguments[2], size)
    number = ctypes.c_long(seccomp.METADATA["file_setattr"][0] or 0)

    def change(file: int) -> None:
        _check(_libc.syscall(number, _own_descriptors(), b"%d" % file, attributes, ctypes.c_size_t(size), 0))

    return change


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")


_CALLS = {
    "chmod": _Call(_mode(1), path=0),
    "fchmod": _Call(_mode(1), descriptor=0),
    "fchmodat": _Call(_mode(2), descriptor=0, path=1),
    "fchmodat2": _Call(_mode(2), descriptor=0, path=1, flags=3),
    "chown": _Call(_owner(1), path=0),
    "lchown": _Call(_owner(1), path=0, follows=False),
    "fchown": _Call(_owner(1), descriptor=0),
    "fchownat": _Call(_owner(2), descriptor=0, path=1, flags=4),
    "utime": _Call(_times(1, 16, _from_seconds), path=0),
    "utimes": _Call(_times(1, 32, _from_microseconds), path=0),
    "futimesat": _Call(_times(2, 32, _from_microseconds), descriptor=0, path=1, may_lack_path=True),
    "utimensat": _Call(_times(2), descriptor=0, path=1, flags=3, may_lack_path=True),
    "setxattr": _Call(_attribute_set, path=0),
    "lsetxattr": _Call(_attribute_set, path=0, follows=False),
    "fsetxattr": _Call(_attribute_set, descriptor=0),
    "setxattrat": _Call(_attribute_set_at, descriptor=0, path=1, flags=2),
    "removexattr": _Call(_attribute_removal(1), path=0),
    "lremovexattr": _Call(_attribute_removal(1), path=0, follows=False),
    "fremovexattr": _Call(_attribute_removal(1), descriptor=0),
    "removexattrat": _Call(_attribute_removal(3), descriptor=0, path=1, flags=2),
    "file_setattr": _Call(_file_attributes, descriptor=0, path=1, flags=4),
}


def reads_memory() -> bool:
    """Tell whether this process may use `process_vm_readv` at all, without which it needs the files of /proc."""
    _theirs[0] = _ours[0]
    _ours[1] = _theirs[1] = 1
    return bool(_libc.process_vm_readv(os.getpid(), _ours, 1, _theirs, 1, 0) == 1)


@cache
def _own_descriptors() -> int:
    """Return the folder of this process's descriptors: two steps fewer to each of them."""
    return os.open(_OURS, _FIND)


class MetadataCalls:
    """Answers the calls that wait at a filter's listener.

    Args:
        listener: the descriptor of the listener, owned from here on.
        folders: real paths; files in them, and they themselves, may be changed.
    """

    def __init__(self, listener: int, folders: Sequence[str]) -> None:
        self.listener = listener
        self._folders = tuple(os.fsencode(folder) + b"/" for folder in folders)
        self._caller = _Caller(0)
        column = 0 if platform.machine() == "x86_64" else 1
        calls = {seccomp.METADATA[name][column]: call for name, call in _CALLS.items()}
        self._calls = {**calls, seccomp.IOCTL[column]: _Call(_flags, descriptor=0)}
        try:
            fcntl.ioctl(listener, _SET_FLAGS, _SAME_PROCESSOR)
        except OSError:
            pass  # an older kernel: an answer takes a little longer to arrive

    def serve(self) -> None:
        """Answer calls until no process is left that could make one."""
        deserted = select.poll()
        deserted.register(self.listener, 0)
        while self.answer() or not deserted.poll(0):
            pass

    def answer(self) -> bool:
        """Wait for one call and make it, or refuse it; return False when its caller is gone."""
        try:
            received = fcntl.ioctl(self.listener, _RECEIVE, _UNSET)
        except OSError:
            return False  # killed before it was read
        identity, thread, _, number, _, _, *arguments = _NOTIFICATION.unpack(received)
        caller = self._caller
        if caller.thread != thread:
            caller.forget()
            caller = self._caller = _Caller(thread)
        caller.arguments = arguments
        failure = 0
        try:
            self._make(identity, self._calls[number], caller)
        except OSError as error:
            # Where openat2 is refused to us, nothing is.
            failure = errno.EPERM if error.errno in (None, errno.ENOSYS) else error.errno
        try:
            fcntl.ioctl(self.listener, _SEND, _ANSWER.pack(identity, 0, -failure, 0))
        except OSError:
            return False  # killed meanwhile
        return True

    def _make(self, identity: int, call: _Call, caller: _Caller) -> None:
        change = call.read(caller)
        file = _file_of(call, caller)
        try:
            # As long as it waits its thread's number is nobody else's: what was read above was the caller's.
            fcntl.ioctl(self.listener, _STILL_VALID, _IDENTITY.pack(identity))
            # By the path that the kernel has for it now, free of links.
            path = os.readlink(b"%d" % file, dir_fd=_own_descriptors())
            if not (path + b"/").startswith(self._folders):
                raise PermissionError(errno.EPERM, "outside")
            change(file)
        finally:
            os.close(file)


def _file_of(call: _Call, caller: _Caller) -> int:
    """Open the file of a call for nothing but to name it: links lead where they lead for the caller."""
    descriptor = _HERE if call.descriptor is None else caller.signed(call.descriptor)
    flags = 0 if call.flags is None else caller.unsigned(call.flags)
    if flags & ~(_NO_FOLLOW | _EMPTY_PATH):
        raise OSError(errno.EINVAL, "unknown flags")
    if call.path is None:
        return _only(caller, descriptor)
    at = caller.arguments[call.path]
    if not at and call.may_lack_path:
        return _only(caller, descriptor)
    path = caller.text(at, _PATH_MAX, errno.ENAMETOOLONG)
    if not path:
        if flags & _EMPTY_PATH:
            return caller.open(descriptor)
        raise FileNotFoundError(errno.ENOENT, "no path")
    return _resolve(caller, descriptor, path, follow=call.follows and not flags & _NO_FOLLOW)


def _only(caller: _Caller, descriptor: int) -> int:
    """Open the file of a descriptor; unlike `_at`, AT_FDCWD is refused."""
    if descriptor < 0:
        raise OSError(errno.EBADF, "no descriptor")
    return caller.open(descriptor)


def _resolve(caller: _Caller, descriptor: int, path: bytes, *, follow: bool) -> int:
    own = _OWN_DESCRIPTOR.fullmatch(path)
    if own and (follow or own[2]):
        descriptor, path = int(own[1]), own[2] or b""
        if not path:
            return caller.open(descriptor)
    if path.startswith(b"/"):
        return _openat2(_HERE, path, follow=follow)
    folder = caller.open(descriptor)
    try:
        return _openat2(folder, path, follow=follow)
    finally:
        os.close(folder)


def _openat2(folder: int, path: bytes, *, follow: bool) -> int:
    how = _how_following if follow else _how_not_following
    found: int = _libc.syscall(_OPENAT2, folder, path, how, _size_of_how)
    _check(found)
    return found
