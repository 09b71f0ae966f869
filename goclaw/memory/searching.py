"""From a query to places: asks the index for what `ranking` needs, within a scope.

Runs in the index's reading thread. What vectors found comes from the caller: this module needs no numpy.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date

from goclaw.memory.dates import named_times
from goclaw.memory.index.lookup import passages, phrase_places, postings
from goclaw.memory.index.schema import Shelf
from goclaw.memory.index.scope import Scope
from goclaw.memory.query_terms import match_expressions, part_expressions, sayable, term_expressions
from goclaw.memory.ranking import (
    BESIDE_NOTES,
    Ranked,
    Term,
    Wish,
    around,
    candidates,
    named_speaker,
    of_windows,
    ranked,
    weighed,
)

NEAR = 0.25
"""A meaning below this cosine has nothing to do with the query's; what is above may not either."""

_WORD = re.compile(r"\w+")


def ranked_places(
    connection: sqlite3.Connection,
    shelf: Shelf,
    query: str,
    scope: Scope,
    similar: Iterable[tuple[int, int, float]],
    today: date,
    *,
    phrase: bool = False,
) -> list[Ranked]:
    """The places of the scope that answer the query, the best first. Any text is a valid query.

    Args:
        similar: first place, last place and cosine of the vectors nearest to the query (`Matrix.nearest`); none is
            keyword search.
        today: what `yesterday` in a query is counted from.
        phrase: only where the query's very words stand, the latest first.
    """
    if phrase:
        return [Ranked(place, 1.0, 1.0, 0.0) for place in phrase_places(connection, shelf, query, scope)]
    terms = _terms(connection, shelf, query, scope)
    near = {place: cosine for place, cosine in of_windows(similar).items() if scope.has(place)}
    # A block of places may reach over the end of the scope.
    places = [place for place in candidates(terms, [near]) if scope.has(place)]
    known = passages(connection, shelf, around(places))
    said = sayable(query)
    speakers = {known[place].speaker for place in places if place in known}
    wish = Wish(named_times(said, today), named_speaker(_WORD.findall(said), speakers))
    beside = BESIDE_NOTES if shelf == "note" else 1.0
    return ranked(places, known, terms, [near], wish, scope.usual, beside)


def is_weak(hit: Ranked) -> bool:
    """Whether no term of the query stands there or beside it, and its meaning is not near: probably no answer."""
    return hit.keyword <= 0 and hit.cosine < NEAR


def _terms(connection: sqlite3.Connection, shelf: Shelf, query: str, scope: Scope) -> Sequence[Term]:
    """Where the words of the query stand, and its identifiers; where none does, words that begin so."""
    words = postings(connection, shelf, term_expressions(query), scope)
    # A part that stands nowhere takes nothing from the words; one that stands where a word does is that word.
    parts = postings(connection, shelf, part_expressions(query), scope, "parts")
    found = [*words, *(part for part in parts if part and part not in words)]
    if not any(found):
        found += postings(connection, shelf, list(match_expressions(query))[1:], scope)
    return weighed(found, scope.passages)
