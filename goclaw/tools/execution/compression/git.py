"""Shorter output of `git status`, `git diff` and `git log`.

status: the long form made short, a line for each file. Only advice is lost.
diff: the changed lines, without context. Each place keeps its `@@` line, each file `---` and `+++`. With options
for context (`-U`, `-W`) or another format, git's output stays as it is.
log, in its usual form: a line for each commit, with the author and the day where they change. Of a few commits the
whole message stays, of many its first line. Forms that were asked for (`--oneline`, `--pretty`) are not recognised
and stay, as do lines between commits (`--stat`, `-p`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from goclaw.tools.execution.compression.base import Family, Shown, Words, signals

_SECTIONS: Mapping[str, str] = {
    "Changes to be committed:": "{} ",
    "Changes not staged for commit:": " {}",
    "Unmerged paths:": "{}",
    "Untracked files:": "??",
    "Ignored files:": "!!",
}
"""Where the letter of what happened to a file stands in the two columns of `git status --short`."""
_LETTERS: Mapping[str, str] = {
    "modified": "M",
    "new file": "A",
    "deleted": "D",
    "renamed": "R",
    "copied": "C",
    "typechange": "T",
    "both modified": "UU",
    "both added": "AA",
    "both deleted": "DD",
    "added by us": "AU",
    "added by them": "UA",
    "deleted by us": "DU",
    "deleted by them": "UD",
}
_CHANGE = re.compile(r"\t([a-z ]+):\s+(\S.*)")
_ADVICE = re.compile(r"  \(.*\bgit .*\)|(?:no changes|nothing) added to commit .*\(.*\bgit .*\)")


def compress_status(lines: Sequence[str], words: Words) -> Shown | None:
    """Return the short form; None where the long one has no section."""
    if not any(line in _SECTIONS for line in lines):
        return None
    section, shown = "", []
    for line in lines:
        if line in _SECTIONS:
            section = _SECTIONS[line]
        elif (file := _file_line(line, section)) or not (line == "" or (_ADVICE.fullmatch(line) and not signals(line))):
            shown.append(file or line)
    return Shown(shown, left_out=False)


def _file_line(line: str, section: str) -> str:
    """Return the line of a file in the short form; empty: not a file."""
    if not section or not line.startswith("\t"):
        return ""
    if "{}" not in section:
        return f"{section} {line[1:]}"
    found = _CHANGE.fullmatch(line)
    letter = found and _LETTERS.get(found[1])
    return f"{section.format(letter)} {found[2]}" if found and letter else ""


GIT_STATUS = Family("as git status --short", compress_status)


_PLACE = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")
_OTHER_FORM = re.compile(
    r"-U.*|-W|-z|--unified.*|--function-context|--inter-hunk-context.*|--word-diff.*|--color.*|--ws-error.*"
    r"|--output-indicator.*|--line-prefix.*|--graph"
)
_FILE_HEAD = "diff --git "


def compress_diff(lines: Sequence[str], words: Words) -> Shown | None:
    """Changed lines only; None where another form was asked for."""
    if any(map(_OTHER_FORM.fullmatch, words)):
        return None
    shown: list[str] = []
    head: list[str] = []
    left_out, old, new = False, 0, 0
    for line in lines:
        if old > 0 or new > 0:
            sign = line[:1]
            old, new = old - (sign in ("-", " ", "")), new - (sign in ("+", " ", ""))
            if sign in (" ", "") and not signals(line):
                left_out = True
            else:
                shown.append(line)
        elif line.startswith(_FILE_HEAD):
            shown += _head(head)
            head = [line]
        elif found := _PLACE.fullmatch(line):
            shown += [*_head(head), line]
            head, old, new = [], _count(found[1]), _count(found[2])
        elif head:
            head.append(line)
        else:
            shown.append(line)
    return Shown([*shown, *_head(head)], left_out)


def _count(given: str | None) -> int:
    return 1 if given is None else int(given[:9])


def _head(lines: Sequence[str]) -> list[str]:
    """Return the lines before the changes of a file, without those that its two names make needless."""
    named = {line[:4] for line in lines if line.startswith(("--- ", "+++ "))}
    if named != {"--- ", "+++ "}:
        return list(lines)
    return [line for line in lines if signals(line) or not line.startswith((_FILE_HEAD, "index "))]


GIT_DIFF = Family("changed lines only", compress_diff, fine=(0, 1))


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


def compress_log(lines: Sequence[str], words: Words) -> Shown | None:
    """Return a line for each commit; None where none has the usual form."""
    before, commits = _read_log(lines)
    if not commits:
        return None
    shown, last = [*before], ""
    for commit in commits:
        by = ", ".join(filter(None, (commit.author, commit.day)))
        if by and by != last:
            shown.append(f"{by}:")
            last = by
        shown += _commit_lines(commit, whole=len(commits) <= FEW)
    return Shown(shown, left_out=True)


def _read_log(lines: Sequence[str]) -> tuple[list[str], list[_Commit]]:
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
            _parse_line(line, commits[-1], in_message=in_message)
    return before, commits


def _parse_line(line: str, commit: _Commit, *, in_message: bool) -> None:
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


def _commit_lines(commit: _Commit, *, whole: bool) -> Iterator[str]:
    subject, *body = commit.message or [""]
    yield f"{commit.name}{commit.refs} {subject.strip()}".rstrip()
    yield from (line for line in body if line.strip() and (whole or signals(line)))
    yield from commit.others


GIT_LOG = Family("a line for each commit", compress_log)
