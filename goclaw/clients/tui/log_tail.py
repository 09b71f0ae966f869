"""The daemon's log as it grows: JSON lines of the file, read with the same uid, as lines for people."""

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from goclaw.clients.tui.text import one_line, printable
from goclaw.common.core.records import record
from goclaw.common.health.log_reading import record_of

TAIL_BYTES = 64 << 10
"""Bytes read of an old log at first, and at most at a time."""
IDS = ("turn", "session", "tool", "call", "delivery")
"""The keys that identify the work of a record; the last two only repeat the first ones and the text."""
USUAL = ("event", "level", "logger", "timestamp", "exception", "stack", *IDS)
SHORT_ID = 6
"""The last characters of a turn's id: enough to distinguish the turns of an hour. `goclaw logs --turn` takes them."""


@record
class LogLine:
    """One record."""

    time: str
    """`16:04:59`, in this machine's zone; empty where the record has none."""
    level: str
    text: str
    details: str
    """Short ids, then `name=value` of everything else that was recorded."""
    trace: str = ""
    """The traceback, or where threads and tasks stood; many lines."""


class LogTail:
    """Reads new lines. Every method blocks: call it in a thread, one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def read(self) -> list[LogLine]:
        """Records since the last call; a rotated file is followed into its successor."""
        data = self._read()
        if not data and self._is_stale():
            self.close()
            data = self._read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line for line in map(parse, lines) if line is not None]

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
        self._file, self._rest = None, b""

    def _read(self) -> bytes:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except OSError:
                return b""  # the daemon has not written one yet
        behind = os.fstat(self._file.fileno()).st_size - self._file.tell()
        if behind <= TAIL_BYTES:
            return self._file.read()
        self._file.seek(-TAIL_BYTES, os.SEEK_END)
        self._file.readline()  # the middle of a line
        self._rest = b""
        return self._file.read()

    def _is_stale(self) -> bool:
        try:
            return self._file is not None and os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino
        except OSError:
            return False


def parse(line: bytes) -> LogLine | None:
    """Parse a line of the file; return None if it is no record."""
    record = record_of(line)
    return None if record is None else format_record(record)


def format_record(record: Mapping[str, Any]) -> LogLine:
    """Return a record for people."""
    exception = str(record.get("exception", "")).strip()
    details = [f"{name}={_value(value)}" for name, value in record.items() if name not in USUAL]
    return LogLine(
        _time(record.get("timestamp")),
        str(record.get("level", "info")),
        printable(str(record.get("event", ""))),
        one_line("  ".join([*_ids(record), *details, *exception.splitlines()[-1:]]), 300),
        printable(str(record.get("stack", "")).strip() or exception),
    )


def _ids(record: Mapping[str, Any]) -> Iterator[str]:
    turn, session, tool = (str(record.get(name, "")) for name in IDS[:3])
    if turn:
        yield f"#{turn.rpartition(':')[2][-SHORT_ID:]}"
    yield from filter(None, (session, tool))


def _value(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float | bool) else orjson.dumps(value, default=str).decode()


def _time(timestamp: Any) -> str:
    try:
        return datetime.fromisoformat(str(timestamp)).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return ""
