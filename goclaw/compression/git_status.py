"""`git status`: the long form made short, a line for each file. Nothing is lost but advice."""

import re
from collections.abc import Mapping, Sequence

from goclaw.compression.base import Family, Shown, Words, signals

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


def compress(lines: Sequence[str], words: Words) -> Shown | None:
    """Return the short form; None where the long one has no section."""
    if not any(line in _SECTIONS for line in lines):
        return None
    section, shown = "", []
    for line in lines:
        if line in _SECTIONS:
            section = _SECTIONS[line]
        elif (file := _file(line, section)) or not (line == "" or (_ADVICE.fullmatch(line) and not signals(line))):
            shown.append(file or line)
    return Shown(shown, left_out=False)


def _file(line: str, section: str) -> str:
    """Return the line of a file in the short form; empty: not a file."""
    if not section or not line.startswith("\t"):
        return ""
    if "{}" not in section:
        return f"{section} {line[1:]}"
    found = _CHANGE.fullmatch(line)
    letter = found and _LETTERS.get(found[1])
    return f"{section.format(letter)} {found[2]}" if found and letter else ""


FAMILY = Family("as git status --short", compress)
