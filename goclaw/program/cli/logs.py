"""`goclaw logs|audit`: the daemon's log, and who did what, under which rule.

A terminal gets lines to read, a pipe the JSON of the file.
"""

import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from heapq import merge
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Annotated, Any

import orjson
import typer

from goclaw.clients.tui.log_tail import format_record
from goclaw.common.auth.audit import audit_path, fact_of, head_of, read_audit
from goclaw.common.auth.audit_chain import BLANKED, Head
from goclaw.common.auth.audit_verify import Verified, verify_audit
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.health.log_reading import LogLevel, Wanted, last_lines, line_filter, record_of
from goclaw.durable.store.open import postgres, stored_fact
from goclaw.program.cli.base import print_message, show
from goclaw.program.cli.options import load

LOOK_SECONDS = 0.3
MAX_FINDINGS = 50
"""Maximum places listed; with more, somebody has rewritten a file."""


def logs(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Follow the log as lines arrive.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="Number of lines, counted from the end.")] = 50,
    turn: Annotated[
        str, typer.Option(metavar="ID", help="Only lines about this turn; the end of its id is enough.")
    ] = "",
    session: Annotated[str, typer.Option(metavar="KEY", help="Only lines about this session.")] = "",
    level: Annotated[
        LogLevel, typer.Option(case_sensitive=False, help="Only lines of at least this level.")
    ] = LogLevel.DEBUG,
) -> None:
    """Show the daemon's log. A terminal gets lines to read, a pipe the JSON of the file."""
    wanted = line_filter(turn.removeprefix("#"), session, level)
    show_log(load(context, packages=False).config, wanted, lines, follow=follow)


def show_log(config: Config, wanted: Wanted, lines: int, *, follow: bool) -> None:
    """Print the last lines of the daemon's log that are wanted, and with `follow` those that come, until Ctrl-C.

    Raises:
        Exit: there is no log yet.
    """
    path = config.state_dir / "logs" / "goclaw.log"
    if not path.exists():
        print_message(f"{path}: there is no log yet")
        raise typer.Exit(1)
    with closing(_Log(path)) as log:
        found = last_lines(path, log.new(), lines, wanted)
        _print(found)
        if not follow:
            if not found and lines:
                print_message(f"no matching lines in {path}")
            return
        look_again = Event()
        try:
            while not look_again.wait(LOOK_SECONDS):
                _print(list(filter(wanted, log.new())))
        except KeyboardInterrupt:
            print()


class _Log:
    """The newest file, line by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        self._rest = b""

    def new(self) -> list[bytes]:
        """Return whole lines since the last call; a rotated file is followed into its successor."""
        data = self._file.read()
        if not data and self._path.exists() and os.fstat(self._file.fileno()).st_ino != self._path.stat().st_ino:
            self._file.close()
            self._file = self._path.open("rb")
            data = self._file.read()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def close(self) -> None:
        self._file.close()


def _print(lines: list[bytes]) -> None:
    readable = sys.stdout.isatty()
    for line in lines:
        record = record_of(line) if readable else None
        show(line.decode(errors="replace") if record is None else _log_line(record))
    sys.stdout.flush()


def _log_line(record: dict[str, Any]) -> str:
    line = format_record(record)
    try:
        day = f"{datetime.fromisoformat(str(record.get('timestamp'))).astimezone():%Y-%m-%d}"
    except ValueError:
        day = ""
    parts = (day, line.time, f"{line.level:<8}", line.text, f" {line.details}")
    text = " ".join(parts).rstrip()
    return "\n    ".join([text, *line.trace.splitlines()])


audit_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@audit_app.callback(invoke_without_command=True)
def audit(
    context: typer.Context,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="Number of entries, counted from the end.")] = 50,
    actor: Annotated[str, typer.Option(metavar="KEY", help="Only entries of this person: telegram:5, tui:ann.")] = "",
    action: Annotated[
        str, typer.Option(metavar="NAME", help="Only entries of this kind: tool.use, command.run …")
    ] = "",
    about: Annotated[str, typer.Option(metavar="NAME", help="Only entries about this tool, command, session …")] = "",
    tag: Annotated[
        str, typer.Option(metavar="TAG", help="Only entries about tools with this tag: filesystem, shell …")
    ] = "",
    denied: Annotated[bool, typer.Option("--denied", help="Only denied actions.")] = False,
    hours: Annotated[float, typer.Option(min=0, help="Only entries of the last hours; 0: all.")] = 0,
) -> None:
    """Show the audit log: who did what, by which rule and result.

    A terminal gets lines to read, a pipe the JSON of the file.
    """
    if context.invoked_subcommand:
        return
    config = load(context, packages=False).config
    path = audit_path(config)
    since = RealClock().now() - hours * 3600 if hours else 0.0

    def accepts(entry: Mapping[str, Any]) -> bool:
        return (
            actor in ("", entry.get("actor"))
            and action in ("", entry.get("action"))
            and about in ("", entry.get("object"), entry.get("where"))
            and (not tag or tag in entry.get("tags", ()))
            and not (denied and entry.get("allowed"))
            and _when(entry).timestamp() >= since
        )

    with _audits(config) as (_, others):
        entries = merge(*(read_audit(each) for each in (path, *others.values())), key=_when)
        found = deque(filter(accepts, entries), maxlen=lines)
    for entry in found:
        show(_audit_line(entry) if sys.stdout.isatty() else orjson.dumps(entry).decode())
    if not found:
        print_message(f"no matching lines in {path}")


@audit_app.command()
def verify(context: typer.Context) -> None:
    """Check that no line was changed, removed, inserted or cut off, and say where. Exit code 1: one was."""
    config = load(context, packages=False).config
    with _audits(config) as (own, others):
        are_whole = [_is_whole(config, audit_path(config), own)]
        for chain, path in others.items():
            show(f"the log of another gateway{f', {chain}' if chain else ''}:")
            are_whole.append(_is_whole(config, path, chain))
    if not all(are_whole):
        raise typer.Exit(1)


@contextmanager
def _audits(config: Config) -> Iterator[tuple[str, Mapping[str, Path]]]:
    """Yield the name of this state folder's audit log, and the newest files of those that the database has besides."""
    if isinstance(config.store_place, Path):
        yield "", {}
        return
    with TemporaryDirectory(prefix="goclaw-audit-") as folder:
        yield postgres().audits(config.store_place, config.state_dir, Path(folder))


def _is_whole(config: Config, path: Path, chain: str) -> bool:
    """Show the result of a check of one audit log; returns whether no fault was found."""
    # Before the files: a line that comes meanwhile is only newer than what the database knows.
    known = head_of(stored_fact(config.store_place, fact_of(chain)))
    try:
        found = verify_audit(path, known)
    except OSError as error:
        print_message(f"{path}: {error.strerror}")
        raise typer.Exit(1) from None
    for finding in found.findings[:MAX_FINDINGS]:
        show(f"{finding.place}: {finding.text}")
    if len(found.findings) > MAX_FINDINGS:
        show(f"… and {len(found.findings) - MAX_FINDINGS:,} more")
    for line in _extent(found, known):
        show(line)
    return not found.findings


def _extent(found: Verified, known: Head | None) -> Iterator[str]:
    """Yield lines about the extent of the check, and about the parts outside the chain."""
    if not found.begins:
        yield "there is no chain yet; it starts with the next line"
        return
    broken = f"{len(found.findings):,} faults" if found.findings else "no fault found"
    yield f"{found.lines:,} lines verified, starting at {found.begins}: {broken}"
    if found.unchained:
        yield f"{found.unchained:,} earlier lines cannot be verified: an older GoClaw wrote them"
    if found.blanked:
        yield f"the text of {found.blanked:,} lines was removed (/forget, retention.days)"
    if found.torn:
        yield f"incomplete after a crash, not entries: {', '.join(found.torn[:MAX_FINDINGS])}"
    if not known:
        yield "the database does not know the last line, so lines may be missing at the end"
    elif found.newer:
        yield f"the database does not know the last {found.newer:,} lines yet; it will within seconds, or after a start"


def _audit_line(entry: Mapping[str, Any]) -> str:
    who = " for ".join([str(entry.get("actor", "")), *map(str, entry.get("behalf", ()))])
    verdict = "" if entry.get("allowed") else "DENIED "
    words = [f"{_when(entry):%Y-%m-%d %H:%M:%S}", who, f"{verdict}{entry.get('action')} {entry.get('object')}"]
    forgotten = {"detail": "(forgotten)"} if BLANKED in entry else {}
    entry = {**forgotten, **entry}
    for name, before in (("result", "→"), ("where", "in"), ("rule", "by"), ("detail", "|")):
        if value := entry.get(name):
            words.append(f"{before} {value}")
    return "  ".join(words)


def _when(entry: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromisoformat(str(entry.get("at"))).astimezone()
    except ValueError:
        return datetime.fromtimestamp(0).astimezone()
