"""From a query to places: reads from the index the data that `ranking` needs, within a scope; and texts of passages.

Runs in the index's reading thread. The vector hits come from the caller: this module needs no numpy. Functions that
look for words return places of a scope only; the others read the places that they are given.
"""

import json
import re
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Literal

from goclaw.common.core.records import record
from goclaw.memory.dates import moment, named_times
from goclaw.memory.index import talk
from goclaw.memory.index.schema import Corpus, Scope
from goclaw.memory.query_terms import (
    candidate_expression,
    longest_piece,
    match_expressions,
    normalise,
    part_expressions,
    sayable,
    stands_in,
    term_expressions,
)
from goclaw.memory.ranking import (
    BESIDE_NOTES,
    Ranked,
    RankedPassage,
    Term,
    Wish,
    around,
    candidates,
    named_speaker,
    of_windows,
    rank,
    weigh,
)

NEAR = 0.25
"""Meanings below this cosine are unrelated to the query; those above it may be, too."""

_WORD = re.compile(r"\w+")

RANGES_ASKED = 16
"""Up to this number of ranges are queried one by one; with more, a term is queried once and filtered by the scope."""
PHRASE_DEPTH = 500
"""Places of a phrase that are looked for: several times what any budget shows."""

_POSTINGS = "SELECT rowid FROM {corpus}_{table} WHERE {corpus}_{table} MATCH ? AND rowid BETWEEN ? AND ?"
_PASSAGES = """
SELECT place, words, told, speaker, asks FROM {corpus}_passages WHERE place IN (SELECT value FROM json_each(?))
"""
_TEXTS = """
SELECT place, row, first, last, told, speaker, heading, text FROM {corpus}_passages
WHERE place IN (SELECT value FROM json_each(?))
"""
_MATCHING = """
SELECT rowid, text FROM {corpus}_words WHERE {corpus}_words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC
"""
# `instr` instead of LIKE, because a phrase may contain LIKE's wildcards.
_CONTAINING = """
SELECT place, text FROM {corpus}_passages WHERE instr(lower(text), ?) AND place BETWEEN ? AND ? ORDER BY place DESC
"""
_FILES = "SELECT id, path FROM note_documents WHERE id IN (SELECT value FROM json_each(?))"
_SESSIONS = "SELECT id, session FROM talk_documents WHERE id IN (SELECT value FROM json_each(?))"


def ranked_places(
    connection: sqlite3.Connection,
    corpus: Corpus,
    query: str,
    scope: Scope,
    similar: Iterable[tuple[int, int, float]],
    today: date,
    *,
    phrase: bool = False,
) -> list[Ranked]:
    """Return the places of the scope that answer the query, the best first. Any text is a valid query.

    Args:
        similar: first place, last place and cosine of the vectors nearest to the query (`Matrix.nearest`); empty:
            keyword search.
        today: the day that `yesterday` in a query is counted from.
        phrase: return only places of the exact query, the latest first.
    """
    if phrase:
        return [Ranked(place, 1.0, 1.0, 0.0) for place in phrase_places(connection, corpus, query, scope)]
    terms = _weighed_terms(connection, corpus, query, scope)
    near = {place: cosine for place, cosine in of_windows(similar).items() if scope.has(place)}
    # A block of places may extend past the end of the scope.
    places = [place for place in candidates(terms, [near]) if scope.has(place)]
    known = passages(connection, corpus, around(places))
    said = sayable(query)
    speakers = {known[place].speaker for place in places if place in known}
    wish = Wish(named_times(said, today), named_speaker(_WORD.findall(said), speakers))
    beside = BESIDE_NOTES if corpus == "note" else 1.0
    return rank(places, known, terms, [near], wish, scope.usual, beside)


def is_weak(hit: Ranked) -> bool:
    """Return whether no query term occurs there or next to it, and its meaning is not near: probably no answer."""
    return hit.keyword <= 0 and hit.cosine < NEAR


def _weighed_terms(connection: sqlite3.Connection, corpus: Corpus, query: str, scope: Scope) -> Sequence[Term]:
    """Return where the query's words and identifiers occur; if none does, words with these beginnings."""
    words = postings(connection, corpus, term_expressions(query), scope)
    # A part without any place does not lower the words' scores; one with the places of a word is that word.
    parts = postings(connection, corpus, part_expressions(query), scope, "parts")
    found = [*words, *(part for part in parts if part and part not in words)]
    if not any(found):
        found += postings(connection, corpus, list(match_expressions(query))[1:], scope)
    return weigh(found, scope.passages)


Table = Literal["words", "parts"]


@record
class PassageText:
    """A passage with its text; `schema` has the columns."""

    place: int
    row: int
    first: int
    last: int
    told: float
    speaker: str
    heading: str
    text: str


def postings(
    connection: sqlite3.Connection, corpus: Corpus, expressions: Iterable[str], scope: Scope, table: Table = "words"
) -> list[list[int]]:
    """Return the places of the scope where each FTS5 expression matches, in order."""
    statement = _POSTINGS.format(corpus=corpus, table=table)
    return [_within(_matching(connection, statement, expression, scope.ranges), scope) for expression in expressions]


def passages(connection: sqlite3.Connection, corpus: Corpus, places: Iterable[int]) -> dict[int, RankedPassage]:
    """Return the passages that exist at the places, as ranking needs them."""
    rows = connection.execute(_PASSAGES.format(corpus=corpus), (json.dumps(list(places)),))
    return {
        place: RankedPassage(words, moment(told).date(), speaker, bool(asks))
        for place, words, told, speaker, asks in rows
    }


def texts(connection: sqlite3.Connection, corpus: Corpus, places: Iterable[int]) -> dict[int, PassageText]:
    """Return the texts of the passages that exist at the places."""
    rows = connection.execute(_TEXTS.format(corpus=corpus), (json.dumps(list(places)),))
    return {row[0]: PassageText(*row) for row in rows}


def documents(connection: sqlite3.Connection, corpus: Corpus, numbers: Collection[int]) -> dict[int, str]:
    """Return the path of each file, relative to its workspace, or the key of each session."""
    found = connection.execute(_FILES if corpus == "note" else _SESSIONS, (json.dumps(list(numbers)),)).fetchall()
    return dict(found) if corpus == "note" else {number: talk.session_of(name) for number, name in found}


def phrase_places(connection: sqlite3.Connection, corpus: Corpus, phrase: str, scope: Scope) -> list[int]:
    """Return where a phrase occurs, the latest first; of more than `PHRASE_DEPTH` places those of the latest documents.

    A phrase without any word is searched for in every text of the scope.
    """
    phrase = sayable(phrase)
    wanted = normalise(phrase)
    expression = candidate_expression(phrase)
    if not wanted:
        return []
    statement, asked = (_MATCHING, expression) if expression else (_CONTAINING, longest_piece(phrase))
    found: list[int] = []
    for place, text in _latest(connection, statement.format(corpus=corpus), asked, scope.ranges):
        if scope.has(place) and stands_in(wanted, normalise(text)):
            found.append(place)
            if len(found) == PHRASE_DEPTH:
                break
    told = {place: text.told for place, text in texts(connection, corpus, found).items()}
    return sorted(found, key=lambda place: (-told[place], -place))


def _matching(
    connection: sqlite3.Connection, statement: str, expression: str, ranges: Sequence[tuple[int, int]]
) -> list[int]:
    """Return the places in the ranges where an expression matches, in order."""
    if len(ranges) <= RANGES_ASKED:
        return [place for span in ranges for (place,) in connection.execute(statement, (expression, *span))]
    whole = (expression, ranges[0][0], ranges[-1][1])
    places = [place for (place,) in connection.execute(statement, whole)]
    return [
        place for first, last in ranges for place in places[bisect_left(places, first) : bisect_right(places, last)]
    ]


def _within(places: list[int], scope: Scope) -> list[int]:
    """Return the places without those that the scope excludes."""
    if scope.only is None and not scope.but:
        return places
    return [place for place in places if (scope.only is None or place in scope.only) and place not in scope.but]


def _latest(
    connection: sqlite3.Connection, statement: str, asked: str, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    for span in reversed(ranges):
        yield from connection.execute(statement, (asked, *span))
