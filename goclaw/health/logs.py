"""Logging: lines for people in the terminal, JSON lines in a file, without secrets in either.

Every module logs through the standard library; structlog renders. Records are written by a thread of their own, so
that a slow disk or terminal never holds up the event loop.

Code that works for a turn binds its ids (`structlog.contextvars`): the lanes `turn` and `session`, the dispatcher
`call` and `tool`, the outbox `delivery`. Every record made within carries them, whichever module or library logs it.
"""

import logging
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any, TextIO

import orjson
import structlog
from structlog.contextvars import get_contextvars

from goclaw.config.schema import Config
from goclaw.config.state import make_private, unusable
from goclaw.core.redact import mask, printable
from goclaw.errors import StateError

FILE_BYTES = 10_000_000
FILES_KEPT = 5
GATHER_SECONDS = 0.1
"""Delay after which ordinary records are written together: a thread that wakes for each of a turn's
lines costs the turn more than its journal. What is a warning or worse is written at once.
"""
QUIET = {
    **dict.fromkeys(("aiohttp.access", "asyncio", "httpx", "httpx2", "uvicorn", "watchfiles"), logging.WARNING),
    # They log every wrong message of an MCP server, with tracebacks; we log what matters in our own words.
    **dict.fromkeys(("client", "mcp"), logging.CRITICAL),
}
"""Libraries that log too much; at DEBUG their records are kept, too."""
SILENT = ("aiosqlite", "telegram.Bot")
"""Never below INFO: the first logs every value that is written, the second addresses that hold the token."""


def log_path(config: Config) -> Path:
    """Return the file with JSON lines; `.1` to `.5` behind it are older."""
    return config.state_dir / "logs" / "goclaw.log"


@contextmanager
def open_logs(config: Config, terminal: TextIO | None, path: Path | None = None) -> Iterator[None]:
    """Send every library's logs to the file, and to `terminal` if there is one, until the block ends.

    `path`: another file than the daemon's, for a program beside it; two must not write the same.

    What was logged inside is written when the block has ended. The state folder is made if it is missing.

    Raises:
        StateError: the file cannot be written.
    """
    path = path or log_path(config)
    make_private(config.state_dir, path.parent.name)
    try:
        file = _PrivateFile(path, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {unusable(config.state_dir, error)}") from None
    file.setFormatter(_formatter(structlog.processors.JSONRenderer(serializer=_json)))
    queue: SimpleQueue[logging.LogRecord] = SimpleQueue()
    listener = _Writer(queue, file, *_to_people(terminal))
    with closing(file):
        listener.start()
        try:
            with _root_handler(_Handover(queue), config.log_level):
                yield
        finally:
            listener.stop()


@contextmanager
def _root_handler(handler: logging.Handler, level: str) -> Iterator[None]:
    root = logging.getLogger()
    before, level_before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, quiet in QUIET.items():
        logging.getLogger(name).setLevel(logging.NOTSET if level == "DEBUG" else quiet)
    for name in SILENT:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = before
        root.setLevel(level_before)


def _to_people(terminal: TextIO | None) -> Iterator[logging.Handler]:
    if terminal is not None:
        console = logging.StreamHandler(terminal)
        console.setFormatter(_formatter(_terminal_renderer(colors=terminal.isatty())))
        yield console


class _Handover(QueueHandler):
    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        # Arguments may change before the other thread renders them: the text is made here, the rest there.
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = f"{record.msg} {record.args!r}"
        record.msg, record.args = text, None
        # So are the ids: the other thread works for no turn.
        for name, value in get_contextvars().items():
            record.__dict__.setdefault(name, value)
        return record


class _Writer(QueueListener):
    """Writes what comes, in a thread of its own: ordinary records a little later, together."""

    def __init__(self, records: SimpleQueue[logging.LogRecord], *handlers: logging.Handler) -> None:
        super().__init__(records, *handlers)
        self._records = records
        self._ending = Event()

    def dequeue(self, block: bool) -> logging.LogRecord:
        record = super().dequeue(block)
        if self._records.empty() and not self._ending.is_set() and record.levelno < logging.WARNING:
            self._ending.wait(GATHER_SECONDS)
        return record

    def stop(self) -> None:
        self._ending.set()
        super().stop()


class _PrivateFile(RotatingFileHandler):
    """The file; when the disk does not take a line, that line is lost, and the next one tries anew."""

    lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        before = self.lost
        super().emit(record)
        if before and self.lost == before:
            self.lost = 0
            words = "%d lines of the log were lost while the disk did not take them"
            super().emit(logging.LogRecord(__name__, logging.WARNING, "", 0, words, (before,), None))

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exception(), OSError | ValueError):
            return super().handleError(record)
        if not self.lost and sys.stderr:
            sys.stderr.write(f"goclaw: {self.baseFilename} cannot be written: {sys.exception()}\n")
        self.lost += 1
        # What is in its buffer would fail again, and a file whose closing failed takes nothing any more.
        stream, self.stream = self.stream, None
        with suppress(OSError, ValueError):
            if stream:
                stream.close()
        return None

    def close(self) -> None:
        with suppress(OSError):
            super().close()

    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, self.mode, encoding=self.encoding)


def _formatter(renderer: Any) -> structlog.stdlib.ProcessorFormatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            _moment,
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _without_secrets,
            renderer,
        ],
    )


def _terminal_renderer(*, colors: bool) -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=colors, pad_event_to=0, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )


def _json(event: MutableMapping[str, Any], **_: Any) -> str:
    return orjson.dumps(event).decode()


def _moment(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Set the time of the record to when it was logged, not rendered."""
    logged = datetime.fromtimestamp(event["_record"].created, UTC)
    event["timestamp"] = logged.isoformat(timespec="milliseconds")
    return event


def _without_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    harmless = (bool, int, float, type(None))
    return {
        name: value if isinstance(value, harmless) else printable(mask(str(value))) for name, value in event.items()
    }
