"""The ways in which a workspace opens files, forced: what the kernel answers decides, as it does on an old one."""

import ctypes
import errno
from functools import partial

import pytest

from goclaw.common.workspace import openat2

WAYS = ("openat2", "no openat2", "openat2 forbidden")
"""As here; a kernel before 5.6 (ENOSYS); a container's seccomp profile (EPERM)."""
_NO_SUCH_CALL = 100_000


def force(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workspaces that are opened from now on use this way."""
    if way == "no openat2":
        monkeypatch.setattr(openat2, "_SYS_OPENAT2", _NO_SUCH_CALL)
    elif way == "openat2 forbidden":
        monkeypatch.setattr(openat2, "_syscall", partial(_refuse, errno.EPERM))


def _refuse(number: int, *given: object) -> int:
    ctypes.set_errno(number)
    return -1
