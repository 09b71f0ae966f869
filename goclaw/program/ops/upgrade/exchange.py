"""Exchange of two folders in one step, so that a path never leads nowhere.

Linux has renameat2 with RENAME_EXCHANGE, macOS renamex_np with RENAME_SWAP (their manual pages; the numbers are of
<linux/fs.h> and <sys/stdio.h>). Network file systems and some layered ones refuse it.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

from goclaw.common.core.container import daemon_command
from goclaw.common.core.files import flush
from goclaw.errors import StateError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2


def exchange(one: Path, other: Path) -> None:
    """Give each of two entries of one file system the place of the other, in one step; on disk when this returns.

    Raises:
        OSError: the file system cannot do it, or one of them is not there. Nothing has changed.
    """
    library = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(first, second, _RENAME_SWAP)
        else:
            failed = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
    except AttributeError:
        raise OSError(38, "this system's C library cannot exchange two folders", str(one)) from None
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(one))
    for folder in {one.parent, other.parent}:
        flush(folder)


def check_exchange(home: Path, beside: Path) -> None:
    """Try out whether an entry next to `home` and one next to `beside` can exchange their places.

    Raises:
        StateError: they cannot, or nothing can be written there.
    """
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".goclaw-", dir=home.parent) as one,
            tempfile.TemporaryDirectory(prefix=".goclaw-", dir=beside.parent) as other,
        ):
            exchange(Path(one), Path(other))
    except OSError as error:
        raise StateError(
            f"{home.parent}: cannot swap two folders atomically there ({error.strerror}), so an interruption could "
            f"leave no program at all. Upgrade by hand: `goclaw backup FILE`, {daemon_command('stop')}, install the "
            f"new version as you installed this one, {daemon_command('start')}"
        ) from error
