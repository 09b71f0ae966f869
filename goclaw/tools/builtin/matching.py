"""Finds the text that a model wants to replace: exactly, or so closely that only one place can be meant.

Three tiers, each tried where the one before found nothing (Goa tool system, "edit"). Nothing is changed here.

1. exact: character by character.
2. trailing white space: lines may end in other white space than the file's.
3. fuzzy: whole lines that are the same but for indentation, runs of white space and typographic signs. Of three lines
   and more, those between the first and the last may also differ a little: each is at least `LINE_LIKENESS` alike, all
   of them together `LIKENESS`, and they hold the same numbers. What replaces them is indented as the file is.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import accumulate, islice

from goclaw.common.core.records import record

LIKENESS, LINE_LIKENESS = 0.92, 0.8
"""Shares of characters in common (difflib's ratio)."""
SHORTEST = 8
"""Characters besides white space that a text for the third tier has: of fewer, too much is alike."""
MAX_PLACES = 10
"""Matches that are looked for beyond the first: a text that repeats itself has millions, each as long as the text."""
MAX_REPLACED = 100_000
"""Places of one replacement at most: each costs memory."""
_MAX_COMPARED = 2_000
"""Places that are compared letter by letter; a text that may stand in more of them has no certain place."""
_MAX_LINES = 500_000
"""Of a text in which more than exact matches are looked for: each of its lines is held several times."""
_MAX_WORK, _OF_A_LINE = 12_000_000, 50
"""The cost bound of the third tier, about two seconds: one unit for each pair of lines, and for each pair of characters
in differing lines. A thread cannot be cancelled.
"""
_SIGNS = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-"})
_NUMBER = re.compile(r"\d+")


class MatchTier(StrEnum):
    """How closely a place fits."""

    EXACT = "exact"
    TRAILING = "trailing white space"
    FUZZY = "fuzzy"


@record
class TextSpan:
    """A place in a text."""

    start: int
    end: int


@record
class Match:
    """The places that a text may have, all of one tier."""

    tier: MatchTier
    spans: Sequence[TextSpan]
    """At most `MAX_PLACES` + 1 of them, or `MAX_REPLACED` + 1 if all were wanted."""
    likeness: float = 1.0


def find(body: str, old: str, *, fuzzy: bool, every: bool = False) -> Match | None:
    """Return the places of `old` in `body` at the closest tier that has any; None: none has.

    `every`: all places that do not overlap. Otherwise overlapping ones count, too: in `aaa` the text `aa` has no
    certain place.
    """
    most = MAX_REPLACED if every else MAX_PLACES
    spans = list(islice(_exact(body, old, every=every), most + 1))
    if spans:
        return Match(MatchTier.EXACT, spans)
    if not fuzzy or not old.strip() or body.count("\n") > _MAX_LINES:
        return None
    lines = _Lines(body)
    spans = list(islice(_trailing(lines, old, every=every), most + 1))
    if spans:
        kept: list[TextSpan] = []
        for span in spans:
            if not kept or span.start >= kept[-1].end:
                kept.append(span)
        return Match(MatchTier.TRAILING, kept if every else spans)
    if len("".join(old.split())) < SHORTEST:
        return None
    return _fuzzy(lines, old)


def _exact(body: str, old: str, *, every: bool) -> Iterator[TextSpan]:
    place = body.find(old)
    while place >= 0:
        yield TextSpan(place, place + len(old))
        place = body.find(old, place + (len(old) if every else 1))


class _Lines:
    """The lines of a text, without their ends, and where they begin."""

    def __init__(self, body: str) -> None:
        self.texts: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        """Behind the line's own end."""
        start = 0
        # Line by line: one call for twenty megabytes would hold up every other thread.
        while start <= len(body):
            found = body.find("\n", start)
            end = len(body) if found < 0 else found
            self.texts.append(body[start:end].removesuffix("\r"))
            self.starts.append(start)
            self.ends.append(end if found < 0 else end + 1)
            start = end + 1


def _trailing(lines: _Lines, old: str, *, every: bool) -> Iterator[TextSpan]:
    """Yield the places where the lines are equal but for trailing white space."""
    wanted = old.replace("\r\n", "\n").split("\n")
    to_the_end = wanted[-1] != wanted[-1].rstrip()
    wanted = [line.rstrip() for line in wanted]
    if len(wanted) == 1 and not to_the_end:
        return  # nothing in it ends a line
    plain = [text.rstrip() for text in lines.texts]
    starts = [0, *accumulate(len(text) + 1 for text in plain)]
    body, part = "\n".join(plain), "\n".join(wanted)
    place = body.find(part)
    while place >= 0:
        behind, following = place + len(part), place + 1
        if not to_the_end or body[behind : behind + 1] in ("", "\n"):
            first = bisect_right(starts, place) - 1
            last = first + len(wanted) - 1
            end = len(lines.texts[last]) if to_the_end else behind - starts[last]
            yield TextSpan(lines.starts[first] + place - starts[first], lines.starts[last] + end)
            following = behind if every else following
        place = body.find(part, following)


def _fuzzy(lines: _Lines, old: str) -> Match | None:
    wanted = old.replace("\r\n", "\n").split("\n")
    ends_a_line = wanted[-1] == ""
    folded = [_normalize(line) for line in (wanted[:-1] if ends_a_line else wanted)]
    there = [_normalize(text) for text in lines.texts]
    found: list[tuple[TextSpan, float]] = []
    compared, work = 0, _Work()
    for first in range(len(there) - len(folded) + 1):
        last = first + len(folded) - 1
        if there[first] != folded[0] or there[last] != folded[-1]:
            continue
        compared += 1
        if len(found) > MAX_PLACES:
            break
        likeness = _likeness(folded, there, first, work)
        if compared > _MAX_COMPARED or work.left < 0:
            return None  # there may be more of them
        if likeness >= LIKENESS:
            end = lines.ends[last] if ends_a_line else lines.starts[last] + len(lines.texts[last])
            found.append((TextSpan(lines.starts[first], end), likeness))
    if not found:
        return None
    return Match(MatchTier.FUZZY, [span for span, _ in found], min(likeness for _, likeness in found))


@dataclass(slots=True)
class _Work:
    """How much may still be compared."""

    left: int = _MAX_WORK


def _normalize(line: str) -> str:
    return " ".join(line.translate(_SIGNS).split())


def _likeness(wanted: Sequence[str], there: Sequence[str], first: int, work: _Work) -> float:
    """Return the likeness of two rows of lines, 0 to 1; `first`: where the second one begins."""
    alike = whole = 0.0
    for number, one in enumerate(wanted, first):
        other = there[number]
        work.left -= _OF_A_LINE if one == other else len(one) * len(other)
        if work.left < 0:
            return 0.0
        weight = len(one) + len(other)
        share = 1.0 if one == other else _ratio(one, other)
        if share < LINE_LIKENESS:
            return 0.0
        alike, whole = alike + weight * share, whole + weight
    return alike / whole if whole else 0.0


def _ratio(one: str, other: str) -> float:
    """Return the likeness of two lines; different numbers are never alike."""
    if _NUMBER.findall(one) != _NUMBER.findall(other) or not one or not other:
        return 0.0
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= LINE_LIKENESS and len(one) < 2_000 else 0.0


def reindent(new: str, old: str, there: str) -> str:
    """`new` with its lines indented as `there` is, where `old` stands for `there`, line by line."""
    pairs: dict[str, str] = {}
    for one, other in zip(old.split("\n"), there.split("\n"), strict=False):
        if one.strip() and other.strip():
            pairs.setdefault(_indent(one), _indent(other))
    return "\n".join(_reindent(line, pairs) for line in new.split("\n")) if pairs else new


def _reindent(line: str, pairs: dict[str, str]) -> str:
    indent = _indent(line)
    if not line.strip():
        return line
    rest = line[len(indent) :]
    if indent in pairs:
        return pairs[indent] + rest
    nearest = max((known for known in pairs if indent.startswith(known)), key=len, default=None)
    if nearest is not None:
        return pairs[nearest] + _in_units(indent[len(nearest) :], pairs) + rest
    deeper = min((known for known in pairs if known.startswith(indent)), key=len, default=None)
    if deeper is None:
        return line  # another kind of white space than any that is known
    outer = _in_units(deeper[len(indent) :], pairs)
    return pairs[deeper].removesuffix(outer) + rest


def _in_units(indent: str, pairs: dict[str, str]) -> str:
    """White space that nothing stands for, in the file's own steps: tabs where spaces became tabs, and so on."""
    known = sorted(pairs.items(), key=lambda pair: len(pair[0]))
    # Two depths say how deep one step is; a single one says it if it is a step itself.
    ones, others = known[-1] if len(known) == 1 else (known[1][0][len(known[0][0]) :], known[1][1][len(known[0][1]) :])
    if set(ones) == {" "} and set(others) == {"\t"} and set(indent) == {" "}:
        step = max(1, len(ones) // len(others))
        return "\t" * (len(indent) // step) + " " * (len(indent) % step)
    if set(ones) == {"\t"} and set(others) == {" "} and set(indent) == {"\t"}:
        return " " * (len(others) * len(indent) // len(ones))
    return indent


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
