"""Texts that get a vector (units), their vectors, and the models of these: written, and read for searches.

A vector belongs to a text and a model, not to a unit: a text that moves keeps it. Ids of units only grow, so a span
once examined stays examined. All steps are bounded, for transactions of some milliseconds: loading a hundred thousand
vectors does not hold up other readers.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence

from goclaw.common.core.records import record
from goclaw.memory.index.schema import NEWEST_MARK, POSITION_BITS, Corpus, merge

CORPORA: Sequence[Corpus] = ("note", "talk")

LOOKED_AT = 2_000
"""Units examined in one step: 10 ms."""

_NEWEST = "SELECT coalesce(max(id), 0) FROM {corpus}_units"
_MISSING = """
SELECT id, sha256, EXISTS (
    SELECT 1 FROM vectors JOIN models ON models.id = vectors.model
    WHERE vectors.sha256 = units.sha256 AND models.name = ?
) FROM {corpus}_units AS units WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?
"""
_TEXTS: Mapping[Corpus, str] = {
    "note": "SELECT text, '' FROM note_units WHERE id = ?",
    "talk": f"""
SELECT text, coalesce(session, '') FROM talk_units AS units
LEFT JOIN talk_documents AS documents ON documents.id = units.first >> {POSITION_BITS} WHERE units.id = ?
""",  # noqa: S608  # a number of ours
}
_COUNT = """
SELECT count(vectors.sha256), count(*) FROM {corpus}_units AS units LEFT JOIN vectors
    ON vectors.sha256 = units.sha256 AND vectors.model = (SELECT id FROM models WHERE name = ?)
WHERE units.id BETWEEN ? AND ?
"""
_TALKS = "SELECT count(*), coalesce(sum(passages), 0) FROM talk_documents WHERE session NOT LIKE ?"
_TOUCHED = "SELECT id, first, last FROM {corpus}_touched WHERE id > ? ORDER BY id"
_FORGET_TOUCHED = "DELETE FROM {corpus}_touched WHERE id <= ?"


@record
class VectorModel:
    """A model with vectors in the index."""

    name: str
    """As in `Embedder.name`."""
    spec: str
    """The specification to open its embedder, in the form of `memory.embedder`."""
    serving: bool
    """Whether searches use its vectors."""


@record
class Missing:
    """A text without a vector."""

    sha256: bytes
    text: str
    session: str = ""
    """Where it was said; empty for a note."""


@record
class Looked:
    """The result of one step through the units."""

    missing: Sequence[Missing]
    down_to: int
    """All units from here up were examined."""


@record
class Count:
    """The number of units with a vector, and of all units."""

    embedded: int
    units: int


def models(connection: sqlite3.Connection) -> list[VectorModel]:
    """Return the models that have been used, the oldest first."""
    rows = connection.execute("SELECT name, spec, serving FROM models ORDER BY id")
    return [VectorModel(name, spec, bool(serving)) for name, spec, serving in rows]


def serving(connection: sqlite3.Connection) -> VectorModel | None:
    """Return the model that provides the vectors for searches."""
    return next((model for model in models(connection) if model.serving), None)


def announce(connection: sqlite3.Connection, name: str, spec: str) -> list[VectorModel]:
    """Register a model. If none is in use, it is used from its first vectors on: some are better than none.

    Returns all known models, one of them in use.
    """
    connection.execute(
        "INSERT INTO models (name, spec) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET spec = excluded.spec",
        (name, spec),
    )
    connection.execute(
        "UPDATE models SET serving = 1 WHERE name = ? AND NOT EXISTS (SELECT 1 FROM models WHERE serving)", (name,)
    )
    return models(connection)


def switch(connection: sqlite3.Connection, name: str) -> None:
    """Use this model's vectors instead of the current ones."""
    connection.execute("UPDATE models SET serving = (name = ?)", (name,))


def newest(connection: sqlite3.Connection, corpus: Corpus) -> int:
    """Return the highest id of a unit; 0 if there are no units."""
    [(number,)] = connection.execute(_NEWEST.format(corpus=corpus))
    return int(number)


def missing(connection: sqlite3.Connection, corpus: Corpus, model: str, span: tuple[int, int], limit: int) -> Looked:
    """Return units of a span of ids (first, last) without a vector of the model, the newest first, at most `limit`.

    At most `LOOKED_AT` are examined: the rest of the span is left to the next call, unless `down_to` is its first.
    """
    first, last = span
    rows = connection.execute(_MISSING.format(corpus=corpus), (model, first, last, LOOKED_AT)).fetchall()
    found: dict[bytes, int] = {}
    for number, sha256, embedded in rows:
        if not embedded:
            found.setdefault(sha256, number)
        if len(found) == limit:
            return Looked(_texts(connection, corpus, found), number)
    return Looked(_texts(connection, corpus, found), rows[-1][0] if len(rows) == LOOKED_AT else first)


def store(connection: sqlite3.Connection, model: str, vectors: Mapping[bytes, bytes]) -> None:
    """Store vectors by the SHA-256 of their texts; those of an unknown model are ignored."""
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (sha256, model, vector) SELECT ?, id, ? FROM models WHERE name = ?",
        [(sha256, vector, model) for sha256, vector in vectors.items()],
    )


def count(connection: sqlite3.Connection, corpus: Corpus, model: str, span: tuple[int, int]) -> Count:
    """Count the units in a span of ids that have a vector of the model, and all of them."""
    [(embedded, units)] = connection.execute(_COUNT.format(corpus=corpus), (model, *span))
    return Count(embedded, units)


def drop_others(connection: sqlite3.Connection, kept: Sequence[str], limit: int) -> bool:
    """Remove models neither in use nor `kept`: at most `limit` vectors per call; return False when nothing is left."""
    idle = connection.execute("SELECT id, name FROM models WHERE NOT serving").fetchall()
    for number in (number for number, name in idle if name not in kept):
        dropped = connection.execute(
            "DELETE FROM vectors WHERE model = ? AND sha256 IN (SELECT sha256 FROM vectors WHERE model = ? LIMIT ?)",
            (number, number, limit),
        ).rowcount
        if dropped:
            return True
        connection.execute("DELETE FROM models WHERE id = ?", (number,))
    return False


def sweep(connection: sqlite3.Connection, after: bytes, limit: int) -> bytes | None:
    """Remove unused vectors among the next `limit` after a SHA-256.

    Returns the SHA-256 to continue after; None at the end.
    """
    keys = [
        key
        for (key,) in connection.execute(
            "SELECT DISTINCT sha256 FROM vectors WHERE sha256 > ? ORDER BY sha256 LIMIT ?", (after, limit)
        )
    ]
    if not keys:
        return None
    connection.execute(
        "DELETE FROM vectors WHERE sha256 > ? AND sha256 <= ?"
        " AND NOT EXISTS (SELECT 1 FROM note_units WHERE note_units.sha256 = vectors.sha256)"
        " AND NOT EXISTS (SELECT 1 FROM talk_units WHERE talk_units.sha256 = vectors.sha256)",
        (after, keys[-1]),
    )
    return keys[-1] if len(keys) == limit else None


def next_vectors(connection: sqlite3.Connection, model: str, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    """Return the next vectors of a model after a SHA-256, with the SHA-256 of their texts: for another index file."""
    return connection.execute(
        "SELECT sha256, vector FROM vectors WHERE sha256 > ? AND model = (SELECT id FROM models WHERE name = ?)"
        " ORDER BY sha256 LIMIT ?",
        (after, model, limit),
    ).fetchall()


def list_touches(connection: sqlite3.Connection, corpus: Corpus, after: int) -> tuple[list[tuple[int, int]], int]:
    """Return places (first, last) of units with vectors added or removed since step `after`, and the last step."""
    rows = connection.execute(_TOUCHED.format(corpus=corpus), (after,)).fetchall()
    return merge((first, last) for _, first, last in rows), rows[-1][0] if rows else after


def last_touch(connection: sqlite3.Connection, corpus: Corpus) -> int:
    """Return the step after which `list_touches` reports later changes."""
    [(number,)] = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (f"{corpus}_touched",)
    )
    return int(number)


def forget_touched(connection: sqlite3.Connection, corpus: Corpus, up_to: int) -> None:
    """Delete the records of touched places up to a step that has been followed."""
    connection.execute(_FORGET_TOUCHED.format(corpus=corpus), (up_to,))


def follow_nothing(connection: sqlite3.Connection) -> None:
    """Delete the records of touched places while no vectors are loaded."""
    for corpus in CORPORA:
        forget_touched(connection, corpus, last_touch(connection, corpus))


def sizes(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Return how many files, conversations and passages there are."""
    [(files, of_files)] = connection.execute("SELECT count(*), coalesce(sum(passages), 0) FROM note_documents")
    [(talks, of_talks)] = connection.execute(_TALKS, (f"%{NEWEST_MARK}",))
    return files, talks, of_files + of_talks


def _texts(connection: sqlite3.Connection, corpus: Corpus, numbers: Mapping[bytes, int]) -> list[Missing]:
    return [
        Missing(sha256, text, session)
        for sha256, number in numbers.items()
        for text, session in connection.execute(_TEXTS[corpus], (number,))
    ]


LOADED_AT_ONCE = 1_000
"""Vectors loaded in one step: some 5 ms."""

_FOUND = """
SELECT units.id, units.first, units.last, vectors.vector FROM {corpus}_units AS units JOIN vectors
    ON vectors.sha256 = units.sha256 AND vectors.model = (SELECT id FROM models WHERE name = ?)
"""
# CROSS keeps SQLite from scanning the vectors: only a few belong to units of this portion.
_FROM_UNITS = _FOUND.replace("JOIN", "CROSS JOIN")
_AFTER = _FROM_UNITS + "WHERE units.id > ? ORDER BY units.id LIMIT ?"
_WITHIN = _FROM_UNITS + "WHERE units.first BETWEEN ? AND ? AND units.last <= ?"
_OF_TEXTS = _FOUND + "WHERE units.sha256 = ?"


@record
class Embedded:
    """A unit with its vector."""

    unit: int
    first: int
    """Place of the first passage that the vector stands for."""
    last: int
    vector: bytes


def units_with_vectors(
    connection: sqlite3.Connection, corpus: Corpus, model: str, after: int, limit: int = LOADED_AT_ONCE
) -> list[Embedded]:
    """Return the next units after the id `after` with a vector of the model; empty at the end."""
    return [Embedded(*row) for row in connection.execute(_AFTER.format(corpus=corpus), (model, after, limit))]


def units_of(connection: sqlite3.Connection, corpus: Corpus, model: str, texts: Collection[bytes]) -> list[Embedded]:
    """Return the units with one of these texts (by SHA-256) and a vector of the model, for vectors just stored."""
    statement = _OF_TEXTS.format(corpus=corpus)
    return [Embedded(*row) for sha256 in texts for row in connection.execute(statement, (model, sha256))]


def units_within(
    connection: sqlite3.Connection, corpus: Corpus, model: str, ranges: Sequence[tuple[int, int]]
) -> list[Embedded]:
    """Return the units with a vector of the model and with places entirely within one of the ranges."""
    statement = _WITHIN.format(corpus=corpus)
    found = (connection.execute(statement, (model, first, last, last)) for first, last in ranges)
    return [Embedded(*row) for rows in found for row in rows]
