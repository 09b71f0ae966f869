"""Reading from the index: where terms occur, what is known of passages, their texts, and where exact phrases occur.

Functions that look for words return places of a scope only; the others read the places that they are given.
"""

import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from goclaw.memory.dates import moment
from goclaw.memory.index.schema import Corpus
from goclaw.memory.index.scope import Scope
from goclaw.memory.phrases import candidate_expression, longest_piece, plain, stands_in
from goclaw.memory.query_terms import sayable
from goclaw.memory.ranking import RankedPassage
from goclaw.records import record

RANGES_ASKED = 16
"""Up to this number of ranges are queried one by one; with more, a term is queried once and filtered by the scope."""
PHRASE_DEPTH = 500
"""Places of a phrase that are looked for: several times what any budget shows."""

Table = Literal["words", "parts"]

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
    statement = _FILES if corpus == "note" else _SESSIONS
    return dict(connection.execute(statement, (json.dumps(list(numbers)),)).fetchall())


def phrase_places(connection: sqlite3.Connection, corpus: Corpus, phrase: str, scope: Scope) -> list[int]:
    """Return where a phrase occurs, the latest first; of more than `PHRASE_DEPTH` places those of the latest documents.

    A phrase without any word is searched for in every text of the scope.
    """
    phrase = sayable(phrase)
    wanted = plain(phrase)
    expression = candidate_expression(phrase)
    if not wanted:
        return []
    statement, asked = (_MATCHING, expression) if expression else (_CONTAINING, longest_piece(phrase))
    found: list[int] = []
    for place, text in _latest(connection, statement.format(corpus=corpus), asked, scope.ranges):
        if scope.has(place) and stands_in(wanted, plain(text)):
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
