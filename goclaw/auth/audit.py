"""The audit log: who did what, where, by which rule it was allowed or not, and how it ended. Append-only.

JSON lines in a file of the state folder, apart from the log, because people read it for another reason and keep it
longer. It holds what was decided, never what was said: of a tool call the beginning of its arguments, masked.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from goclaw.config.policies import AuditSettings
from goclaw.config.schema import Config
from goclaw.config.state import make_private
from goclaw.core.clock import Clock
from goclaw.core.events import Actor
from goclaw.core.records import record
from goclaw.core.redact import mask, revealed
from goclaw.core.supervise import background
from goclaw.errors import StateError

log = logging.getLogger(__name__)

MAX_DETAIL = 300
"""Characters of a call's arguments that are kept: enough to know which file or command it was."""
MAX_NAME = 200
MAX_TAGS = 20
"""Tags of a tool that are kept."""
RETRY_SECONDS = 5.0
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_WAITING = 20_000
"""Entries that are held while the disk does not take them; then the oldest go, and a line says how many."""


@record
class AuditEntry:
    """One line of the audit log."""

    action: str
    """As in `access.Action`, or `daemon.start`, `daemon.stop`, `tool.approval`, `channel.stranger` …"""
    object: str
    """The tool, command, session, question that it was about."""
    actor: Actor
    where: str = ""
    """The session."""
    allowed: bool = True
    rule: str = ""
    """Which rule decided, as `authorize` names it."""
    result: str = ""
    """The result: ok, failed, denied, …"""
    detail: str = ""
    turn: str = ""
    tags: frozenset[str] = frozenset()
    """Those of the tool."""


class Audit:
    """Takes entries at any time; `open_audit` writes them beside everything else."""

    def __init__(self, path: Path, settings: AuditSettings, clock: Clock) -> None:
        self._path = path
        self._settings = settings
        self._clock = clock
        self._waiting: list[bytes] = []
        self._dropped = 0
        self._news = asyncio.Event()
        self._flushing = asyncio.Lock()

    def record(self, entry: AuditEntry) -> None:
        """Remember an entry; it is on its way to the disk when this returns."""
        if not self._settings.enabled:
            return
        self._waiting.append(_line(entry, self._clock.now()))
        self._news.set()
        if len(self._waiting) > MAX_WAITING:
            self._dropped += len(self._waiting) - MAX_WAITING
            del self._waiting[:-MAX_WAITING]

    def try_out(self) -> None:
        """Raise OSError if the file cannot be written."""
        self._append(b"")

    async def write_forever(self) -> None:
        """Write what comes until cancelled; a disk that takes nothing is tried again."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.flush()

    async def flush(self) -> None:
        """Write what waits, when what is being written is. A failure is logged, and what waits stays."""
        async with self._flushing:
            await self._write_all()

    async def _write_all(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._append, b"".join(lines))
            except OSError as error:
                log.error("the audit log %s cannot be written: %s", self._path, error.strerror)
                self._waiting = lines + self._waiting
                await self._clock.sleep(RETRY_SECONDS)
            except asyncio.CancelledError:
                # The thread goes on by itself; what it may not have got to is better there twice than never.
                self._waiting = lines + self._waiting
                raise
        if self._dropped:
            log.error("%d entries of the audit log were lost while it could not be written", self._dropped)
            self._dropped = 0

    def _append(self, data: bytes) -> None:
        if self._path.exists() and self._path.stat().st_size + len(data) > self._settings.file_mb << 20:
            self._rotate()
        with os.fdopen(os.open(self._path, _FLAGS, 0o600), "r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            # A line that a crash has cut must not swallow the next one.
            cut = end > 0 and os.pread(file.fileno(), 1, end - 1) != b"\n"
            rest = memoryview(b"\n" + data if cut else data)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(end)
                raise

    def _rotate(self) -> None:
        for number in range(self._settings.files - 1, 0, -1):
            older = _numbered(self._path, number)
            if older.exists():
                older.replace(_numbered(self._path, number + 1))
        self._path.replace(_numbered(self._path, 1))


def audit_path(config: Config) -> Path:
    """Return the newest file; `.1` and on behind it are older."""
    return config.state_dir / "logs" / "audit.jsonl"


@asynccontextmanager
async def open_audit(config: Config, clock: Clock) -> AsyncIterator[Audit]:
    """Open the audit log until the block ends. All records made inside are written by then.

    Raises:
        StateError: the file cannot be written.
    """
    path = audit_path(config)
    make_private(config.state_dir, path.parent.name)
    audit = Audit(path, config.audit, clock)
    if config.audit.enabled:
        try:
            await asyncio.to_thread(audit.try_out)
        except OSError as error:
            raise StateError(f"{path}: cannot be written: {error.strerror}") from None
    async with background(audit.write_forever(), "audit log"):
        try:
            yield audit
        finally:
            try:
                async with asyncio.timeout(RETRY_SECONDS):
                    await audit.flush()
            except TimeoutError:
                log.error("the last entries of the audit log could not be written")


def read_audit(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield every entry that is kept, the oldest first. A line that was cut by a crash is passed over."""
    older = sorted(path.parent.glob(f"{path.name}.[0-9]*"), key=lambda file: -int(file.suffix[1:]))
    for file in (*older, path):
        if not file.exists():
            continue
        with file.open("rb") as lines:
            for line in lines:
                try:
                    entry = orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(entry, dict):
                    yield entry


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _line(entry: AuditEntry, now: float) -> bytes:
    moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    behalf = [_safe(other.key, MAX_NAME) for other in entry.actor.behalf]
    fields = {
        "at": moment,
        "actor": _safe(entry.actor.key, MAX_NAME) or "nobody",
        "entry": entry.actor.entry,
        "behalf": behalf,
        "action": entry.action,
        "object": _safe(entry.object, MAX_NAME),
        "where": _safe(entry.where, MAX_NAME),
        "allowed": entry.allowed,
        "rule": _safe(entry.rule, MAX_NAME),
        "result": _safe(entry.result, MAX_NAME),
        "detail": _safe(entry.detail, MAX_DETAIL),
        "turn": _safe(entry.turn, MAX_NAME),
        "tags": [_safe(tag, MAX_NAME) for tag in sorted(entry.tags)[:MAX_TAGS]],
    }
    always = ("at", "actor", "action", "object", "allowed")
    return orjson.dumps({name: value for name, value in fields.items() if value or name in always}) + b"\n"


def _safe(text: str, longest: int) -> str:
    """Mask the whole text, then cut it: half a secret would not be recognized."""
    text = revealed(mask(text)).replace("\n", "\\n")
    return text if len(text) <= longest else f"{text[:longest]}…"
