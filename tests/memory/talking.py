"""Conversations on a corpus in memory, for tests of what reads them."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

from goclaw.memory.index.schema import SCHEMA, Corpus, Scope, merge, place_of, places_of
from goclaw.memory.query_terms import extra_terms, parts_terms, word_count

NOON = 1_773_835_200.0
"""18 March 2026."""


@contextmanager
def corpora() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA)
        yield connection


def say(connection: sqlite3.Connection, session: int, texts: Sequence[str], first: int = 0) -> list[int]:
    """Put messages like `Anna: Hello` into a session that begins a day after the one before; returns their places."""
    connection.execute(
        "INSERT OR IGNORE INTO talk_documents VALUES (?, ?, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)", (session, f"s{session}")
    )
    places = [place_of(session, first + number) for number in range(len(texts))]
    for number, (place, line) in enumerate(zip(places, texts, strict=True)):
        speaker, _, text = line.rpartition(": ")
        passage(connection, "talk", place, text, NOON + session * 86_400 + number, speaker=speaker)
    return places


def passage(
    connection: sqlite3.Connection,
    corpus: Corpus,
    place: int,
    text: str,
    told: float = NOON,
    *,
    speaker: str = "",
    heading: str = "",
    lines: tuple[int, int] = (0, 0),
) -> None:
    """Put one passage; a message's row is its place."""
    columns = (
        "place",
        "row",
        "turn",
        "first",
        "last",
        "told",
        "speaker",
        "words",
        "asks",
        "heading",
        "text",
        "extra",
        "parts",
    )
    row = place if corpus == "talk" else 0
    values = (place, row, "", *lines, told, speaker, word_count(text), text.endswith("?"), heading, text)
    connection.execute(
        f"INSERT INTO {corpus}_passages ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",  # noqa: S608 - ours
        (*values, " ".join(extra_terms(text)), " ".join(parts_terms(text))),
    )


def scope_of(connection: sqlite3.Connection, sessions: Iterable[int], only: frozenset[int] | None = None) -> Scope:
    """What a search in these sessions may look at."""
    ranges = merge(places_of(session) for session in sessions)
    rows = [
        words
        for first, last in ranges
        for (words,) in connection.execute("SELECT words FROM talk_passages WHERE place BETWEEN ? AND ?", (first, last))
    ]
    return Scope(ranges, len(rows), sum(rows), only)
