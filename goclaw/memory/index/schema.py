"""The tables of the index, the places of passages, and the places that a search may see (`Scope`).

The tables are two corpora of one form: `note` for memory files, `talk` for conversations. A passage is known by its
place, a whole number: the id of its document (a file, a session), then its position there. Neighbours have consecutive
places; `ranking` says where places are left out. Numbers of documents are never reused. A scope is applied before
results are cut, so that no other user's hits take their room.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from operator import itemgetter
from typing import Literal

from goclaw.common.core.records import record

Corpus = Literal["note", "talk"]

SCHEMA_VERSION = 3
"""Raise it when the tables, the splitting of passages or the extra terms change: the file is then rebuilt."""
NEWEST_MARK = "\x1fnewest"
"""Ends the name of a document with the newest messages of a session, while a backlog is indexed (`talk`)."""

POSITION_BITS = 24
"""Positions of one document: 16 million passages are some 300 years of a busy conversation."""

_DOCUMENTS = """
CREATE TABLE note_documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace TEXT NOT NULL,
    path TEXT NOT NULL,
    owner TEXT NOT NULL,      -- an actor's key; empty: everybody's
    modified REAL NOT NULL,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    lines INTEGER NOT NULL,
    passages INTEGER NOT NULL,
    words INTEGER NOT NULL,   -- of all its passages
    UNIQUE (workspace, path)
);
CREATE TABLE talk_documents (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL UNIQUE,
    first_row INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    last_at REAL NOT NULL,    -- when its last message was said: epoch seconds
    orderly INTEGER NOT NULL, -- no message was said before the one that stands before it: nobody set the clock back
    next_position INTEGER NOT NULL,
    passages INTEGER NOT NULL,
    words INTEGER NOT NULL,
    open_unit INTEGER NOT NULL,  -- the window that still grows; 0: there is none
    seam_place INTEGER NOT NULL, -- `chunks.Seam` of that window; -1: there is none
    seam_piece INTEGER NOT NULL,
    seam_repeated INTEGER NOT NULL
);
CREATE TABLE talk_senders (
    document INTEGER NOT NULL,
    sender TEXT NOT NULL,     -- an actor's key
    PRIMARY KEY (document, sender)
) WITHOUT ROWID;
CREATE TABLE talk_speakers (
    id INTEGER PRIMARY KEY,
    sender TEXT NOT NULL,     -- an actor's key; empty: GoClaw, a tool
    name TEXT NOT NULL,       -- as in `talk_passages.speaker`
    UNIQUE (sender, name)
);
CREATE TABLE talk_spoken (
    speaker INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (speaker, place)
) WITHOUT ROWID;
CREATE TABLE models (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    spec TEXT NOT NULL DEFAULT '',  -- what opens its embedder: `memory.embedder` without `auto`
    serving INTEGER NOT NULL DEFAULT 0  -- its vectors are what searches use
);
CREATE TABLE vectors (
    sha256 BLOB NOT NULL,     -- of the text that was embedded: a text that moves keeps its vector
    model INTEGER NOT NULL,
    vector BLOB NOT NULL,     -- one signed byte per dimension
    PRIMARY KEY (sha256, model)
) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""

_SHELF = """
CREATE TABLE {corpus}_passages (
    place INTEGER PRIMARY KEY,
    row INTEGER NOT NULL,     -- number of the message; 0 in a file
    turn TEXT NOT NULL,       -- that the message belongs to; empty in a file
    first INTEGER NOT NULL,   -- line of a file, counted from 1; character of a message, from 0
    last INTEGER NOT NULL,    -- the last line; the character behind the last
    told REAL NOT NULL,       -- when it was said or the file changed: epoch seconds
    speaker TEXT NOT NULL,    -- a name as people say it; empty in a file
    words INTEGER NOT NULL,
    asks INTEGER NOT NULL,    -- it ends with a question mark
    heading TEXT NOT NULL,    -- the headings above it; what a tool did
    text TEXT NOT NULL,
    extra TEXT NOT NULL,      -- `words.extra_terms`
    parts TEXT NOT NULL       -- identifiers, addresses: found by any three characters in a row
);
CREATE VIRTUAL TABLE {corpus}_words USING fts5 (
    heading, text, extra, content = {corpus}_passages, content_rowid = place,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE {corpus}_parts USING fts5 (
    parts, content = {corpus}_passages, content_rowid = place, tokenize = 'trigram'
);
CREATE TRIGGER {corpus}_added AFTER INSERT ON {corpus}_passages BEGIN
    INSERT INTO {corpus}_words (rowid, heading, text, extra) VALUES (new.place, new.heading, new.text, new.extra);
END;
CREATE TRIGGER {corpus}_added_parts AFTER INSERT ON {corpus}_passages WHEN new.parts != '' BEGIN
    INSERT INTO {corpus}_parts (rowid, parts) VALUES (new.place, new.parts);
END;
CREATE TRIGGER {corpus}_removed AFTER DELETE ON {corpus}_passages BEGIN
    INSERT INTO {corpus}_words ({corpus}_words, rowid, heading, text, extra)
    VALUES ('delete', old.place, old.heading, old.text, old.extra);
END;
CREATE TRIGGER {corpus}_removed_parts AFTER DELETE ON {corpus}_passages WHEN old.parts != '' BEGIN
    INSERT INTO {corpus}_parts ({corpus}_parts, rowid, parts) VALUES ('delete', old.place, old.parts);
END;
CREATE TABLE {corpus}_units (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    first INTEGER NOT NULL,   -- place of the first passage that its vector stands for
    last INTEGER NOT NULL,
    sha256 BLOB NOT NULL,     -- of the text
    text TEXT NOT NULL        -- what is embedded
);
CREATE INDEX {corpus}_units_by_place ON {corpus}_units (first);
CREATE INDEX {corpus}_units_by_text ON {corpus}_units (sha256);
-- Places of units that came with their vectors, or went: what the vectors in memory follow.
CREATE TABLE {corpus}_touched (id INTEGER PRIMARY KEY AUTOINCREMENT, first INTEGER NOT NULL, last INTEGER NOT NULL);
CREATE TRIGGER {corpus}_unit_added AFTER INSERT ON {corpus}_units
WHEN EXISTS (SELECT 1 FROM vectors WHERE vectors.sha256 = new.sha256) BEGIN
    INSERT INTO {corpus}_touched (first, last) VALUES (new.first, new.last);
END;
CREATE TRIGGER {corpus}_unit_removed AFTER DELETE ON {corpus}_units BEGIN
    INSERT INTO {corpus}_touched (first, last) VALUES (old.first, old.last);
END;
"""

_TURNS = "CREATE INDEX talk_passages_by_turn ON talk_passages (turn);"

SCHEMA = _DOCUMENTS + "".join(_SHELF.format(corpus=corpus) for corpus in ("note", "talk")) + _TURNS


def place_of(document: int, position: int) -> int:
    """Return the place of a document's passage."""
    return document << POSITION_BITS | position


def document_of(place: int) -> int:
    """Return the number of the document that a place belongs to."""
    return place >> POSITION_BITS


def places_of(document: int) -> tuple[int, int]:
    """Return the first and the last place that a document can have."""
    return place_of(document, 0), place_of(document + 1, 0) - 1


@record
class Scope:
    """Places in one corpus."""

    ranges: Sequence[tuple[int, int]]
    """First and last places, in order and without overlaps."""
    passages: int
    words: int
    """The number of words in them, for term weights and the mean length; approximate where times limit them."""
    only: frozenset[int] | None = None
    """Of these, only those places; None: all."""
    but: frozenset[int] = frozenset()
    """Excluded places."""

    @property
    def usual(self) -> float:
        """Return the mean number of words of a passage."""
        return self.words / self.passages if self.passages else 0.0

    def has(self, place: int) -> bool:
        """Return whether the place belongs to it."""
        number = bisect_right(self.ranges, place, key=itemgetter(0)) - 1
        return (
            number >= 0
            and place <= self.ranges[number][1]
            and (self.only is None or place in self.only)
            and place not in self.but
        )

    def ranges_without(self, places: Collection[int]) -> list[tuple[int, int]]:
        """Return the ranges, split at each of the places."""
        result: list[tuple[int, int]] = []
        holes = sorted(places)
        for first, last in self.ranges:
            for hole in holes[bisect_left(holes, first) : bisect_right(holes, last)]:
                if first < hole:
                    result.append((first, hole - 1))
                first = hole + 1
            if first <= last:
                result.append((first, last))
        return result


NO_PLACES = Scope((), 0, 0)


def merge(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in order, those that touch joined."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result
