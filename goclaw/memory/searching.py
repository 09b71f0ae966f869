"""From a query to places: fetches from the index the data that `ranking` needs, within a scope.

Runs in the index's reading thread. The vector hits come from the caller: this module needs no numpy.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date

from goclaw.memory.dates import named_times
from goclaw.memory.index.lookup import passages, phrase_places, postings
from goclaw.memory.index.schema import Corpus
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
"""Meanings below this cosine are unrelated to the query; those above it may be, too."""

_WORD = re.compile(r"\w+")


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
    terms = _terms(connection, corpus, query, scope)
    near = {place: cosine for place, cosine in of_windows(similar).items() if scope.has(place)}
    # A block of places may extend past the end of the scope.
    places = [place for place in candidates(terms, [near]) if scope.has(place)]
    known = passages(connection, corpus, around(places))
    said = sayable(query)
    speakers = {known[place].speaker for place in places if place in known}
    wish = Wish(named_times(said, today), named_speaker(_WORD.findall(said), speakers))
    beside = BESIDE_NOTES if corpus == "note" else 1.0
    return ranked(places, known, terms, [near], wish, scope.usual, beside)


def is_weak(hit: Ranked) -> bool:
    """Return whether no query term occurs there or beside it, and its meaning is not near: probably no answer."""
    return hit.keyword <= 0 and hit.cosine < NEAR


def _terms(connection: sqlite3.Connection, corpus: Corpus, query: str, scope: Scope) -> Sequence[Term]:
    """Return where the query's words and identifiers occur; if none does, words with these beginnings."""
    words = postings(connection, corpus, term_expressions(query), scope)
    # A part without any place does not lower the words' scores; one with the places of a word is that word.
    parts = postings(connection, corpus, part_expressions(query), scope, "parts")
    found = [*words, *(part for part in parts if part and part not in words)]
    if not any(found):
        found += postings(connection, corpus, list(match_expressions(query))[1:], scope)
    return weighed(found, scope.passages)
