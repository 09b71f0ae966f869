"""A seccomp filter without a library: the system calls denied to a contained command.

Runs in the broker too, so it imports nothing but the standard library. System call numbers: the kernel's
arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (aarch64). Filter layout: linux/filter.h,
linux/seccomp.h.
"""

import ctypes
import errno
import platform
import socket
import struct
from collections.abc import Collection, Iterator

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86-64, aarch64); None where the architecture never had the call.
_ALWAYS_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # other processes' memory, descriptors and registers
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "userfaultfd": (323, 282),
    # the kernel's own keys, programs, modules, clocks
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    # mounts, namespaces, files by handle: ways around the file rules
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "fanotify_init": (300, 262),
    # io_uring opens sockets and files without the calls that this filter sees
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}

_REFUSED_AMONG_STRANGERS: dict[str, tuple[int | None, int | None]] = {
    # System V and POSIX queues, semaphores and shared memory have no owner but the user id.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "tkill": (200, 130),
}

# name: (numbers, index of the argument that names a process; only 0, "myself", is allowed)
_ONLY_ON_ITSELF: dict[str, tuple[tuple[int | None, int | None], int]] = {
    "prlimit64": ((302, 261), 0),
    "sched_setaffinity": ((203, 122), 0),
    "sched_setscheduler": ((144, 119), 0),
    "sched_setparam": ((142, 118), 0),
    "sched_setattr": ((314, 274), 0),
    "setpriority": ((141, 140), 1),
    "ioprio_set": ((251, 30), 1),
    "move_pages": ((279, 239), 0),
    "migrate_pages": ((256, 238), 0),
}

# name: (numbers, index of the mode argument; set-user-id and set-group-id bits are refused)
_MODES: dict[str, tuple[tuple[int | None, int | None], int]] = {
    "chmod": ((90, None), 1),
    "fchmod": ((91, 52), 1),
    "fchmodat": ((268, 53), 2),
    "fchmodat2": ((452, 452), 2),
    "open": ((2, None), 2),
    "creat": ((85, None), 1),
    "openat": ((257, 56), 3),
    "mknod": ((133, None), 1),
    "mknodat": ((259, 33), 2),
}

# name: (numbers, index of the argument that names a process to signal)
_SIGNALS: dict[str, tuple[tuple[int | None, int | None], int]] = {
    "kill": ((62, 129), 0),
    "tgkill": ((234, 131), 0),
    "rt_sigqueueinfo": ((129, 138), 0),
    "rt_tgsigqueueinfo": ((297, 240), 0),
    "pidfd_open": ((434, 434), 0),
}

_FCNTL: tuple[int | None, int | None] = (72, 25)
_F_SETOWN, _F_SETOWN_EX = 8, 15
_SET_OWNER = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
"""Commands of `fcntl` and `ioctl` that name a process to get a signal of one's choice when a descriptor is ready:
linux/fcntl.h, asm-generic/sockios.h. All but F_SETOWN have the process in memory, where a filter cannot look."""

METADATA: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
"""Calls that change a file's mode, owner, times and attributes, for which Landlock has no right. Among strangers they
are made by the supervisor (`metadata_calls`) or refused."""
IOCTL: tuple[int | None, int | None] = (16, 29)
FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR = 0x40086602, 0x401C5820
"""Commands of `ioctl` that change attributes, too: linux/fs.h."""
# Made for nobody: the 32-bit variants of the same, generation numbers, encryption, verity, flags of a subvolume
# (linux/fs.h, fscrypt.h, fsverity.h, btrfs.h). They need a descriptor for reading and the file's owner, no more.
_REFUSED_ATTRIBUTES = (0x40046602, 0x40047602, 0x40087602, 0x40046604, 0x40086604, 0x800C6613, 0x40806685, 0x4008941A)
_FIRST_UNKNOWN = 470
"""The first number after those that were judged here; both architectures have the same new ones."""

# Their arguments are in memory, where a filter cannot look: "not implemented" makes callers take the older call.
_NOT_IMPLEMENTED: dict[str, tuple[int | None, int | None]] = {"clone3": (435, 435), "openat2": (437, 437)}
_CLONE: tuple[int | None, int | None] = (56, 220)
_SOCKET: tuple[int | None, int | None] = (41, 198)

_CLONE_NEW = 0x7E020000  # every CLONE_NEW* flag that clone takes, linux/sched.h
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # types into, and pastes into, the terminal; asm-generic/ioctls.h
_SET_ID_BITS = 0o6000
_X32_BIT = 0x40000000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5

INTERNET = (socket.AF_INET, socket.AF_INET6, 16)
"""Address families of ordinary network programs; 16 is AF_NETLINK, by which they list their interfaces."""

_Instruction = tuple[int, int, int, int]


class UnsupportedArchitecture(OSError):
    """No filter can be built for this processor."""

    def __init__(self, machine: str) -> None:
        super().__init__(f"no system call filter for {machine}: only x86-64 and aarch64 are supported")


def build(
    families: Collection[int],
    *,
    among_strangers: bool,
    protected: Collection[int] = (),
    listened: bool = False,
    machine: str | None = None,
) -> bytes:
    """Return the filter as an array of `struct sock_filter`, as bubblewrap's --seccomp and `load` take it.

    Args:
        families: address families that `socket` may be called with.
        among_strangers: the command sees processes that are not its own (no namespace around it): it may then not
            touch their priorities, limits, shared memory and queues, nor the metadata of files (`METADATA`).
        protected: process ids that must not be signalled, nor all together (-1), where Landlock cannot ensure it.
        listened: calls of `METADATA` are not refused but wait for the listener of the filter to answer them.
        machine: `x86_64` or `aarch64`; this machine's by default.

    Raises:
        UnsupportedArchitecture: another processor.
    """
    machine = machine or platform.machine()
    if machine not in _AUDIT_ARCH:
        raise UnsupportedArchitecture(machine)
    column = 0 if machine == "x86_64" else 1
    program = [*_load(_ARCH), (_EQUAL, 1, 0, _AUDIT_ARCH[machine]), _answer(_KILL_PROCESS), *_load(_NUMBER)]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32_BIT), _answer(_ERRNO | errno.ENOSYS)]
    program += _whole_calls(column, among_strangers)
    metadata = (_answer(_NOTIFY) if listened else _answer(_ERRNO | errno.EPERM)) if among_strangers else _answer(_ALLOW)
    program += _by_argument(column, families, among_strangers, protected, metadata)
    program.append(_answer(_ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def load(program: bytes, *, listens: bool = False) -> int:
    """Put the calling thread, and all that it starts, under the filter for good.

    Returns the descriptor of the filter's listener if it `listens`, else 0.

    Raises:
        OSError: the kernel refused it; with `listens` also where a filter around this one has a listener.
    """

    class Program(ctypes.Structure):
        """`struct sock_fprog`."""

        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program, len(program))
    given = Program(len(program) // 8, ctypes.addressof(buffer))
    zero = ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs refused")
    # Linux 5.19 can keep signals from cutting a call short of which the listener has heard; before, it is made again.
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER) if listens else (0,):
        number = ctypes.c_long(_SECCOMP[platform.machine()])
        listener: int = libc.syscall(number, _SET_MODE_FILTER, ctypes.c_ulong(flags), ctypes.byref(given))
        if listener >= 0:
            return listener
    raise OSError(ctypes.get_errno(), "the kernel has no seccomp filters, or this container refuses them")


def _whole_calls(column: int, among_strangers: bool) -> Iterator[_Instruction]:
    refused = [*_ALWAYS_REFUSED.values(), *(_REFUSED_AMONG_STRANGERS.values() if among_strangers else ())]
    for numbers in refused:
        yield from _for_call(numbers[column], [_answer(_ERRNO | errno.EPERM)])
    for numbers in _NOT_IMPLEMENTED.values():
        yield from _for_call(numbers[column], [_answer(_ERRNO | errno.ENOSYS)])
    if among_strangers:
        yield from ((_AT_LEAST, 0, 1, _FIRST_UNKNOWN), _answer(_ERRNO | errno.ENOSYS))


def _by_argument(
    column: int,
    families: Collection[int],
    among_strangers: bool,
    protected: Collection[int],
    metadata: _Instruction,
) -> Iterator[_Instruction]:
    refuse, allow = _answer(_ERRNO | errno.EPERM), _answer(_ALLOW)
    yield from _for_call(_CLONE[column], [*_load_argument(0), (_ANY_BIT, 0, 1, _CLONE_NEW), refuse, allow])
    yield from _for_call(_SOCKET[column], [*_load_argument(0), *_unless_equal(families, allow), refuse])
    yield from _for_call(IOCTL[column], [*_load_argument(1), *_ioctl(among_strangers, metadata), allow])
    for name, (numbers, index) in _MODES.items():
        answer = metadata if name in METADATA else allow
        yield from _for_call(numbers[column], [*_load_argument(index), (_ANY_BIT, 0, 1, _SET_ID_BITS), refuse, answer])
    for name in METADATA.keys() - _MODES.keys():
        yield from _for_call(METADATA[name][column], [metadata])
    if among_strangers:
        for numbers, index in _ONLY_ON_ITSELF.values():
            yield from _for_call(numbers[column], [*_load_argument(index), *_unless_equal((0,), allow), refuse])
    if protected:
        everybody = [0xFFFFFFFF, *protected, *(-pid & 0xFFFFFFFF for pid in protected)]
        for numbers, index in _SIGNALS.values():
            yield from _for_call(numbers[column], [*_load_argument(index), *_unless_equal(everybody, refuse), allow])
        owner = [*_load_argument(2), *_unless_equal(everybody, refuse), allow]
        commands = [(_EQUAL, 0, 1, _F_SETOWN_EX), refuse, (_EQUAL, 0, len(owner), _F_SETOWN), *owner]
        yield from _for_call(_FCNTL[column], [*_load_argument(1), *commands, allow])


def _ioctl(among_strangers: bool, metadata: _Instruction) -> Iterator[_Instruction]:
    refuse = _answer(_ERRNO | errno.EPERM)
    yield from _unless_equal((_TIOCSTI, _TIOCLINUX), refuse)
    if among_strangers:
        yield from _unless_equal((FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR), metadata)
        yield from _unless_equal((*_REFUSED_ATTRIBUTES, *_SET_OWNER), refuse)


def _for_call(number: int | None, body: list[_Instruction]) -> list[_Instruction]:
    return [] if number is None else [(_EQUAL, 0, len(body), number), *body]


def _unless_equal(values: Collection[int], answer: _Instruction) -> Iterator[_Instruction]:
    for value in values:
        yield (_EQUAL, 0, 1, int(value))
        yield answer


def _load(offset: int) -> list[_Instruction]:
    return [(_LOAD, 0, 0, offset)]


def _load_argument(index: int) -> list[_Instruction]:
    # The low half: both architectures are little-endian, and the kernel takes these arguments as 32 bits.
    return _load(_ARGUMENTS + 8 * index)


def _answer(value: int) -> _Instruction:
    return (_RETURN, 0, 0, value)
