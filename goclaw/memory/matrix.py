"""An exact scan for the nearest vectors in memory, within a scope that is applied before the cut.

The only module that needs numpy and simsimd, 15 MB between them: import it when there are vectors, in a thread. All
vectors are of one model. simsimd computes products of signed bytes with the CPU's instructions for them; 100,000
vectors of 384 dimensions take 2 ms and 40 MB. Approximate indexes (graphs, cells) would save a few of those
milliseconds, and cannot apply access rights before the cut.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from threading import Lock

import numpy as np
import simsimd
from numpy.typing import NDArray

from goclaw.memory.index.schema import Scope
from goclaw.memory.index.text_vectors import Embedded

PORTION = 8_192
"""Rows allocated at once, and compared at once: 3 MB of 384 dimensions, which take 0.2 ms."""
AT_ONCE = 64
"""Vectors added at once."""
GONE = np.float32(-1.0)
"""In place of the length of a vector that was dropped."""

Numbers = NDArray[np.int64]


class Matrix:
    """Vectors of one model, with the places that they stand for.

    One thread may change it while another searches: a search sees the vectors that were there when it began, except
    possibly those removed meanwhile.
    """

    def __init__(self) -> None:
        self._portions: tuple[_Portion, ...] = ()
        self._changing = Lock()

    def __len__(self) -> int:
        return sum(portion.alive for portion in self._portions)

    def grow(self, units: Iterable[Embedded]) -> None:
        """Add vectors. One with another length than the first is skipped: it is not this model's."""
        coming = iter(units)
        with self._changing:
            while held := list(islice(coming, PORTION)):
                self._add(held)

    def drop(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Remove the vectors with places entirely within one of the ranges (first and last place)."""
        with self._changing:
            for portion in self._portions:
                portion.drop(ranges)
            self._portions = tuple(self._compact(portion) for portion in self._portions if portion.alive)

    def nearest(self, vector: bytes, scope: Scope, depth: int) -> list[tuple[int, int, float]]:
        """Return the vectors most similar to `vector`: first place, last place and cosine, the best first.

        Only vectors that stand for a place of the scope count; nothing is cut before.
        """
        query = np.frombuffer(vector, np.int8).reshape(1, -1)
        places = _Places(scope)
        best = _Best(depth)
        for portion in self._portions:
            if portion.width == query.shape[1]:
                portion.search(query, places, best)
        return best.sort()

    def _add(self, units: Sequence[Embedded]) -> None:
        width = self._portions[0].width if self._portions else len(units[0].vector)
        fitting = [unit for unit in units if len(unit.vector) == width]
        while fitting:
            if not self._portions or self._portions[-1].room == 0:
                self._portions = (*self._portions, _Portion(width))
            room = self._portions[-1].room
            self._portions[-1].add(fitting[:room])
            fitting = fitting[room:]

    def _compact(self, portion: "_Portion") -> "_Portion":
        """Return the portion, or a copy without its holes where they are the majority: running searches keep the
        original."""
        return portion if portion.alive * 2 > portion.count or portion is self._portions[-1] else portion.compact()


class _Portion:
    """A block of rows. Rows up to `count` never move; the allocated rest costs memory only when it is used."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.count = 0
        self.alive = 0
        self._rows = np.empty((PORTION, width), np.int8)
        self._lengths = np.empty(PORTION, np.float32)
        self._first = np.empty(PORTION, np.int64)
        self._span = np.empty(PORTION, np.int32)

    @property
    def room(self) -> int:
        return PORTION - self.count

    def add(self, units: Sequence[Embedded]) -> None:
        begin, end = self.count, self.count + len(units)
        # In batches: for all together, the squares alone would take four times the memory of the rows.
        for start in range(0, len(units), AT_ONCE):
            vectors = b"".join(unit.vector for unit in units[start : start + AT_ONCE])
            block = np.frombuffer(vectors, np.int8).reshape(-1, self.width)
            here = slice(begin + start, begin + start + len(block))
            self._rows[here] = block
            self._lengths[here] = np.linalg.norm(block.astype(np.float32), axis=1)
        self._first[begin:end] = [unit.first for unit in units]
        self._span[begin:end] = [unit.last - unit.first for unit in units]
        self.alive += len(units)
        self.count = end  # last: a search that runs in another thread looks no further

    def drop(self, ranges: Sequence[tuple[int, int]]) -> None:
        first, last = self._first[: self.count], self._first[: self.count] + self._span[: self.count]
        lengths = self._lengths[: self.count]
        for begin, end in ranges:
            lengths[(first >= begin) & (last <= end)] = GONE
        self.alive = int(np.count_nonzero(lengths != GONE))

    def compact(self) -> "_Portion":
        kept = np.flatnonzero(self._lengths[: self.count] != GONE)
        copy = _Portion(self.width)
        copy.count = copy.alive = len(kept)
        copy._rows[: len(kept)] = self._rows[kept]
        copy._lengths[: len(kept)] = self._lengths[kept]
        copy._first[: len(kept)] = self._first[kept]
        copy._span[: len(kept)] = self._span[kept]
        return copy

    def search(self, query: NDArray[np.int8], places: "_Places", best: "_Best") -> None:
        count = self.count
        if not count:  # begun by another thread, which has not filled it yet
            return
        first = self._first[:count]
        last = first + self._span[:count]
        lengths = self._lengths[:count]
        products = np.asarray(simsimd.cdist(query, self._rows[:count], "dot"))[0]
        # A vector of zeros is near to nothing, itself included.
        scale = lengths * np.float32(np.linalg.norm(query))
        similar = np.divide(products, scale, out=np.zeros(count), where=scale > 0)
        similar[~places.touched(first, last) | (lengths == GONE)] = -np.inf
        best.add(similar, first, last)


class _Places:
    """The places of a scope, as arrays of ranges in order."""

    def __init__(self, scope: Scope) -> None:
        ranges = np.array(scope.ranges_without(scope.but), np.int64).reshape(-1, 2)
        self._begin, self._end = ranges[:, 0], ranges[:, 1]
        if scope.only is not None:
            only = np.sort(np.fromiter(scope.only, np.int64, len(scope.only)))
            self._begin = self._end = only[self.touched(only, only)]

    def touched(self, first: Numbers, last: Numbers) -> NDArray[np.bool_]:
        """Return which of the spans of places contain one of the scope."""
        if not len(self._begin):
            return np.zeros(len(first), np.bool_)
        # Only the first range that does not end before the span needs to be compared.
        number = np.searchsorted(self._end, first)
        known = np.minimum(number, len(self._end) - 1)
        return (number < len(self._end)) & (self._begin[known] <= last)


class _Best:
    """The best results so far."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._similar = np.empty(0)
        self._first = self._last = np.empty(0, np.int64)

    def add(self, similar: NDArray[np.float64], first: Numbers, last: Numbers) -> None:
        full = len(self._similar) == self._depth
        better = np.flatnonzero(similar > (self._similar.min() if full else -np.inf))
        similar = np.concatenate((self._similar, similar[better]))
        chosen = np.argsort(-similar)[: self._depth]
        self._similar = similar[chosen]
        self._first = np.concatenate((self._first, first[better]))[chosen]
        self._last = np.concatenate((self._last, last[better]))[chosen]

    def sort(self) -> list[tuple[int, int, float]]:
        order = np.lexsort((-self._last, -self._first, -self._similar))
        columns = (self._first, self._last, self._similar)
        return list(zip(*(column[order].tolist() for column in columns), strict=True))
