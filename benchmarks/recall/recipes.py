"""The recipes that are compared. Each takes a question and gives rows, best first, and what it would show.

`keyword` and `full` are GoClaw's own code in its one configuration; the rest is there to compare.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from benchmarks.recall.dataset import Question
from benchmarks.recall.index import Index
from benchmarks.recall.scores import BUDGETS
from goclaw.memory.base import QUOTES
from goclaw.memory.excerpts import quotes
from goclaw.memory.query_terms import match_expressions
from goclaw.memory.ranking import WINDOW_DEPTH
from goclaw.memory.searching import ranked_places

DEPTH = 100
"""Rows that a recipe gives at most: more than any figure looks at."""
MESSAGE_DEPTH = 200
"""How many hits vectors alone give."""

ORIGINAL_HITS, ORIGINAL_FLOOR = 10, 0.30
ORIGINAL_VECTOR, ORIGINAL_KEYWORD = 0.7, 0.3
ORIGINAL_CANDIDATES = 4 * ORIGINAL_HITS
"""Of the first version of GoClaw, as its `transcript_search` has them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a recipe finds."""

    rows: Sequence[int]
    """The best first."""
    shown: Mapping[int, frozenset[int]]
    """By budget in tokens the rows that would be shown."""


Recipe = Callable[[Index, Question, bytes], Answer]
"""The bytes are the question's vector; none where there is no embedder."""


@dataclass(frozen=True, slots=True)
class Named:
    """A recipe and what it needs."""

    search: Recipe
    vectors: bool
    """Whether it makes no sense without an embedder."""


def original(index: Index, question: Question, vector: bytes) -> Answer:
    """The first version's: every word as a beginning, all of them required; the score floor after the fusion."""
    words = [re.sub("[^a-z0-9]", "", word) for word in question.text.lower().split()]
    try:
        rows = index.bm25("original", " ".join(f"{word}*" for word in words if word), ORIGINAL_CANDIDATES)
    except sqlite3.OperationalError:
        rows = []  # as there: the keyword half was silently empty
    keyword = {row: 1 / (1 + abs(score)) for row, score in rows}
    similar = index.similar_messages(vector, ORIGINAL_CANDIDATES)
    scores = {
        row: ORIGINAL_VECTOR * similar.get(row, 0.0) + ORIGINAL_KEYWORD * keyword.get(row, 0.0)
        for row in {*keyword, *similar}
    }
    kept = {row: score for row, score in scores.items() if score >= ORIGINAL_FLOOR}
    return _as_they_come(index, sorted(kept, key=lambda row: -kept[row])[:ORIGINAL_HITS])


def bm25(index: Index, question: Question, vector: bytes) -> Answer:
    """FTS5's ranking of what has any of the words that are no stop words; speaker and date stand in the text."""
    expression = next(match_expressions(question.text), '""')
    return _as_they_come(index, [row for row, _ in index.bm25("dated", expression, DEPTH)])


def vectors(index: Index, question: Question, vector: bytes) -> Answer:
    """The nearest messages."""
    return _as_they_come(index, list(index.similar_messages(vector, MESSAGE_DEPTH)))


def keyword(index: Index, question: Question, vector: bytes) -> Answer:
    """GoClaw where no embedder answers."""
    return _goclaw(index, question, [])


def full(index: Index, question: Question, vector: bytes) -> Answer:
    """GoClaw with vectors of windows."""
    return _goclaw(index, question, index.windows.nearest(vector, index.scope, WINDOW_DEPTH))


def _goclaw(index: Index, question: Question, similar: Sequence[tuple[int, int, float]]) -> Answer:
    # LoCoMo's questions name no day by its distance from the day they are asked on.
    ranked = ranked_places(index.connection, "talk", question.text, index.scope, similar, date.max)
    shown = {}
    for budget in BUDGETS:
        found, _ = quotes(index.connection, ranked, index.scope, QUOTES, budget)
        shown[budget] = frozenset(line.row for quote in found for line in quote.lines)
    return Answer(list(dict.fromkeys(index.rows[hit.place] for hit in ranked))[:DEPTH], shown)


def _as_they_come(index: Index, rows: Sequence[int]) -> Answer:
    """What shows its hits in order, until one does not fit."""
    shown = {}
    for budget in BUDGETS:
        spent, fitting = 0.0, set()
        for row in rows:
            spent += index.tokens[row]
            if spent > budget:
                break
            fitting.add(row)
        shown[budget] = frozenset(fitting)
    return Answer(rows, shown)


RECIPES: Mapping[str, Named] = {
    "original (0.7/0.3, AND, floor)": Named(original, vectors=True),
    "BM25 alone": Named(bm25, vectors=False),
    "vectors alone": Named(vectors, vectors=True),
    "GoClaw, keyword": Named(keyword, vectors=False),
    "GoClaw, full": Named(full, vectors=True),
}
