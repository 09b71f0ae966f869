"""Landlock by system call: a process gives up every file that it was not granted.

Runs in the broker, so it imports nothing but the standard library. Numbers: uapi/linux/landlock.h; the system calls
444 to 446 are the same on x86-64 and aarch64.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_KNOWN_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many of the access bits an ABI version knows; later versions know all 16."""
_ALL = (1 << 16) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""The bits that make sense for something that is no folder."""

READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
"""The names in a folder and in all below it, and nothing of what they stand for."""
WRITE = _ALL & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE

_NET_BIND_TCP, _NET_CONNECT_TCP = 1, 2
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1, 2

SCOPES_SINCE = 6
"""The ABI version from which a restricted process cannot signal processes outside its restriction."""

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long


def abi() -> int:
    """Return the kernel's Landlock version; 0 when it has none or has it switched off."""
    version: int = _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    return max(version, 0)


def ruleset(grants: Iterable[tuple[str, int]], *, network: bool) -> int:
    """Return a descriptor of a rule set that allows exactly `grants`: (path, `READ`, `LIST`, `WRITE` or `DEVICE`).

    Paths that do not exist are left out. Without `network` TCP is refused where the kernel's version can do that.
    Signals and abstract sockets to the outside are refused from `SCOPES_SINCE` on.

    Raises:
        OSError: no Landlock here, or a rule was refused.
    """
    version = abi()
    handled = _ALL & ((1 << _KNOWN_BY_ABI.get(version, 16)) - 1)
    attributes = struct.pack("=Q", handled)
    if version >= 4:
        attributes += struct.pack("=Q", 0 if network else _NET_BIND_TCP | _NET_CONNECT_TCP)
    if version >= SCOPES_SINCE:
        attributes += struct.pack("=Q", _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL)
    descriptor: int = _syscall(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), 0)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "the kernel has no Landlock")
    for path, access in grants:
        _grant(descriptor, path, access & handled)
    return descriptor


def restrict(descriptor: int) -> None:
    """Put the calling thread, and all that it starts, under the rule set for good.

    Raises:
        OSError: the kernel refused it.
    """
    zero = ctypes.c_ulong(0)
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs refused")
    if _syscall(_RESTRICT_SELF, descriptor, 0) < 0:
        raise OSError(ctypes.get_errno(), "Landlock refused the rules")


def _grant(descriptor: int, path: str, access: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, target)
        if _syscall(_ADD_RULE, descriptor, _RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0) < 0:
            raise OSError(ctypes.get_errno(), f"Landlock refused a rule for {path}")
    finally:
        os.close(target)
