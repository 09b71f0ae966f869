"""`git diff`: the changed lines, without context. Each place keeps its `@@` line, each file one line of its head.

With options for context (`-U`, `-W`) or another format, git's output stays as it is.
"""

import re
from collections.abc import Sequence

from goclaw.compression.base import Family, Shown, Words, signals

_PLACE = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")
_OTHER_FORM = re.compile(
    r"-U.*|-W|-z|--unified.*|--function-context|--inter-hunk-context.*|--word-diff.*|--color.*|--ws-error.*"
    r"|--output-indicator.*|--line-prefix.*|--graph"
)
_FILE = "diff --git "


def compress(lines: Sequence[str], words: Words) -> Shown | None:
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
        elif line.startswith(_FILE):
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
    """Return the lines before the changes of a file; of its names the one that identifies it."""
    named = {line[:4] for line in lines if line.startswith(("--- ", "+++ "))}
    if named != {"--- ", "+++ "}:
        return list(lines)
    gone = "+++ /dev/null" in lines
    needless = (_FILE, "index ", *(() if gone else ("--- ",)))
    return [line for line in lines if signals(line) or not line.startswith(needless)]


FAMILY = Family("changed lines only", compress, fine=(0, 1))
