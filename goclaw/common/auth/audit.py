"""The audit log: who did what, where, the rule that allowed or denied it, and how it ended. Append-only.

JSON lines in a file of the state folder, apart from the log, because people read it for another reason and keep it
longer. It holds decisions, never conversations: of a tool call the beginning of its arguments, masked.

The lines are a chain (`audit_chain`), and the database knows the last one (`FACT`): it is updated some seconds after a
line, and at the end, when that line is on the disk. So after `kill -9` or a power cut the database may lag the files,
but is never ahead of them: lines that it knows and the files have not were taken away.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from goclaw.common.auth.audit_chain import Blanking, ChainedFiles, Head, entry_of, lines_of, moment, older_files
from goclaw.common.auth.syslog import Syslog
from goclaw.common.config.policies import AuditSettings
from goclaw.common.config.schema import Config
from goclaw.common.config.state import Facts, make_private
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, reveal
from goclaw.common.core.supervise import background
from goclaw.errors import DiskError, StateError

log = logging.getLogger(__name__)

MAX_DETAIL = 300
"""Characters of a call's arguments that are kept: enough to know which file or command it was."""
MAX_NAME = 200
MAX_TAGS = 20
"""Tags of a tool that are kept."""
RETRY_SECONDS = 5.0
FACT = "audit head"
"""The daemon's fact that has the last line of the chain: `{"number": 5, "digest": "…"}`. Of several chains in one
database each but the first has its name behind a ":"."""
HEAD_SECONDS = 5.0
"""Seconds after a line until the database knows it: a flush and a small transaction, however many lines there were."""
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
    """Takes entries at any time; `open_audit` writes them in the background."""

    def __init__(
        self, path: Path, settings: AuditSettings, clock: Clock, chain: Callable[[], str] = lambda: ""
    ) -> None:
        """`chain`: returns the name of the chain among those of the database."""
        self._chain = chain
        self._path = path
        self._settings = settings
        self._clock = clock
        self._files = ChainedFiles(path, settings.file_mb << 20, settings.files)
        self._syslog = Syslog(settings.syslog) if settings.sink == "syslog" else None
        self._waiting: list[Mapping[str, Any]] = []
        self._dropped = 0
        self._news = asyncio.Event()
        self._grown = asyncio.Event()
        """Set when there are lines that the database does not know."""
        self._flushing = asyncio.Lock()

    def record(self, entry: AuditEntry) -> None:
        """Remember an entry; it is on its way to the disk when this returns."""
        if not self._settings.enabled:
            return
        self._waiting.append(_fields(entry, self._clock.now()))
        self._news.set()
        if len(self._waiting) > MAX_WAITING:
            self._dropped += len(self._waiting) - MAX_WAITING
            del self._waiting[:-MAX_WAITING]

    def try_out(self) -> None:
        """Raise OSError if the file cannot be written."""
        self._files.append([])

    async def resume(self, facts: Facts) -> None:
        """Go on after the line that the database knows. If it is gone, a line and the log say so."""
        known = head_of(await facts.fact(fact_of(self._chain()))) or Head()
        why = f"line {known.number:,} of the chain, which the database knows, is not in the files"
        gone = AuditEntry("audit.broken", self._path.name, Actor("", ""), allowed=False, rule=why)
        if not await asyncio.to_thread(self._files.resume, known, _fields(gone, self._clock.now())):
            log.error("the audit log %s was changed or cut off: `goclaw audit verify` says where", self._path)
        if self._files.head != known:
            self._grown.set()

    async def write_forever(self) -> None:
        """Write incoming entries until cancelled; a disk that takes nothing is tried again."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.flush()

    async def publish_forever(self, facts: Facts) -> None:
        """Publish the last line until cancelled, some seconds after each new one."""
        while True:
            await self._grown.wait()
            await self._clock.sleep(HEAD_SECONDS)
            with suppress(OSError, DiskError):  # it is tried again, and who writes the files and database tells of it
                await self.publish(facts)

    async def publish(self, facts: Facts) -> None:
        """Record the last line on the disk in the database, if it is a new one.

        Raises:
            DiskError, OSError: the database or the disk refuses it. It is not told then.
        """
        if not self._grown.is_set():
            return
        self._grown.clear()
        try:
            async with self._flushing:
                head = await asyncio.to_thread(self._files.flush)
            await facts.learn(fact_of(self._chain()), {"number": head.number, "digest": head.digest})
        except (OSError, DiskError):
            self._grown.set()
            raise

    async def flush(self) -> None:
        """Write the waiting entries, once the current write is done. A failure is logged, and the entries stay."""
        async with self._flushing:
            await self._write_all()

    async def blank(self, wanted: Blanking) -> bool:
        """Blank the words of lines; False: it could not be done now, and the log says why."""
        async with self._flushing:
            try:
                count = await asyncio.to_thread(self._files.blank, wanted)
            except OSError as error:
                log.error("words in the audit log %s cannot be blanked: %s", self._path, error.strerror)
                return False
        if count:
            log.info("the words of %d lines of the audit log were blanked", count)
        return True

    async def _write_all(self) -> None:
        while self._waiting:
            entries, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._append, entries)
                self._grown.set()
            except OSError as error:
                log.error("the audit log %s cannot be written: %s", self._path, error.strerror)
                self._waiting = entries + self._waiting
                await self._clock.sleep(RETRY_SECONDS)
            except asyncio.CancelledError:
                # The thread goes on by itself; what it may not have got to is better there twice than never.
                self._waiting = entries + self._waiting
                raise
        if self._dropped:
            log.error("%d entries of the audit log were lost while it could not be written", self._dropped)
            self._dropped = 0

    def _append(self, entries: list[Mapping[str, Any]]) -> None:
        lines = self._files.append(entries)
        if self._syslog:
            self._syslog.send(lines)


def audit_path(config: Config) -> Path:
    """Return the newest file; `.1` and on are older."""
    return config.state_dir / "logs" / "audit.jsonl"


def fact_of(chain: str) -> str:
    """Return the name of the fact that has the last line of a chain."""
    return f"{FACT}:{chain}" if chain else FACT


def head_of(fact: Any) -> Head | None:
    """Return the last line as the database knows it; None: it knows none."""
    match fact:
        case {"number": int(number), "digest": str(digest)} if number > 0:
            return Head(number, digest)
    return None


@asynccontextmanager
async def open_audit(
    config: Config, clock: Clock, facts: Facts | None = None, chain: Callable[[], str] = lambda: ""
) -> AsyncIterator[Audit]:
    """Open the audit log until the block ends. All records made inside are written by then.

    `facts`: where the last line is kept a second time; None: this process does not have the database. `chain`: returns
    the name of the chain there.

    Raises:
        StateError: the file cannot be written.
    """
    path = audit_path(config)
    make_private(config.state_dir, path.parent.name)
    audit = Audit(path, config.audit, clock, chain)
    facts = facts if config.audit.enabled else None
    if config.audit.enabled:
        try:
            await asyncio.to_thread(audit.try_out)
            if facts:
                await audit.resume(facts)
        except OSError as error:
            raise StateError(f"{path}: cannot be written: {error.strerror}") from None
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(background(audit.write_forever(), "audit log"))
        if facts:
            await stack.enter_async_context(background(audit.publish_forever(facts), "end of the audit log"))
        try:
            yield audit
        finally:
            await _close(audit, facts)


async def _close(audit: Audit, facts: Facts | None) -> None:
    try:
        async with asyncio.timeout(RETRY_SECONDS):
            await audit.flush()
            if facts:
                await audit.publish(facts)
    except TimeoutError:
        log.error("the last entries of the audit log could not be written")
    except (OSError, DiskError) as error:
        log.warning("the database does not know the last entries of the audit log: %s", error)


def read_audit(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield every entry that is kept, the oldest first. A line that was cut by a crash is passed over."""
    for file in (*older_files(path), path):
        if file.exists():
            yield from filter(None, map(entry_of, lines_of(file)))


def _fields(entry: AuditEntry, now: float) -> Mapping[str, Any]:
    """Return the content of a line, apart from the chain."""
    fields = {
        "at": moment(now),
        "actor": _safe(entry.actor.key, MAX_NAME) or "nobody",
        "entry": entry.actor.entry,
        "behalf": [_safe(other.key, MAX_NAME) for other in entry.actor.behalf],
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
    return {name: value for name, value in fields.items() if value or name in always}


def _safe(text: str, longest: int) -> str:
    """Mask the whole text, then cut it: half a secret would not be recognized."""
    text = reveal(mask(text)).replace("\n", "\\n")
    return text if len(text) <= longest else f"{text[:longest]}…"
