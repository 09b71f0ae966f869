"""The recipes that are compared. Each takes a question and gives places, best first.

`keyword` and `full` are GoClaw's (`goclaw.memory.ranking`), in its one configuration; the rest is there to compare.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from benchmarks.recall.dataset import Question
from benchmarks.recall.index import Index
from benchmarks.recall.vectors import Found
from goclaw.memory.dates import named_times
from goclaw.memory.ranking import Wish, around, candidates, named_speaker, ranked, weighed
from goclaw.memory.words import match_expressions, term_expressions

DEPTH = 100
"""Places that a recipe gives at most: more than any figure looks at."""

ORIGINAL_HITS, ORIGINAL_FLOOR = 10, 0.30
ORIGINAL_VECTOR, ORIGINAL_KEYWORD = 0.7, 0.3
ORIGINAL_CANDIDATES = 4 * ORIGINAL_HITS
"""Of the first version of GoClaw, as its `transcript_search` has them."""

Recipe = Callable[[Index, Question, Found], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Named:
    """A recipe and what it needs."""

    search: Recipe
    vectors: bool
    """Whether it makes no sense without an embedder."""


def original(index: Index, question: Question, found: Found) -> list[int]:
    """The first version's: every word as a beginning, all of them required; the score floor after the fusion."""
    words = [re.sub("[^a-z0-9]", "", word) for word in question.text.lower().split()]
    try:
        rows = index.bm25("original", " ".join(f"{word}*" for word in words if word), ORIGINAL_CANDIDATES)
    except sqlite3.OperationalError:
        rows = []  # as there: the keyword half was silently empty
    keyword = {place: 1 / (1 + abs(score)) for place, score in rows}
    similar = dict(list(found.turns.items())[:ORIGINAL_CANDIDATES])
    scores = {
        place: ORIGINAL_VECTOR * similar.get(place, 0.0) + ORIGINAL_KEYWORD * keyword.get(place, 0.0)
        for place in {*keyword, *similar}
    }
    kept = {place: score for place, score in scores.items() if score >= ORIGINAL_FLOOR}
    return sorted(kept, key=lambda place: -kept[place])[:ORIGINAL_HITS]


def bm25(index: Index, question: Question, found: Found) -> list[int]:
    """FTS5's ranking of what has any of the words that are no stop words; speaker and date stand in the text."""
    expression = next(match_expressions(question.text), '""')
    return [place for place, _ in index.bm25("dated", expression, DEPTH)]


def vectors(index: Index, question: Question, found: Found) -> list[int]:
    """The nearest messages."""
    return list(found.turns)


def keyword(index: Index, question: Question, found: Found) -> list[int]:
    """GoClaw's recipe where no embedder answers."""
    return _goclaw(index, question, [])


def full(index: Index, question: Question, found: Found) -> list[int]:
    """GoClaw's recipe with vectors of messages and of windows."""
    return _goclaw(index, question, [found.turns, found.windows])


def _goclaw(index: Index, question: Question, similar: Sequence[Mapping[int, float]]) -> list[int]:
    terms = weighed(index.postings(term_expressions(question.text)), index.size)
    # LoCoMo's questions name no day by its distance from the day they are asked on.
    times = named_times(question.text, today=date.max)
    wish = Wish(times, named_speaker(re.findall(r"\w+", question.text), index.speakers))
    places = candidates(terms, similar)
    passages = index.passages(around(places))
    return [hit.place for hit in ranked(places, passages, terms, similar, wish, index.usual)[:DEPTH]]


RECIPES: Mapping[str, Named] = {
    "original (0.7/0.3, AND, floor)": Named(original, vectors=True),
    "BM25 alone": Named(bm25, vectors=False),
    "vectors alone": Named(vectors, vectors=True),
    "GoClaw, keyword": Named(keyword, vectors=False),
    "GoClaw, full": Named(full, vectors=True),
}
