"""`go test`: without the tests that passed, stacks without Go's own frames; at the end how many passed and failed.

The forms are those of `go help test` and of the package `testing`; `-json` is another one and stays.
"""

import re
from collections import Counter
from collections.abc import Sequence

from goclaw.compression.base import MAX_RECOGNISED, Family, Shown, Words, signals

_STEP = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME)\s+\S.*")
_RESULT = re.compile(r"\s*--- (PASS|FAIL|SKIP): \S.*")
_PACKAGE = re.compile(r"(ok  |\?   |---)\s*\t.*|FAIL\t\S.*")
_OK = re.compile(r"ok  \t\S+\t(?:\(cached\)|[\d.]+s)(?: \[no tests to run\])?|\?   \t\S+\t\[no test files\]|PASS")
_GOROUTINE = re.compile(r"goroutine \d+ (?:gp=\S+ m=\S+(?: mp=\S+)? )?\[.*\]:")
_PLACE = re.compile(r"(\t\S.*\.(?:go|s):\d+)(?: \+0x[0-9a-f]+)?")
_AFTER_STACK = re.compile(r"$|FAIL\b|ok  \t|\?   \t|--- |=== |exit status ")
_OWN = re.compile(r"\t\S*/(?:src/(?:runtime|testing|internal|reflect)/|libexec/src/)\S*:\d+.*")
"""A file of Go itself."""


_SAID = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def compress(lines: Sequence[str], words: Words) -> Shown | None:
    """Return failures and the sum."""
    if "-json" in words or "--json" in words:
        return None
    counts: Counter[str] = Counter()
    shown: list[str] = []
    in_stack = False
    for line in lines:
        if len(line) > MAX_RECOGNISED:
            shown.append(line)
            continue
        in_stack = bool(_GOROUTINE.fullmatch(line)) or (in_stack and not _AFTER_STACK.match(line))
        _count(line, counts)
        if in_stack:
            _add_frame(line, shown)
        elif signals(line) or not _is_needless(line):
            shown.append(line)
    return Shown([*shown, *_sum(counts)], left_out=True)


def _is_needless(line: str) -> bool:
    if _STEP.fullmatch(line) or _OK.fullmatch(line):
        return True
    found = _RESULT.fullmatch(line)
    return bool(found and found[1] == "PASS")


def _add_frame(line: str, shown: list[str]) -> None:
    """Add a line of a stack. Of Go's own frames the function before it is removed as well."""
    if _OWN.fullmatch(line) and not signals(line):
        if shown and not shown[-1].startswith("\t") and not _GOROUTINE.fullmatch(shown[-1]) and not signals(shown[-1]):
            shown.pop()
        return
    place = _PLACE.fullmatch(line)
    shown.append(place[1] if place and not signals(line) else line)


def _count(line: str, counts: Counter[str]) -> None:
    if found := _RESULT.fullmatch(line):
        counts[f"tests {_SAID[found[1]]}"] += 1
    elif line.startswith("ok  \t"):
        counts["packages ok"] += 1
    elif line.startswith("FAIL\t"):
        counts["packages failed"] += 1
    elif line.startswith("?   \t"):
        counts["packages without tests"] += 1


def _sum(counts: Counter[str]) -> list[str]:
    """Return a line with the counts, which is not Go's own."""
    said = ", ".join(f"{what}: {count:,}" for what, count in sorted(counts.items()))
    return [f"[{said}]"] if said else []


FAMILY = Family("passes left out", compress, fine=(0, 1))
