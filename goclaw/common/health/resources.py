"""Disk and memory of the machine: how much is used and free, and why the disk refuses, with remedies."""

import asyncio
import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.core.container import daemon_command
from goclaw.common.core.records import record
from goclaw.errors import DiskError, DiskFault

KEEP_SECONDS = 60.0
"""Lifetime of a measurement: `/status` must stay fast in a folder with many pictures."""
LOW_BYTES = 500_000_000
"""Less than this is a warning: a day of logs, pictures and conversations of a busy bot fits in it."""
REMEDY = "make room, or move the state folder (`state_dir`)"


@record
class DiskUse:
    """Bytes."""

    database: int
    """With its log and the memory index."""
    media: int
    """Pictures and long outputs."""
    logs: int
    free: int
    """Bytes that a plain user can still write."""

    @property
    def summary(self) -> str:
        """`12 MB database, 40 MB media, 3.0 MB logs; 87 GB free`."""
        used = f"{amount(self.database)} database, {amount(self.media)} media, {amount(self.logs)} logs"
        return f"{used}; {amount(self.free)} free"

    def text(self) -> str:
        """Return the summary, and a warning where little is free."""
        return f"{self.summary}. Warning: {self.warning}; {REMEDY}" if self.warning else self.summary

    @property
    def warning(self) -> str:
        """Why the free space is too little; empty when it is not."""
        if self.free < LOW_BYTES:
            return "little space is free; on a full disk no message can be stored"
        if self.free < self.database:
            return "less space is free than the database uses, but a backup or an upgrade needs a copy of it"
        return ""

    def numbers(self) -> dict[str, int | bool]:
        """Return the numbers for machines."""
        return {**asdict(self), "low": bool(self.warning)}


class DiskGauge:
    """Measures when asked, in a thread, at most once a minute."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._measured: DiskUse | None = None
        self._at = 0.0
        self._measuring = asyncio.Lock()

    async def use(self) -> DiskUse:
        """Return used and free space now, or as measured within the last minute."""
        async with self._measuring:
            if self._measured is None or self._clock.monotonic() - self._at >= KEEP_SECONDS:
                self._measured = await asyncio.to_thread(measure, self._config)
                self._at = self._clock.monotonic()
        return self._measured


def measure(config: Config) -> DiskUse:
    """Look now. Files that come and go meanwhile are no trouble; what does not exist yet takes nothing."""
    state = config.state_dir
    databases = (config.database_path, state / "memory.db")
    return DiskUse(
        database=sum(_size(path.with_name(path.name + ending)) for path in databases for ending in ("", "-wal")),
        media=sum(_sizes(state / "blobs")),
        logs=sum(_sizes(state / "logs")),
        free=shutil.disk_usage(next(path for path in (state, *state.parents) if path.exists())).free,
    )


def amount(count: int) -> str:
    """Return bytes in words: `96 kB`, `4.2 MB`, `87 GB`. A million bytes are a MB, as on the box of a disk."""
    size, unit = next((found for found in ((1e9, "GB"), (1e6, "MB")) if count >= 0.9995 * found[0]), (1e3, "kB"))
    value = count / size
    return f"{value:.1f} {unit}" if 0.05 <= value < 9.95 else f"{value:,.0f} {unit}"


def _sizes(folder: Path) -> Iterator[int]:
    for place, _, files in os.walk(folder):
        yield from (_size(Path(place, name)) for name in files)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


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
    DiskFault.FULL: "make room there; GoClaw then continues by itself",
    DiskFault.READ_ONLY: "make {folder} writable again (its mount, its owner); GoClaw then continues by itself",
    DiskFault.BROKEN: "check the disk of {folder} (`dmesg`); GoClaw continues by itself when it works again",
    DiskFault.LOCKED: (
        "stop the other program that locks it (a backup tool, an sqlite3 shell); GoClaw then continues by itself"
    ),
    DiskFault.DAMAGED: (
        f"{daemon_command('restart')} sets the file aside and continues with everything that can be read"
    ),
    DiskFault.GONE: f"put it back, or {daemon_command('restart')} to continue with the present files",
}


def disk_error(error: sqlite3.Error | OSError, path: Path, doing: str) -> DiskError:
    """Return the error as a `DiskError`; its message says what could not be done to `path`, why, and what helps."""
    fault = fault_of(error)
    why = error.strerror if isinstance(error, OSError) else str(error)
    return DiskError(f"{path} cannot be {doing}: {why}; {remedy(fault, path)}", fault)


def remedy(fault: DiskFault, path: Path) -> str:
    """Return the remedy for an operator."""
    return _REMEDIES[fault].format(folder=path.parent)


def fault_of(error: sqlite3.Error | OSError) -> DiskFault:
    """Return the fault underlying an error; an unknown one counts as a broken disk."""
    if isinstance(error, OSError):
        return _OF_SYSTEM.get(error.errno or 0, DiskFault.BROKEN)
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR)
    return _OF_SQLITE.get(code & 0xFF, DiskFault.BROKEN)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the content of the file is the trouble, and not its disk."""
    return fault_of(error) is DiskFault.DAMAGED


MEMINFO = Path("/proc/meminfo")
"""Linux's own table, in kibibytes; see proc(5)."""
AVAILABLE = "MemAvailable:"
STATM = Path("/proc/self/statm")
"""Linux's pages of this process; the second number is those in memory. See proc(5)."""


def free_memory(table: Path = MEMINFO) -> int | None:
    """Return the bytes that programs can have without swapping, as the kernel estimates; None without such a table."""
    try:
        rows = table.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    found = next((row.split() for row in rows if row.startswith(AVAILABLE)), [])
    return int(found[1]) * 1_024 if len(found) > 1 and found[1].isdecimal() else None


def resident_memory(table: Path = STATM) -> int | None:
    """Return the bytes of this process that are in memory; None without such a table."""
    try:
        return int(table.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
