"""Logging: lines for people in the terminal or the journal, JSON lines in a file, without secrets in either.

Every module logs through the standard library. A record is rendered (`log_lines`) and written (`log_file`) by a thread
of its own, so that a slow disk or terminal never holds up the event loop.

Code that works for a turn binds its ids (`structlog.contextvars`): the lanes `turn` and `session`, the dispatcher
`call` and `tool`, the outbox `delivery`. Every record made within carries them, whichever module or library logs it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TextIO

from structlog.contextvars import get_contextvars

from goclaw.common.config.schema import Config
from goclaw.common.config.state import make_private, unusable
from goclaw.common.health.journald import is_journal
from goclaw.common.health.log_file import LogFile
from goclaw.common.health.log_lines import coloured_line, event_of, journal_line, json_line, plain_line
from goclaw.errors import StateError

FILE_BYTES = 10_000_000
FILES_KEPT = 5
GATHER_SECONDS = 0.1
"""Delay after which ordinary records are written together: a thread that wakes for each of a turn's
lines costs the turn more than its journal. What is a warning or worse is written at once.
"""
MOST_WAITING = 10_000
"""Records that wait for a slow disk or terminal, some 10 MB; what comes on top of them is counted, not kept."""
WRITTEN_TOGETHER = 500
"""Records that are rendered before they are written: as many lines are in memory at most."""
FLUSH_SECONDS = 10.0
"""Maximum seconds that a shutdown waits for unwritten lines, even if a terminal hangs."""
QUIET = {
    **dict.fromkeys(("aiohttp.access", "asyncio", "httpx", "httpx2", "uvicorn", "watchfiles"), logging.WARNING),
    # They log every wrong message of an MCP server, with tracebacks; we log what matters in our own words.
    **dict.fromkeys(("client", "mcp"), logging.CRITICAL),
}
"""Libraries that log too much; at DEBUG their records are kept, too."""
SILENT = ("aiosqlite", "telegram.Bot")
"""Never below INFO: the first logs every value that is written, the second addresses that hold the token."""


def log_path(config: Config) -> Path:
    """Return the file with JSON lines; `.1` to `.5` are older."""
    return config.state_dir / "logs" / "goclaw.log"


@contextmanager
def open_logs(config: Config, terminal: TextIO | None, path: Path | None = None) -> Iterator[Callable[[], None]]:
    """Send every library's logs to the file, and to `terminal` if there is one, until the block ends.

    `path`: another file than the daemon's, for another program; two must not write the same.

    Records logged inside are written when the block has ended. The state folder is made if it is missing.

    Raises:
        StateError: the file cannot be written.
    """
    path = path or log_path(config)
    make_private(config.state_dir, path.parent.name)
    try:
        file = LogFile(path, FILE_BYTES, FILES_KEPT)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {unusable(config.state_dir, error)}") from None
    with closing(file), closing(_Writer(file, terminal)) as writer, _root_handler(writer, config.log_level):
        yield writer.reopen


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
    named = logging.logThreads, logging.logProcesses, logging.logMultiprocessing
    # No line names them, and the number of the process costs each record a system call.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        logging.logThreads, logging.logProcesses, logging.logMultiprocessing = named
        root.handlers[:] = before
        root.setLevel(level_before)


class _Writer(logging.Handler):
    """Takes records of all threads, and writes them in a thread of its own: ordinary ones a little later, together."""

    def __init__(self, file: LogFile, terminal: TextIO | None) -> None:
        super().__init__()
        self._file = file
        self._terminal = terminal
        is_colourful = terminal is not None and terminal.isatty()
        plain = journal_line if terminal and is_journal(terminal) else plain_line
        self._line_for_people = coloured_line if is_colourful else plain
        self._waiting: SimpleQueue[logging.LogRecord | Event] = SimpleQueue()
        """Records, and events that are set when all before them is written."""
        self._hurry = Event()
        self._ending = self._reopening = False
        self._left_out = self._told_left_out = 0
        """Records for which there was no room: counted where they came, told of in the thread."""
        self._thread = Thread(target=self._run, name="log writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() >= MOST_WAITING:
            self._left_out += 1
            return
        # Arguments may change before the other thread renders them: the text is made here, the rest there.
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = f"{record.msg} {record.args!r}"
        record.msg, record.args = text, None
        # So are the ids: the other thread works for no turn.
        for name, value in get_contextvars().items():
            record.__dict__.setdefault(name, value)
        self._waiting.put(record)
        if record.levelno >= logging.WARNING:
            self._hurry.set()

    def flush(self) -> None:
        """Wait until everything logged before is written."""
        if self._thread.is_alive():
            written = Event()
            self._waiting.put(written)
            self._hurry.set()
            written.wait(FLUSH_SECONDS)

    def reopen(self) -> None:
        """Write all further lines into the file that has the log's name then."""
        self._reopening = True

    def close(self) -> None:
        """Write what waits, and end the thread. The interpreter calls it where it ends within `open_logs`."""
        self._ending = True
        self._waiting.put(Event())
        self._hurry.set()
        self._thread.join(FLUSH_SECONDS)
        super().close()

    def _run(self) -> None:
        taken = 0
        while not self._ending or not self._waiting.empty():
            first = self._waiting.get()
            if taken < WRITTEN_TOGETHER:
                self._hurry.wait(GATHER_SECONDS)
            self._hurry.clear()
            together = [first]
            with suppress(Empty):
                while len(together) < WRITTEN_TOGETHER:
                    together.append(self._waiting.get_nowait())
            taken = len(together)
            self._write([record for record in together if isinstance(record, logging.LogRecord)])
            for written in together:
                if isinstance(written, Event):
                    written.set()

    def _write(self, records: list[logging.LogRecord]) -> None:
        if self._reopening:
            self._reopening = False
            self._file.reopen()
        if left_out := self._left_out - self._told_left_out:
            self._told_left_out += left_out
            records.append(_warning("lost %d log lines: they arrived faster than they could be written", left_out))
        lines = [self._lines(record) for record in records]
        lost = self._file.lost
        self._file.write(line for line, _ in lines)
        if lost and lines and lost == self._file.lost:
            told = _warning("lost %d log lines while the disk refused them", lost)
            self._file.write([self._lines(told)[0]])
            self._file.lost -= lost
        if self._terminal:
            with suppress(OSError, ValueError):  # whoever read it is gone
                self._terminal.write("".join(line for _, line in lines))
                self._terminal.flush()

    def _lines(self, record: logging.LogRecord) -> tuple[bytes, str]:
        """Return the lines for the file and for people, both of the same event."""
        try:
            event = event_of(record)
            return json_line(event), self._line_for_people(event) if self._terminal else ""
        except Exception as error:  # a supervisor: one odd value (a number that JSON has not, say) must not end the log
            return self._lines(_warning("a log line of %s cannot be formatted: %s", record.name, type(error).__name__))


def _warning(text: str, *arguments: object) -> logging.LogRecord:
    """Return a record of the log about itself."""
    return logging.LogRecord(__name__, logging.WARNING, "", 0, text, arguments, None)
