"""`cat`, `head`, `tail`: repeated lines once, with their number. Lines are numbered where that still saves something.

Numbers are those of the file, so only for one file from a known line on. No shown line is cut, because the file was
asked for to be read.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from goclaw.compression.base import Family, Shown, Words

REPEATED = 4
"""Times from which on a line is not said again."""
_FROM = re.compile(r"(?:-n|--lines=)?\+(\d{1,9})")
_COUNT = re.compile(r"-n\d*|-\d+|--lines=\d+")


def compress(lines: Sequence[str], words: Words) -> Shown | None:
    """Remove repetitions; None where there are none."""
    runs = [(line, len(list(same))) for line, same in groupby(lines)]
    if all(count < REPEATED for _, count in runs):
        return None
    first = _first(words)
    bare = list(_once(runs, None))
    numbered = bare if first is None else list(_once(runs, first))
    return Shown(numbered if _length(numbered) < _length(lines) else bare, left_out=False)


def _once(runs: Sequence[tuple[str, int]], first: int | None) -> Iterator[str]:
    number = first or 0
    for line, count in runs:
        shown = count if count < REPEATED else 1
        yield from (line if first is None else f"{number + each}\t{line}" for each in range(shown))
        if shown < count:
            yield f"[the same {count - shown:,} more times]"
        number += count


def _first(words: Words) -> int | None:
    """Return the number of the first shown line; None: unknown, or the output has numbers."""
    command, *rest = words
    files = [word for word in rest if not word.startswith(("-", "+"))]
    options = [word for word in rest if word.startswith(("-", "+"))]
    match command:
        case "cat" if not options and len(files) == 1:
            return 1
        case "head" if all(map(_COUNT.fullmatch, options)) and len(files) == 1 + ("-n" in options):
            return 1
        case "tail" if len(files) == 1 and (found := _FROM.fullmatch("".join(options))):
            return int(found[1])
    return None


def _length(lines: Sequence[str]) -> int:
    return sum(map(len, lines)) + len(lines)


FAMILY = Family("repeated lines once", compress)
