"""What searches read: where terms stand, what is known of passages, their texts, and where very words stand.

Only places of a scope come out of what looks for words; the rest reads the places that it is given.
"""

import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from goclaw.memory.dates import moment
from goclaw.memory.index.schema import Shelf
from goclaw.memory.index.scope import Scope
from goclaw.memory.phrases import candidate_expression, longest_piece, plain, stands_in
from goclaw.memory.query_terms import sayable
from goclaw.memory.ranking import RankedPassage
from goclaw.records import record

RANGES_ASKED = 16
"""As many ranges are asked for one by one; of more, a term is asked for once, and what it has elsewhere is left out."""
PHRASE_DEPTH = 500
"""Places of very words that are looked for: several times what any budget shows."""

Table = Literal["words", "parts"]

_POSTINGS = "SELECT rowid FROM {shelf}_{table} WHERE {shelf}_{table} MATCH ? AND rowid BETWEEN ? AND ?"
_PASSAGES = """
SELECT place, words, told, speaker, asks FROM {shelf}_passages WHERE place IN (SELECT value FROM json_each(?))
"""
_TEXTS = """
SELECT place, row, first, last, told, speaker, heading, text FROM {shelf}_passages
WHERE place IN (SELECT value FROM json_each(?))
"""
_MATCHING = """
SELECT rowid, text FROM {shelf}_words WHERE {shelf}_words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC
"""
# `instr` instead of LIKE: what is looked for has signs, some of which LIKE reads as something else.
_CONTAINING = """
SELECT place, text FROM {shelf}_passages WHERE instr(lower(text), ?) AND place BETWEEN ? AND ? ORDER BY place DESC
"""
_FILES = "SELECT id, path FROM note_documents WHERE id IN (SELECT value FROM json_each(?))"
_SESSIONS = "SELECT id, session FROM talk_documents WHERE id IN (SELECT value FROM json_each(?))"


@record
class PassageText:
    """A passage as it is shown; `schema` has the columns."""

    place: int
    row: int
    first: int
    last: int
    told: float
    speaker: str
    heading: str
    text: str


def postings(
    connection: sqlite3.Connection, shelf: Shelf, expressions: Iterable[str], scope: Scope, table: Table = "words"
) -> list[list[int]]:
    """The places of the scope where each FTS5 expression matches, in order."""
    statement = _POSTINGS.format(shelf=shelf, table=table)
    return [_within(_matching(connection, statement, expression, scope.ranges), scope) for expression in expressions]


def passages(connection: sqlite3.Connection, shelf: Shelf, places: Iterable[int]) -> dict[int, RankedPassage]:
    """What ranking needs to know of those places that there are."""
    rows = connection.execute(_PASSAGES.format(shelf=shelf), (json.dumps(list(places)),))
    return {
        place: RankedPassage(words, moment(told).date(), speaker, bool(asks))
        for place, words, told, speaker, asks in rows
    }


def texts(connection: sqlite3.Connection, shelf: Shelf, places: Iterable[int]) -> dict[int, PassageText]:
    """Those places that there are, as they are shown."""
    rows = connection.execute(_TEXTS.format(shelf=shelf), (json.dumps(list(places)),))
    return {row[0]: PassageText(*row) for row in rows}


def documents(connection: sqlite3.Connection, shelf: Shelf, numbers: Collection[int]) -> dict[int, str]:
    """The path of each file, relative to its workspace, or the key of each session."""
    statement = _FILES if shelf == "note" else _SESSIONS
    return dict(connection.execute(statement, (json.dumps(list(numbers)),)).fetchall())


def phrase_places(connection: sqlite3.Connection, shelf: Shelf, phrase: str, scope: Scope) -> list[int]:
    """Where the very words stand, the latest first; of more than `PHRASE_DEPTH` those of the latest documents.

    A phrase that has no word is looked for in every text of the scope.
    """
    phrase = sayable(phrase)
    wanted = plain(phrase)
    expression = candidate_expression(phrase)
    if not wanted:
        return []
    statement, asked = (_MATCHING, expression) if expression else (_CONTAINING, longest_piece(phrase))
    found: list[int] = []
    for place, text in _latest(connection, statement.format(shelf=shelf), asked, scope.ranges):
        if scope.has(place) and stands_in(wanted, plain(text)):
            found.append(place)
            if len(found) == PHRASE_DEPTH:
                break
    told = {place: text.told for place, text in texts(connection, shelf, found).items()}
    return sorted(found, key=lambda place: (-told[place], -place))


def _matching(
    connection: sqlite3.Connection, statement: str, expression: str, ranges: Sequence[tuple[int, int]]
) -> list[int]:
    """The places in the ranges where an expression matches, in order."""
    if len(ranges) <= RANGES_ASKED:
        return [place for span in ranges for (place,) in connection.execute(statement, (expression, *span))]
    whole = (expression, ranges[0][0], ranges[-1][1])
    places = [place for (place,) in connection.execute(statement, whole)]
    return [
        place for first, last in ranges for place in places[bisect_left(places, first) : bisect_right(places, last)]
    ]


def _within(places: list[int], scope: Scope) -> list[int]:
    """The places without those that the scope leaves out of its ranges."""
    if scope.only is None and not scope.but:
        return places
    return [place for place in places if (scope.only is None or place in scope.only) and place not in scope.but]


def _latest(
    connection: sqlite3.Connection, statement: str, asked: str, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    for span in reversed(ranges):
        yield from connection.execute(statement, (asked, *span))
