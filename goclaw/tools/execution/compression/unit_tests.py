"""Shorter output of `pytest` and `go test`: without the tests that passed.

pytest: the failures, their places and reasons stay. In the part about failures, the code of a function before the
line that failed (`>`) goes; its errors (`E`) and its place stay, as does the output of a test.
go test: stacks without Go's own frames; at the end how many passed and failed. The forms are those of `go help test`
and of the package `testing`; `-json` is another one and stays.
"""

import re
from collections import Counter
from collections.abc import Sequence

from goclaw.tools.execution.compression.base import MAX_RECOGNISED, Family, Shown, Words, flags, signals

_PASSED = re.compile(
    r"\S.*::.* PASSED(?:\s+\[ *\d+%\])?"  # -v
    r"|\[gw\d+\](?: \[ *\d+%\])? PASSED \S.*"  # in several processes
    r"|\S+\.py [.sx]+(?:\s+\[ *\d+%\])?|[.sx]+\s+\[ *\d+%\]"
)
"""Tests without a failure. The end says how many were skipped."""
_DOTS = re.compile(r"\.+")
"""The same where no test can have printed it."""
_SURROUNDINGS = re.compile(
    r"platform \S+ -- .*|hypothesis profile '.*|(?:cachedir|rootdir|configfile|plugins|asyncio|timeout(?: \w+)?): .*"
)
_RULER = re.compile(r"=+ ([^=].*[^=]|[^=]) =+")
_TEST = re.compile(r"_+ .+ _+")
_PRINTED = re.compile(r"-{3,} ?Captured .+ -{3,}")
_BETWEEN_FRAMES = re.compile(r"(?:_ ){3,}_?")
_SOURCE = re.compile(r" {4}.*|\s*")
_LIBRARY = re.compile(r"(?:/|\.\./)\S*/(?:lib/python[\d.]+|site-packages)/\S+:\d+: in .+")
_EMPTY = re.compile(r"[\s^~]*")
"""An empty line, or marks below code."""
_ADVICE = re.compile(r"-- Docs: https?://\S+")
_ABOUT_FAILURES = ("FAILURES", "ERRORS")


def compress_pytest(lines: Sequence[str], words: Words) -> Shown | None:
    """Return failures and the summary."""
    printing = bool(flags(words) & {"-s", "--capture"})
    part, in_traceback = "", False
    shown: list[str] = []
    source: list[str] = []
    """Of a function, until it is known whether a line of it failed; of a library also the line before it."""
    for line in lines:
        if ruler := _match(_RULER, line):
            part, in_traceback = ruler[1], False
        elif part in _ABOUT_FAILURES and _match(_TEST, line) and not _match(_BETWEEN_FRAMES, line):
            in_traceback = True
        elif _match(_PRINTED, line):
            in_traceback = False
        if in_traceback and _match(_SOURCE, line):
            source.append(line)
            continue
        shown += _source(source, line) if in_traceback else source
        source = []
        if in_traceback and _match(_LIBRARY, line):
            source = [line]
            continue
        if signals(line) or not _is_needless(line, part, in_traceback=in_traceback, printing=printing):
            shown.append(_narrow(line, ruler))
    return Shown([*shown, *source], left_out=True)


def _source(lines: Sequence[str], following: str) -> list[str]:
    """Return the code to keep before a line: error lines only before a failing line (`>`) or in a library."""
    is_library = bool(lines) and _match(_LIBRARY, lines[0]) is not None
    if following.startswith(">") or (is_library and not following.startswith("E ")):
        return list(filter(signals, lines))
    return [line for line in lines if not _match(_EMPTY, line)]


def _match(form: re.Pattern[str], line: str) -> re.Match[str] | None:
    return form.fullmatch(line) if len(line) <= MAX_RECOGNISED else None


def _is_needless(line: str, part: str, *, in_traceback: bool, printing: bool) -> bool:
    if in_traceback:
        return bool(_match(_BETWEEN_FRAMES, line))
    if part in _ABOUT_FAILURES:
        return False  # printed by a test: anything
    if part == "test session starts" and (line == "" or _match(_SURROUNDINGS, line)):
        return True
    return bool(_match(_PASSED, line) or _match(_ADVICE, line) or (not printing and _match(_DOTS, line)))


def _narrow(line: str, ruler: re.Match[str] | None) -> str:
    """Return a ruler as wide as it needs to be."""
    if ruler:
        return f"= {ruler[1]} ="
    return line.strip("_").join(("_", "_")) if _match(_TEST, line) and not _match(_BETWEEN_FRAMES, line) else line


PYTEST = Family("passes left out", compress_pytest, fine=(0, 1))


_STEP = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME)\s+\S.*")
_RESULT = re.compile(r"\s*--- (PASS|FAIL|SKIP): \S.*")
_OK = re.compile(r"ok  \t\S+\t(?:\(cached\)|[\d.]+s)(?: \[no tests to run\])?|\?   \t\S+\t\[no test files\]|PASS")
_GOROUTINE = re.compile(r"goroutine \d+ (?:gp=\S+ m=\S+(?: mp=\S+)? )?\[.*\]:")
_PLACE = re.compile(r"(\t\S.*\.(?:go|s):\d+)(?: \+0x[0-9a-f]+)?")
_AFTER_STACK = re.compile(r"$|FAIL\b|ok  \t|\?   \t|--- |=== |exit status ")
_OWN = re.compile(r"\t\S*/(?:src/(?:runtime|testing|internal|reflect)/|libexec/src/)\S*:\d+.*")
"""A file of Go itself."""


_SAID = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}


def compress_go_test(lines: Sequence[str], words: Words) -> Shown | None:
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
        elif signals(line) or not _is_passed(line):
            shown.append(line)
    # A line of ours, not Go's own.
    said = ", ".join(f"{what}: {count:,}" for what, count in sorted(counts.items()))
    return Shown([*shown, *([f"[{said}]"] if said else [])], left_out=True)


def _is_passed(line: str) -> bool:
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


GO_TEST = Family("passes left out", compress_go_test, fine=(0, 1))
