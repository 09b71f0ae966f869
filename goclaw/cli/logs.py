"""`goclaw logs`: the daemon's log, or what it says about one turn or one session."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from goclaw.cli.common import load
from goclaw.cli.frame import say, show
from goclaw.tui.log_tail import record_of, shown

app = typer.Typer(add_completion=False, rich_markup_mode=None)

LOOK_SECONDS = 0.3

Wanted = Callable[[bytes], bool]


class LogLevel(StrEnum):
    """Severity of a log record, ascending."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


@app.command()
def logs(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as lines come.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many lines from the end.")] = 50,
    turn: Annotated[str, typer.Option(metavar="ID", help="Only about this turn; the end of its id will do.")] = "",
    session: Annotated[str, typer.Option(metavar="KEY", help="Only about this session.")] = "",
    level: Annotated[
        LogLevel, typer.Option(case_sensitive=False, help="Only what is as grave as this.")
    ] = LogLevel.DEBUG,
) -> None:
    """Show the daemon's log. A terminal gets lines to read, a pipe the JSON of the file."""
    path = load(context, packages=False).config.state_dir / "logs" / "goclaw.log"
    if not path.exists():
        say(f"{path}: there is no log yet")
        raise typer.Exit(1)
    wanted = _filter(turn.removeprefix("#"), session, level)
    with closing(_Log(path)) as log:
        found = _last(path, log.new(), lines, wanted)
        _print(found)
        if follow:
            _follow(log, wanted)
        elif not found and lines:
            say(f"nothing of that kind in {path}")


def _filter(turn: str, session: str, level: LogLevel) -> Wanted:
    """Return a filter for lines of the file. Without options it accepts all, also lines that are no records."""
    if not turn and not session and level is LogLevel.DEBUG:
        return lambda line: True
    grave = list(LogLevel)[list(LogLevel).index(level) :]

    def wanted(line: bytes) -> bool:
        record = record_of(line)
        return (
            record is not None
            and str(record.get("turn", "")).endswith(turn)
            and session in ("", record.get("session"))
            and record.get("level", LogLevel.INFO) in grave
        )

    return wanted


class _Log:
    """The newest file, line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._rest = b""

    def new(self) -> list[bytes]:
        """Return whole lines since the last call; a rotated file is followed into its successor."""
        data = self._file.read()
        if not data and self._rotated():
            self._file.close()
            self._file = self._path.open("rb")
            data = self._file.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _rotated(self) -> bool:
        return self._path.exists() and os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino


def _last(path: Path, newest: list[bytes], count: int, wanted: Wanted) -> list[bytes]:
    """Return the last `count` lines that are wanted, oldest first; older files are read if the newest has too few."""
    found = deque(filter(wanted, newest), maxlen=count)
    for older in _older(path):
        if len(found) == count:
            break
        with older.open("rb") as file:
            lines = (line.rstrip(b"\n") for line in file)
            found.extendleft(reversed(deque(filter(wanted, lines), maxlen=count - len(found))))
    return list(found)


def _older(path: Path) -> Iterator[Path]:
    """Yield rotated log files, newest first."""
    number = 1
    while (older := path.with_name(f"{path.name}.{number}")).exists():
        yield older
        number += 1


def _print(lines: list[bytes]) -> None:
    readable = sys.stdout.isatty()
    for line in lines:
        record = record_of(line) if readable else None
        show(line.decode(errors="replace") if record is None else _for_people(record))
    sys.stdout.flush()


def _for_people(record: dict[str, Any]) -> str:
    line = shown(record)
    parts = (_day(record.get("timestamp")), line.time, f"{line.level:<8}", line.text, f" {line.details}")
    text = " ".join(parts).rstrip()
    return "\n    ".join([text, *line.trace.splitlines()])


def _day(timestamp: Any) -> str:
    try:
        return datetime.fromisoformat(str(timestamp)).astimezone().strftime("%Y-%m-%d")
    except ValueError:
        return ""


def _follow(log: _Log, wanted: Wanted) -> None:
    """Print what comes, until Ctrl-C."""
    look_again = Event()
    try:
        while not look_again.wait(LOOK_SECONDS):
            _print(list(filter(wanted, log.new())))
    except KeyboardInterrupt:
        print()
