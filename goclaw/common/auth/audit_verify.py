"""Verification of the audit log's chain: finds lines that were changed, removed, inserted or cut off at the end.

The database records the last line a few seconds late: until then, cutting off newer lines goes undetected.
An attacker who can write both the files and the database can forge a whole chain; only a copy on another machine
(`audit.sink`) protects against that.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import orjson

from goclaw.common.auth.audit_chain import (
    BEFORE,
    BLANKED,
    CUT,
    NUMBER,
    SINCE,
    Head,
    digest_of,
    entry_of,
    hash_of_torn,
    lock_files,
    older_files,
)
from goclaw.common.core.records import record

HISTORY = 10_000
"""Lines in a row that somebody inserted are told from a chain that goes on up to this number."""


@record
class Finding:
    """A place where the chain does not hold."""

    place: str
    """`file:line`."""
    text: str
    witness: str = ""
    """The line that shows it; if that one was inserted itself, nothing is shown."""


@dataclass(slots=True)
class Verified:
    """The result of a check."""

    findings: list[Finding] = field(default_factory=list)
    lines: int = 0
    """Lines of the chain."""
    begins: str = ""
    """`file:line` of the first of them; empty: there is no chain yet."""
    unchained: int = 0
    """Lines before it, which an older GoClaw wrote."""
    blanked: int = 0
    """Lines with blanked words."""
    torn: list[str] = field(default_factory=list)
    """Places of lines that a crash cut, which were no entries."""
    newer: int = 0
    """Lines that the database does not know yet."""


@record
class _Link:
    """A line of the chain."""

    number: int
    digest: str
    place: str


def verify_audit(path: Path, known: Head | None) -> Verified:
    """Check all lines that are kept. Blocks.

    Args:
        path: the newest file.
        known: the last line that the database knows, read before; None: it knows none.

    Raises:
        OSError: a file cannot be read.
    """
    check = _Check(known)
    with ExitStack() as stack:
        # Opened under the lock: what is rotated or blanked meanwhile stays as it was.
        with lock_files(path, shared=True):
            files = [file for file in (*older_files(path), path) if file.exists()]
            opened = [(file, stack.enter_context(file.open("rb"))) for file in files]
            ends = [reader.seek(0, 2) for _, reader in opened]
        for (file, reader), end in zip(opened, ends, strict=True):
            for place, line in _lines(file, reader, end):
                check.line(place, line)
    return check.end()


def _lines(file: Path, reader: BufferedReader, end: int) -> Iterator[tuple[str, bytes]]:
    reader.seek(0)
    number = 0
    while (left := end - reader.tell()) > 0:
        number += 1
        yield f"{file}:{number}", reader.readline(left)


@dataclass(slots=True)
class _Check:
    """The state of a check, between two lines."""

    known: Head | None
    result: Verified = field(default_factory=Verified)
    history: deque[_Link] = field(default_factory=lambda: deque(maxlen=HISTORY))
    first: _Link | None = None
    since: int = 1
    """The number that the first line should have: as the files were when the newest of them was begun."""
    waiting: list[tuple[str, bytes]] = field(default_factory=list)
    """Torn lines which the next line of the chain has to name."""
    of_known: _Link | None = None
    """The line with the number that the database knows."""

    def line(self, place: str, line: bytes) -> None:
        """Take the next line, with its end."""
        entry = entry_of(line)
        if entry is None:
            if line.strip():
                self.waiting.append((place, line.rstrip(b"\n")))
        elif _number(entry):
            self._check_link(place, line, entry)
        elif self.first is None:
            self.result.unchained += 1
        else:
            self._find(place, "is not part of the chain: it was inserted, or an older GoClaw wrote it")

    def end(self) -> Verified:
        """Return the findings."""
        self.result.torn += [place for place, _ in self.waiting]
        if self.first and self.first.number > self.since:
            missing = _span(self.since, self.first.number - 1)
            self._find(self.first.place, f"{missing} missing before this line", front=True)
        self.result.newer = self._compare()
        self.result.begins = self.first.place if self.first else ""
        return self.result

    def _check_link(self, place: str, line: bytes, entry: dict[str, Any]) -> None:
        link = _Link(entry[NUMBER], digest_of(entry), place)
        if self._is_stray(link, entry):
            return
        self._accept_torn(entry)
        self.result.lines += 1
        self.result.blanked += BLANKED in entry
        self.first = self.first or link
        if isinstance(since := entry.get(SINCE), int):
            self.since = since
        self.history.append(link)
        if self.known and link.number == self.known.number:
            self.of_known = link
        if orjson.dumps(entry) != line.rstrip(b"\n"):
            self._find(place, "was changed: GoClaw does not write lines like this")

    def _is_stray(self, link: _Link, entry: dict[str, Any]) -> bool:
        """Compare a line with the one before it; returns whether it was inserted itself."""
        before, last = entry.get(BEFORE), self.history[-1] if self.history else None
        if last is None or (link.number == last.number + 1 and before == last.digest):
            return False
        if link.number > last.number + 1:
            self._find(link.place, f"{_span(last.number + 1, link.number - 1)} missing before this line", link.place)
        elif link.number == last.number + 1:
            self._find(last.place, "was changed: the next line has a different hash for it", link.place)
        elif any(before == earlier.digest for earlier in self.history):
            while before != self.history[-1].digest:
                self._find_insertion(self.history.pop())
        elif len(self.history) > 1 and link.number == self.history[-2].number + 2:
            # The line between counts wrongly: its number was changed.
            self._find_insertion(last, is_changed=True)
        else:
            self._find(link.place, "was inserted")
            return True
        return False

    def _find_insertion(self, link: _Link, *, is_changed: bool = False) -> None:
        self.result.lines -= not is_changed
        # What it seemed to show of others, too, is wrong.
        findings = self.result.findings
        findings[:] = [found for found in findings if link.place not in (found.place, found.witness)]
        self._find(link.place, "was changed" if is_changed else "was inserted")

    def _accept_torn(self, entry: dict[str, Any]) -> None:
        """Accept the torn lines that this line names; others were inserted."""
        if not self.waiting:
            return
        if entry.get(CUT) == hash_of_torn([line for _, line in self.waiting]):
            self.result.torn += [place for place, _ in self.waiting]
        elif self.first is None:
            self.result.unchained += len(self.waiting)
        else:
            for place, _ in self.waiting:
                self._find(place, "was changed or inserted: it is not an entry")
        self.waiting = []

    def _compare(self) -> int:
        """Compare the end with the database's; returns how many lines are newer."""
        known, last = self.known, self.history[-1] if self.history else None
        if not known:
            return 0
        if not last or last.number < known.number:
            place = last.place if last else "the audit log"
            missing = _span(last.number + 1 if last else 1, known.number)
            self._find(place, f"{missing} missing after this line: the log was cut off here")
            return 0
        if self.of_known and self.of_known.digest != known.digest:
            place = self.of_known.place
            if all(finding.place != place for finding in self.result.findings):
                self._find(place, "was changed: the database knows a different line")
        return last.number - known.number

    def _find(self, place: str, text: str, witness: str = "", *, front: bool = False) -> None:
        findings = self.result.findings
        findings.insert(0 if front else len(findings), Finding(place, text, witness))


def _number(entry: dict[str, Any]) -> int:
    number = entry.get(NUMBER)
    return number if type(number) is int and number > 0 else 0


def _span(first: int, last: int) -> str:
    return f"line {first} of the chain is" if first == last else f"lines {first} to {last} of the chain are"
