"""Classification of SQLite and operating system errors as faults of the disk, with remedies."""

import errno
import sqlite3
from pathlib import Path

from goclaw.errors import DiskError, DiskFault

_OF_SQLITE = {
    sqlite3.SQLITE_FULL: DiskFault.FULL,
    sqlite3.SQLITE_READONLY: DiskFault.READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: DiskFault.BROKEN,
    sqlite3.SQLITE_IOERR: DiskFault.BROKEN,
    sqlite3.SQLITE_BUSY: DiskFault.LOCKED,
    sqlite3.SQLITE_LOCKED: DiskFault.LOCKED,
    sqlite3.SQLITE_CORRUPT: DiskFault.DAMAGED,
    sqlite3.SQLITE_NOTADB: DiskFault.DAMAGED,
}
"""By the low byte of SQLite's code: that is the kind, the rest the detail (sqlite.org/rescode.html)."""
_OF_SYSTEM = {
    errno.ENOSPC: DiskFault.FULL,
    errno.EDQUOT: DiskFault.FULL,
    errno.EFBIG: DiskFault.FULL,
    errno.EROFS: DiskFault.READ_ONLY,
    errno.EACCES: DiskFault.READ_ONLY,
    errno.EPERM: DiskFault.READ_ONLY,
}
_REMEDIES = {
    DiskFault.FULL: "make room there; it goes on by itself",
    DiskFault.READ_ONLY: "make {folder} writable again (its mount, its owner); it goes on by itself",
    DiskFault.BROKEN: "look at the disk of {folder} (`dmesg`); it goes on by itself when that works again",
    DiskFault.LOCKED: "end the other program that holds it (a backup tool, an sqlite3 shell); it goes on by itself",
    DiskFault.DAMAGED: "`goclaw restart` sets the file aside and goes on with all of it that can be read",
    DiskFault.GONE: "put it back, or `goclaw restart` to go on with what is there now",
}


def disk_error(error: sqlite3.Error | OSError, path: Path, doing: str) -> DiskError:
    """Return the error as a `DiskError` whose message says what could not be done to `path`, why, and what helps."""
    fault = fault_of(error)
    why = error.strerror if isinstance(error, OSError) else str(error)
    return DiskError(f"{path} cannot be {doing}: {why}; {remedy(fault, path)}", fault)


def remedy(fault: DiskFault, path: Path) -> str:
    """Return what an operator can do."""
    return _REMEDIES[fault].format(folder=path.parent)


def fault_of(error: sqlite3.Error | OSError) -> DiskFault:
    """Return the fault behind an error; an unknown one counts as a broken disk."""
    if isinstance(error, OSError):
        return _OF_SYSTEM.get(error.errno or 0, DiskFault.BROKEN)
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR)
    return _OF_SQLITE.get(code & 0xFF, DiskFault.BROKEN)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the content of the file is the trouble, and not its disk."""
    return fault_of(error) is DiskFault.DAMAGED
