"""Unified diffs that are made in bounded time."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

_MAX_PAIRS = 500_000
"""Lines that changed on one side times those on the other: of more, difflib may need hours."""


def unified_diff(before: Sequence[str], after: Sequence[str], names: tuple[str, str], around: int) -> Iterator[str]:
    """Yield a unified diff with `around` lines of context; two lines with the names first, if anything changed.

    Changes are compared line by line only where that ends soon, for no thread can be stopped. Else it is one
    change from its first line to its last.
    """
    if before == after:
        return
    begin = max(0, _common(before, after) - around)
    end = max(0, _common(before[begin:][::-1], after[begin:][::-1]) - around)
    old, new = before[begin : len(before) - end], after[begin : len(after) - end]
    if len(old) * len(new) <= _MAX_PAIRS:
        groups = SequenceMatcher(None, old, new).get_grouped_opcodes(around)
    else:
        groups = iter([[("replace", 0, len(old), 0, len(new))]])
    yield from (f"--- {names[0]}", f"+++ {names[1]}")
    for group in groups:
        (_, first, _, first_new, _), (_, _, last, _, last_new) = group[0], group[-1]
        yield f"@@ -{_range(begin + first, last - first)} +{_range(begin + first_new, last_new - first_new)} @@"
        for kind, first, last, first_new, last_new in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[first:last])
                continue
            yield from (f"-{line}" for line in old[first:last])
            yield from (f"+{line}" for line in new[first_new:last_new])


def _common(some: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False))
    return sum(1 for _ in equal)


def _range(first: int, count: int) -> str:
    """Return the range as `diff -u` writes it: from 1, of no lines the one before."""
    start = first + 1 if count else first
    return str(start) if count == 1 else f"{start},{count}"
