"""Ranking of passages for a query: scores from the words, the vectors, the date and the speaker.

Pure: the caller fetches the required data from its index. In order:

    terms = weighed(postings, size)            postings: where each term of the query occurs
    places = candidates(terms, vectors)        bounded, however large the index is
    passages = …                               the index's content at `around(places)`
    hits = ranked(places, passages, terms, vectors, wish, usual)

A passage is known by its *place*, a whole number. Neighbours in a conversation have consecutive places; between two
conversations, or across a long pause, at least `REACH` places are left out. The index numbers its rows so.

It finds more than BM25 for one reason: a question and its answer are two messages, and the words of a query are spread
over both. So a term that occurs in a neighbour counts as well, as a fraction of an occurrence, *before* BM25 saturates:
the best passages are those where the terms of the query come together. Scores that are smoothed afterwards cannot
distinguish three terms around a passage from one term three times (75 % of LoCoMo's evidence in ten hits, against 79
%).

The constants were chosen on five conversations of LoCoMo and are flat: halving or doubling one costs at most 2.4
points. `benchmarks/README.md` has the figures, and how far they can be trusted.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from heapq import nlargest

from goclaw.common.core.records import record
from goclaw.memory.dates import DateRange, NamedTime, fit

REACH = 4
"""The distance up to which a neighbour counts."""
BEFORE, AFTER = 0.5, 0.3
"""The weight of a term in the next neighbour, divided by the distance. Before is more: answers follow questions."""
K1, B = 1.2, 0.75
"""BM25's saturation and length normalisation: the usual values, also FTS5's."""

KEYWORD_DEPTH = 100
"""The number of blocks of places that are scored by their words."""
WINDOW_DEPTH = 50
"""The number of vector hits that the caller passes; they are of windows (`chunks.chunk_messages`)."""
_NEXT_TO_NOTHING = 1e-6  # the weight of a term that is in half of all passages, or in more
_BLOCK = 2  # a block is 2^2 places
_NEXT_BLOCK = 0.5  # what a term in the next block counts when blocks are chosen

KEYWORD_WEIGHT = 1.0
VECTOR_WEIGHT = 0.33
"""The weight of each list of vectors, where its best hit has 1."""
DATE_WEIGHT = 0.27
SPEAKER_WEIGHT = 0.05
ASKING = 0.85
"""The factor on the score of a message that asks: a query looks for answers, not for questions."""
BESIDE_NOTES = 0.3
"""The weight of terms in the neighbours of a passage of a file, relative to messages: it mostly has a question and its
answer in itself. Worth half a point of recall within 1,000 tokens."""
SHORTNESS = 0.25
"""The exponent of a message's share of the usual length: "Thanks!" next to the right messages is no answer."""

_NEIGHBOURS = tuple((-distance, BEFORE / distance) for distance in range(1, REACH + 1)) + tuple(
    (distance, AFTER / distance) for distance in range(1, REACH + 1)
)


@record
class RankedPassage:
    """The data of a message that ranking needs."""

    words: int
    """Its length in words."""
    told: date
    speaker: str = ""
    asks: bool = False
    """Whether it ends with a question mark."""


@record
class Term:
    """A term of the query and the places where it occurs."""

    places: frozenset[int]
    weight: float
    """Its inverse document frequency."""


@record
class Wish:
    """The part of a query besides its terms and its meaning."""

    times: Sequence[NamedTime | DateRange] = ()
    speaker: str = ""
    """The one speaker that it names; empty when it names none, or several."""


@record
class Ranked:
    """A place with its score and the parts of the score."""

    place: int
    score: float
    keyword: float
    """The share of the query's terms that occur together here: 1 is about all of them in the passage itself."""
    cosine: float
    """The best similarity over the lists of vectors; 0 when no list has the place."""


def weigh(postings: Sequence[Collection[int]], size: int) -> list[Term]:
    """Return the terms of a query with their weights, from their postings among `size` passages.

    A term that occurs nowhere keeps its weight: with it, every hit answers only part of the query, and the vectors
    decide more. A term in more than half of the passages has next to none, as in FTS5.
    """
    return [Term(frozenset(places), _rarity(len(places), size)) for places in postings]


def candidates(terms: Iterable[Term], vectors: Iterable[Mapping[int, float]] = ()) -> set[int]:
    """Return the places worth scoring: those of the best blocks by words, and all vector hits.

    Some of the places may not exist: a block can extend past the end of its conversation.
    """
    blocks: dict[int, float] = {}
    for term in terms:
        for block in {place >> _BLOCK for place in term.places}:
            blocks[block] = blocks.get(block, 0.0) + term.weight
    best = nlargest(KEYWORD_DEPTH, _near(blocks).items(), key=lambda item: (item[1], item[0]))
    places = {(block << _BLOCK) + offset for block, _ in best for offset in range(1 << _BLOCK)}
    return places.union(*vectors)


def _near(blocks: Mapping[int, float]) -> dict[int, float]:
    """Return the best blocks and those next to them, with the score that they get from their neighbours.

    Such a block has as much as the worst of the best, which is at least its own score. Half of it comes from the block
    or from one next to it: a block gets no more than twice the most of the three.
    """
    enough = min(nlargest(KEYWORD_DEPTH, blocks.values()), default=0.0) / 2
    strong = [block for block, score in blocks.items() if score >= enough]
    return {
        block: blocks.get(block, 0.0) + _NEXT_BLOCK * (blocks.get(block - 1, 0.0) + blocks.get(block + 1, 0.0))
        for block in {beside for block in strong for beside in (block - 1, block, block + 1)}
    }


def around(places: Iterable[int]) -> set[int]:
    """Return the places and all neighbours within reach; some may not exist."""
    return {place + offset for place in places for offset in range(-REACH, REACH + 1)}


def of_windows(hits: Iterable[tuple[int, int, float]]) -> dict[int, float]:
    """Return similarities by place from those of windows, given as first place, last place and cosine."""
    similar: dict[int, float] = {}
    for first, last, cosine in hits:
        for place in range(first, last + 1):
            similar[place] = max(cosine, similar.get(place, cosine))
    return similar


def named_speaker(query_words: Collection[str], speakers: Iterable[str]) -> str:
    """Return the one speaker named in the query, for `Wish`; empty if it names none or several."""
    words = {word.casefold() for word in query_words}
    named = {speaker for speaker in speakers if not words.isdisjoint(speaker.casefold().split())}
    return named.pop() if len(named) == 1 else ""


def rank(
    places: Iterable[int],
    passages: Mapping[int, RankedPassage],
    terms: Sequence[Term],
    vectors: Sequence[Mapping[int, float]],
    wish: Wish,
    usual: float,
    beside: float = 1.0,
) -> list[Ranked]:
    """Return the places in order, the best first.

    Args:
        places: the places to rank; those without a passage are left out.
        passages: the passages at the places and around them.
        vectors: similarities by place, one mapping for each kind of vector (messages, windows). An empty list is
            keyword search.
        usual: the mean of `RankedPassage.words` over the index.
        beside: the weight of terms in neighbours, relative to that between messages.

    Scores are comparable within one search only.
    """
    usual = max(usual, 1.0)
    whole = sum(term.weight for term in terms) or 1.0
    lists = [_Similarities(hits) for hits in vectors if hits]
    neighbours = tuple((offset, part * beside) for offset, part in _NEIGHBOURS)
    order = []
    for place in places:
        if (passage := passages.get(place)) is None:
            continue
        keyword = _keyword(place, passages, terms, usual, neighbours) / whole
        score = KEYWORD_WEIGHT * keyword + VECTOR_WEIGHT * sum(similar.part(place) for similar in lists)
        score *= (ASKING if passage.asks else 1.0) * min(1.0, passage.words / usual) ** SHORTNESS
        score += DATE_WEIGHT * fit(wish.times, passage.told)
        score += SPEAKER_WEIGHT * (bool(wish.speaker) and passage.speaker == wish.speaker)
        cosine = max((hits.get(place, 0.0) for hits in vectors), default=0.0)
        order.append(Ranked(place, score, keyword, cosine))
    return sorted(order, key=lambda hit: (-hit.score, -hit.place))


class _Similarities:
    """The hits of one kind of vector, each relative to the best.

    A place missing from the list is at most as similar as the last one, and is given its score: lists are cut at a
    depth, and scores do not jump there.
    """

    def __init__(self, hits: Mapping[int, float]) -> None:
        self._hits = hits
        self._best = max(hits.values())
        self._last = min(hits.values())

    def part(self, place: int) -> float:
        return max(0.0, self._hits.get(place, self._last)) / self._best if self._best > 0 else 0.0


def _rarity(found: int, size: int) -> float:
    """Return BM25's inverse document frequency, as FTS5 computes it."""
    # An index counted before it grew has more hits than passages.
    missing = max(0, size - found)
    return max(math.log((missing + 0.5) / (found + 0.5)), _NEXT_TO_NOTHING)


def _keyword(
    place: int,
    passages: Mapping[int, RankedPassage],
    terms: Sequence[Term],
    usual: float,
    neighbours: Sequence[tuple[int, float]],
) -> float:
    """Return the BM25 score of a passage and the shares of its neighbours."""
    length = float(passages[place].words)
    lengths = 1.0  # as many passages, their parts counted, have that length
    for offset, part in neighbours:
        lengths += part
        if (neighbour := passages.get(place + offset)) is not None:
            length += part * neighbour.words
    stretch = K1 * (1.0 - B + B * length / (usual * lengths))
    score = 0.0
    for term in terms:
        found = term.places
        count = 1.0 if place in found else 0.0
        for offset, part in neighbours:
            if place + offset in found:
                count += part
        score += term.weight * count * (K1 + 1.0) / (count + stretch)
    return score
