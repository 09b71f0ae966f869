"""The places a search may see. It is applied before results are cut, so that no other user's hits take their room."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from goclaw.records import record


@record
class Scope:
    """Places in one corpus."""

    ranges: Sequence[tuple[int, int]]
    """First and last places, in order and without overlaps."""
    passages: int
    words: int
    """The number of words in them, for term weights and the mean length; approximate where times limit them."""
    only: frozenset[int] | None = None
    """Of these, only those places; None: all."""
    but: frozenset[int] = frozenset()
    """Excluded places."""

    @property
    def usual(self) -> float:
        """Return the mean number of words of a passage."""
        return self.words / self.passages if self.passages else 0.0

    def has(self, place: int) -> bool:
        """Return whether the place belongs to it."""
        number = bisect_right(self.ranges, place, key=_first) - 1
        return (
            number >= 0
            and place <= self.ranges[number][1]
            and (self.only is None or place in self.only)
            and place not in self.but
        )

    def ranges_without(self, places: Collection[int]) -> list[tuple[int, int]]:
        """Return the ranges, split at each of the places."""
        result: list[tuple[int, int]] = []
        holes = sorted(places)
        for first, last in self.ranges:
            for hole in holes[bisect_left(holes, first) : bisect_right(holes, last)]:
                if first < hole:
                    result.append((first, hole - 1))
                first = hole + 1
            if first <= last:
                result.append((first, last))
        return result


NOTHING = Scope((), 0, 0)


def _first(span: tuple[int, int]) -> int:
    return span[0]


def merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in order, those that touch joined."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result
