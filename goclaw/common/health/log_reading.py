"""Reading of the log files: the newest lines, by severity, session and turn."""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

Wanted = Callable[[bytes], bool]


class LogLevel(StrEnum):
    """Severity of a log record, ascending."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


def record_of(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line; None if it is invalid."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def line_filter(turn: str, session: str, level: LogLevel) -> Wanted:
    """Return a filter for lines of the file. Without options it accepts all, also lines that are no records.

    `turn`: the end of a turn's id; empty: any, as with `session`.
    """
    if not turn and not session and level is LogLevel.DEBUG:
        return lambda line: True
    grave = list(LogLevel)[list(LogLevel).index(level) :]

    def accepts(line: bytes) -> bool:
        record = record_of(line)
        return (
            record is not None
            and str(record.get("turn", "")).endswith(turn)
            and session in ("", record.get("session"))
            and record.get("level", LogLevel.INFO) in grave
        )

    return accepts


def last_lines(path: Path, newest: Iterable[bytes], count: int, wanted: Wanted) -> list[bytes]:
    """Return the last `count` lines that are wanted, oldest first; older files are read if the newest has too few.

    `newest`: the lines of the file at `path`. Reads the disk.
    """
    found = deque(filter(wanted, newest), maxlen=count)
    rotated = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    for older in itertools.takewhile(Path.exists, rotated):
        if len(found) == count:
            break
        with older.open("rb") as file:
            lines = (line.rstrip(b"\n") for line in file)
            found.extendleft(reversed(deque(filter(wanted, lines), maxlen=count - len(found))))
    return list(found)
