"""The audit log's files as a chain: each line has a number and the hash of the line before, over rotated files, too.

The hash of a line is that of the line with its words blanked (`blank_words`): words can be removed later, for
`/forget` and `retention.days`, and the chain still holds. The words have a hash of their own in it, with a salt that
goes with them, so that short words cannot be guessed from it. `audit_verify` checks the chain.

Several processes write (the daemon, `goclaw mcp approve` …), one at a time: the lock is `flock`'s on a file next to
them.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import orjson

from goclaw.common.core.clock import RealClock
from goclaw.common.core.records import record

NUMBER, BEFORE, SINCE, CUT, SALT, BLANKED = "n", "prev", "since", "cut", "salt", "said"
"""Fields of the chain: the line's number; the hash of the line before; in the first line of a file, the number of the
oldest line that is kept; the hash of the torn lines right before; the salt of the words' hash; that hash, once the
words are gone."""
PLACES = frozenset({"exec.connect", "resource.read"})
"""Actions whose object was chosen in a conversation: it is blanked with the words. Other objects are names of tools,
commands, people and sessions, which say who did what."""
LOCK_SECONDS = 5.0
"""Seconds for which a write waits for other processes; each of them holds the lock for milliseconds."""
_PAUSE_SECONDS = 0.002
_BLOCK = 64 << 10
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NUMBER = re.compile(rb'\{"n":([1-9][0-9]{0,17}),')
_WHERE = re.compile(rb'"where":("(?:[^"\\]|\\.)*")')
_AT = re.compile(rb'"at":"([^"]*)"')
_HAS_WORDS = re.compile(rb'"(?:detail|result|object)":')


@record
class Head:
    """The last known line of the chain."""

    number: int = 0
    """0: there is no line yet."""
    digest: str = ""


@record
class Blanking:
    """The lines to remove the words of: of some sessions, from before a moment, and with some numbers."""

    sessions: frozenset[str] = frozenset()
    before: float = 0.0
    forgotten: Mapping[str, float] = field(default_factory=dict)
    """Sessions, each up to a moment: lines since then stay."""
    numbers: frozenset[int] = frozenset()

    def wants(self, line: bytes) -> bool:
        """Whether a line, whole or torn, is one of them."""
        # Quotation marks inside of values are escaped, so these are fields.
        if any(orjson.dumps({"where": session})[1:-1] in line for session in self.sessions):
            return True
        if self.numbers and number_of(line) in self.numbers:
            return True
        found = _AT.search(line)
        at = found[1].decode(errors="replace") if found else ""
        return bool(self.before and at and at < moment(self.before)) or self._was_forgotten(line, at)

    def _was_forgotten(self, line: bytes, at: str) -> bool:
        if not self.forgotten or not (where := _WHERE.search(line)):
            return False
        with suppress(orjson.JSONDecodeError):  # of a damaged line
            until = self.forgotten.get(orjson.loads(where[1]))
            return until is not None and at <= moment(until)
        return False


BlankAudit = Callable[[Blanking], Awaitable[bool]]
"""Blanks the words of lines; False: it could not be done now."""


def moment(at: float) -> str:
    """Return a time as it stands in the lines, which sorts by time."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def digest_of(entry: Mapping[str, Any]) -> str:
    """Return the hash of a line."""
    return _hash(orjson.dumps(blank_words(entry), option=orjson.OPT_SORT_KEYS))


def blank_words(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a line of the chain without the words that were said, with their hash instead; itself if it has none."""
    words = _words(entry)
    if not words:
        return entry
    kept = {name: value for name, value in entry.items() if name not in words and name != SALT}
    return {**kept, BLANKED: _hash(orjson.dumps([entry.get(SALT), words], option=orjson.OPT_SORT_KEYS))}


def entry_of(line: bytes) -> dict[str, Any] | None:
    """Return the entry in a line; None: it is torn, or none at all."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None


def number_of(line: bytes) -> int:
    """Return the number of a chain line, or 0 for any other line."""
    found = _NUMBER.match(line)
    return int(found[1]) if found else 0


def older_files(path: Path) -> list[Path]:
    """Return the rotated files, the oldest first."""
    found = [file for file in path.parent.glob(f"{path.name}.*") if file.suffix[1:].isdecimal()]
    return sorted(found, key=lambda file: -int(file.suffix[1:]))


@contextmanager
def lock_files(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of the files until the block ends. Blocks.

    Raises:
        OSError: another process holds it for longer than `LOCK_SECONDS`, or the folder cannot be written.
    """
    lock = os.open(path.with_name("audit.lock"), _LOCK_FLAGS, 0o600)
    try:
        until = RealClock().monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if RealClock().monotonic() >= until:
                    raise OSError(errno.EBUSY, "another process keeps it locked", str(path)) from None
                Event().wait(_PAUSE_SECONDS)
        yield
    finally:
        os.close(lock)


class ChainedFiles:
    """The newest file and the older ones next to it, for writing. Every method blocks, and may raise OSError."""

    def __init__(self, path: Path, most: int, kept: int) -> None:
        """Know the files; none is opened yet.

        Args:
            path: the newest file.
            most: bytes of a file at which a new one is begun.
            kept: how many older files are kept.
        """
        self._path = path
        self._most = most
        self._kept = kept
        self._head = Head()
        self._torn = ""
        """The hash of torn lines after it."""
        self._seen = (0, 0, 0)
        """The newest file when its end was known to be `_head`: device, inode, size."""

    @property
    def head(self) -> Head:
        """The last line, as far as this process knows."""
        return self._head

    def append(self, entries: Sequence[Mapping[str, Any]]) -> list[bytes]:
        """Write entries as the next lines, all or none, and return the lines."""
        with lock_files(self._path):
            return self._append(entries)

    def resume(self, known: Head, broken: Mapping[str, Any]) -> bool:
        """Go on after the line that the database knows as the last one.

        If the files do not have that line, `broken` is written after it: so the gap is seen ever after. Returns
        whether they had it.
        """
        with lock_files(self._path):
            self._append([])
            if not known.number or self._holds(known):
                return True
            self._head = Head(max(self._head.number, known.number), known.digest)
            self._append([broken])
            return False

    def flush(self) -> Head:
        """Flush the lines of this process to the disk, and return its last one."""
        with suppress(FileNotFoundError):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
        return self._head

    def blank(self, wanted: Blanking) -> int:
        """Blank the words of lines, and return of how many."""
        changed = blank_files(self._path, wanted)
        if changed:
            self._seen = (0, 0, 0)
        return changed

    def _append(self, entries: Sequence[Mapping[str, Any]]) -> list[bytes]:
        descriptor = os.open(self._path, _FLAGS, 0o600)
        try:
            size = self._refresh(descriptor)
            lines, head = self._next(entries, empty=not size)
            if full := size > 0 and size + sum(map(len, lines)) > self._most:
                # What the database knows is on the disk (`flush`), which from now on flushes another file.
                os.fdatasync(descriptor)
                self._rotate()
            elif lines:
                self._write(descriptor, lines, size)
                self._head, self._torn = head, ""
                self._inspect(descriptor)
        finally:
            os.close(descriptor)
        return self._append(entries) if full else lines

    def _refresh(self, descriptor: int) -> int:
        """Reread the last line if another writer appended since; returns the size of the newest file."""
        seen = self._seen
        self._inspect(descriptor)
        if self._seen != seen:
            self._head, self._torn = self._last(descriptor, self._seen[2])
        return self._seen[2]

    def _inspect(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        self._seen = (status.st_dev, status.st_ino, status.st_size)

    def _next(self, entries: Sequence[Mapping[str, Any]], *, empty: bool) -> tuple[list[bytes], Head]:
        """Return the entries as lines, and the last of them. `empty`: the newest file has none yet."""
        head, lines = self._head, []
        extra: dict[str, Any] = {CUT: self._torn} if self._torn else {}
        if empty and entries and (older := older_files(self._path)):
            numbers = (number_of(line) for file in older for line in lines_of(file))
            extra[SINCE] = next(filter(None, numbers), head.number + 1)
        for entry in entries:
            line = {NUMBER: head.number + 1, BEFORE: head.digest, **extra, **entry}
            if _words(line):
                line[SALT] = secrets.token_urlsafe(12)
            lines.append(orjson.dumps(line) + b"\n")
            head, extra = Head(head.number + 1, digest_of(line)), {}
        return lines, head

    def _write(self, descriptor: int, lines: Sequence[bytes], end: int) -> None:
        data = b"".join(lines)
        # A line that a crash has cut must not swallow the next one.
        if end and os.pread(descriptor, 1, end - 1) != b"\n":
            data = b"\n" + data
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        except OSError:
            os.ftruncate(descriptor, end)
            raise

    def _rotate(self) -> None:
        for file in older_files(self._path):
            number = int(file.suffix[1:])
            if number >= self._kept:
                file.unlink()
            else:
                file.replace(self._path_of(number + 1))
        self._path.replace(self._path_of(1))

    def _path_of(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _last(self, descriptor: int, size: int) -> tuple[Head, str]:
        """Return the last line of the chain and the hash of the torn lines after it ("" without torn lines)."""
        torn: list[bytes] = []
        whole = False
        for line in self._backwards(descriptor, size):
            if number := number_of(line):
                entry = entry_of(line)
                if entry is not None:
                    return Head(number, digest_of(entry)), hash_of_torn(torn[::-1])
            whole = whole or entry_of(line) is not None
            if not whole:
                torn.append(line)
        return Head(), hash_of_torn(torn[::-1])

    def _backwards(self, descriptor: int, size: int) -> Iterator[bytes]:
        yield from lines_backwards(descriptor, size)
        for file in reversed(older_files(self._path)):
            with file.open("rb", buffering=0) as opened:
                yield from lines_backwards(opened.fileno(), os.fstat(opened.fileno()).st_size)

    def _holds(self, known: Head) -> bool:
        """Whether a line stands in the files, or stood there before those that are kept."""
        if self._head.number <= known.number:
            return self._head == known
        with self._path.open("rb", buffering=0) as file:
            for line in self._backwards(file.fileno(), os.fstat(file.fileno()).st_size):
                if 0 < number_of(line) <= known.number:
                    entry = entry_of(line)
                    return entry is not None and Head(number_of(line), digest_of(entry)) == known
        return True


def blank_files(path: Path, wanted: Blanking) -> int:
    """Blank the words of lines in the newest file and those next to it; returns of how many. Blocks.

    Raises:
        OSError: the files cannot be written, or another process keeps them locked.
    """
    with lock_files(path):
        return sum(_blank(file, wanted) for file in (*older_files(path), path))


def lacking(path: Path, lines: Mapping[int, str]) -> tuple[set[int], int]:
    """Compare lines of a chain, by number and hash, with the files. Blocks.

    Returns:
        The numbers of those that the files do not have, and the lowest number in the files; 0: they have no lines.

    Raises:
        OSError: the files cannot be read, or another process keeps them locked.
    """
    left, lowest = set(lines), 0
    with lock_files(path, shared=True):
        for line in (line for file in (*older_files(path), path) if file.exists() for line in lines_of(file)):
            if number := number_of(line):
                lowest = min(lowest or number, number)
                if number in left and (entry := entry_of(line)) is not None and digest_of(entry) == lines[number]:
                    left.discard(number)
    return left, lowest


def _blank(file: Path, wanted: Blanking) -> int:
    """Rewrite a file without the words of the wanted lines, if it has some; returns of how many lines."""
    new, changed = file.with_name("audit.tmp"), 0
    # What a kill left: it would hold the words.
    new.unlink(missing_ok=True)
    if not file.exists() or not any(_is_to_blank(line, wanted) for line in lines_of(file)):
        return 0
    try:
        with os.fdopen(os.open(new, _LOCK_FLAGS | os.O_EXCL, 0o600), "wb") as written:
            for line in lines_of(file):
                less = _without_words(line) if _is_to_blank(line, wanted) else line
                changed += less != line
                written.write(less)
            written.flush()
            os.fsync(written.fileno())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    return changed


def without_words(data: bytes, wanted: Blanking) -> bytes:
    """Return the content of a file without the words of the wanted lines; itself where it has none."""
    lines = data.splitlines(keepends=True)
    return b"".join(_without_words(line) if _is_to_blank(line, wanted) else line for line in lines)


def hash_of_torn(lines: Sequence[bytes]) -> str:
    """Return the hash of torn lines that follow each other; "": there are none."""
    return _hash(b"\n".join(lines)) if lines else ""


def lines_of(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their ends; the last may have none."""
    with file.open("rb") as lines:
        yield from lines


def lines_backwards(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield the lines of an open file without their ends, the last one first; empty ones are left out."""
    rest = b""
    while size:
        start = max(0, size - _BLOCK)
        first, *lines = (os.pread(descriptor, size - start, start) + rest).split(b"\n")
        yield from filter(None, reversed(lines))
        rest, size = first, start
    if rest:
        yield rest


def _words(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry that hold people's words: they go when it is forgotten."""
    action = entry.get("action")
    places = isinstance(action, str) and action in PLACES
    return {
        name: value
        for name, value in entry.items()
        # Of a result, one word (ok, failed) says how it ended; what follows it is an answer's or an error's.
        if name == "detail" or (name == "result" and ":" in str(value)) or (name == "object" and places)
    }


def _is_to_blank(line: bytes, wanted: Blanking) -> bool:
    if not _HAS_WORDS.search(line) or not wanted.wants(line):
        return False
    entry = entry_of(line)
    return entry is None or bool(_words(entry))


def _without_words(line: bytes) -> bytes:
    """Return a line blanked. Nothing stays of a torn one, which is no entry; one without hashes gets none."""
    entry = entry_of(line)
    if entry is None:
        return b""
    if NUMBER in entry:
        return orjson.dumps(blank_words(entry)) + b"\n"
    words = _words(entry)
    return orjson.dumps({name: value for name, value in entry.items() if name not in words}) + b"\n"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
