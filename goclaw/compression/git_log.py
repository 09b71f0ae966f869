"""`git log` in its usual form: a line for each commit, with the author and the day where they change.

Of a few commits the whole message stays, of many its first line. Forms that were asked for (`--oneline`, `--pretty`)
are not recognised and stay, as does what stands between commits (`--stat`, `-p`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from goclaw.compression.base import Family, Shown, Words, signals

FEW = 5
"""Commits that are read one by one."""
_COMMIT = re.compile(r"commit ([0-9a-f]{40})( \(.*\))?")
_HASH = 10
"""Characters by which git finds a commit in repositories of any size."""
_AUTHOR = re.compile(r"Author: (.+?) <[^<>]*>")
_DATE = re.compile(r"Date:   [A-Z][a-z]{2} ([A-Z][a-z]{2} \d{1,2}) [\d:]{8} (\d{4}) [+-]\d{4}")
_MERGE = re.compile(r"Merge: [0-9a-f ]+")
_INDENT = "    "


@dataclass(slots=True)
class _Commit:
    name: str
    refs: str
    author: str = ""
    day: str = ""
    message: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Whatever else is said of it, as it stands there."""


def compress(lines: Sequence[str], words: Words) -> Shown | None:
    """Return a line for each commit; None where none has the usual form."""
    before, commits = _read(lines)
    if not commits:
        return None
    shown, last = [*before], ""
    for commit in commits:
        by = ", ".join(filter(None, (commit.author, commit.day)))
        if by and by != last:
            shown.append(f"{by}:")
            last = by
        shown += _lines(commit, whole=len(commits) <= FEW)
    return Shown(shown, left_out=True)


def _read(lines: Sequence[str]) -> tuple[list[str], list[_Commit]]:
    """Return the lines before the first commit, and the commits."""
    before: list[str] = []
    commits: list[_Commit] = []
    in_message = False
    for line in lines:
        if found := _COMMIT.fullmatch(line):
            commits.append(_Commit(found[1][:_HASH], found[2] or ""))
            in_message = True
        elif not commits:
            before.append(line)
        else:
            in_message = in_message and (line == "" or line.startswith(_INDENT) or not commits[-1].message)
            _take(line, commits[-1], in_message=in_message)
    return before, commits


def _take(line: str, commit: _Commit, *, in_message: bool) -> None:
    if in_message and not commit.message and not signals(line):
        if found := _AUTHOR.fullmatch(line):
            commit.author = found[1]
            return
        if found := _DATE.fullmatch(line):
            commit.day = f"{found[1]} {found[2]}"
            return
        if _MERGE.fullmatch(line):
            return
    if in_message and line.startswith(_INDENT):
        commit.message.append(line)
    elif line:
        commit.others.append(line)


def _lines(commit: _Commit, *, whole: bool) -> Iterator[str]:
    subject, *body = commit.message or [""]
    yield f"{commit.name}{commit.refs} {subject.strip()}".rstrip()
    yield from (line for line in body if line.strip() and (whole or signals(line)))
    yield from commit.others


FAMILY = Family("a line for each commit", compress)
