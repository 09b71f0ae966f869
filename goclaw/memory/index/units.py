"""What gets a vector, and the vectors: writing. Reading them for searches is `vectors`' business.

A vector belongs to a text and a model, not to a unit: a text that moves keeps it. Ids of units only grow, so whoever
has looked at a span of them need not look there again. All steps are bounded, for transactions of some milliseconds.
"""

import sqlite3
from collections.abc import Mapping, Sequence

from goclaw.memory.index.schema import Shelf
from goclaw.memory.index.scope import merged
from goclaw.records import record

SHELVES: Sequence[Shelf] = ("note", "talk")

LOOKED_AT = 2_000
"""Units that are looked at in one step: 10 ms."""

_NEWEST = "SELECT coalesce(max(id), 0) FROM {shelf}_units"
_MISSING = """
SELECT id, sha256, EXISTS (
    SELECT 1 FROM vectors JOIN models ON models.id = vectors.model
    WHERE vectors.sha256 = units.sha256 AND models.name = ?
) FROM {shelf}_units AS units WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?
"""
_TEXT = "SELECT text FROM {shelf}_units WHERE id = ?"
_COUNT = """
SELECT count(vectors.sha256), count(*) FROM {shelf}_units AS units LEFT JOIN vectors
    ON vectors.sha256 = units.sha256 AND vectors.model = (SELECT id FROM models WHERE name = ?)
WHERE units.id BETWEEN ? AND ?
"""
_TOUCHED = "SELECT id, first, last FROM {shelf}_touched WHERE id > ? ORDER BY id"
_FORGET_TOUCHED = "DELETE FROM {shelf}_touched WHERE id <= ?"


@record
class VectorModel:
    """Whose vectors there are."""

    name: str
    """As `Embedder.name` gives it."""
    spec: str
    """What opens its embedder, in the form of `memory.embedder`."""
    serving: bool
    """Its vectors are what searches use."""


@record
class Missing:
    """A text without a vector."""

    sha256: bytes
    text: str


@record
class Looked:
    """What one step of a look through units found."""

    missing: Sequence[Missing]
    down_to: int
    """All units from here up were looked at."""


@record
class Count:
    """Units that have their vectors, and how many there are in all."""

    embedded: int
    units: int


def models(connection: sqlite3.Connection) -> list[VectorModel]:
    """Those that have been used, in the order in which they came."""
    rows = connection.execute("SELECT name, spec, serving FROM models ORDER BY id")
    return [VectorModel(name, spec, bool(serving)) for name, spec, serving in rows]


def serving(connection: sqlite3.Connection) -> VectorModel | None:
    """The model whose vectors searches use."""
    return next((model for model in models(connection) if model.serving), None)


def announce(connection: sqlite3.Connection, name: str, spec: str) -> list[VectorModel]:
    """Make a model known. While none serves, it serves from its first vectors on: some are better than none.

    Returns all that are known, one of them serving.
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
    """Have this model's vectors serve instead of those that do."""
    connection.execute("UPDATE models SET serving = (name = ?)", (name,))


def newest(connection: sqlite3.Connection, shelf: Shelf) -> int:
    """The highest id of a unit; 0 where there is none."""
    [(number,)] = connection.execute(_NEWEST.format(shelf=shelf))
    return int(number)


def missing(connection: sqlite3.Connection, shelf: Shelf, model: str, span: tuple[int, int], limit: int) -> Looked:
    """Units of a span of ids (first, last) that have no vector of the model, the newest first, at most `limit`.

    No more than `LOOKED_AT` are looked at: the rest of the span is for the next call, unless `down_to` is its first.
    """
    first, last = span
    rows = connection.execute(_MISSING.format(shelf=shelf), (model, first, last, LOOKED_AT)).fetchall()
    found: dict[bytes, int] = {}
    for number, sha256, embedded in rows:
        if not embedded:
            found.setdefault(sha256, number)
        if len(found) == limit:
            return Looked(_texts(connection, shelf, found), number)
    return Looked(_texts(connection, shelf, found), rows[-1][0] if len(rows) == LOOKED_AT else first)


def store(connection: sqlite3.Connection, model: str, vectors: Mapping[bytes, bytes]) -> None:
    """Keep vectors by the SHA-256 of their texts; nothing of a model that is not known (any more)."""
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (sha256, model, vector) SELECT ?, id, ? FROM models WHERE name = ?",
        [(sha256, vector, model) for sha256, vector in vectors.items()],
    )


def count(connection: sqlite3.Connection, shelf: Shelf, model: str, span: tuple[int, int]) -> Count:
    """How many units of a span of ids have a vector of the model."""
    [(embedded, units)] = connection.execute(_COUNT.format(shelf=shelf), (model, *span))
    return Count(embedded, units)


def drop_others(connection: sqlite3.Connection, kept: Sequence[str], limit: int) -> bool:
    """Forget models that neither serve nor are `kept`: at most `limit` vectors at once; False when nothing is left."""
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
    """Forget vectors of texts that no unit has any more, among the next `limit` after a SHA-256.

    Returns where to go on; None at the end.
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


def take(connection: sqlite3.Connection, model: str, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
    """The next vectors of a model after a SHA-256, with the SHA-256 of their texts: for another index file."""
    return connection.execute(
        "SELECT sha256, vector FROM vectors WHERE sha256 > ? AND model = (SELECT id FROM models WHERE name = ?)"
        " ORDER BY sha256 LIMIT ?",
        (after, model, limit),
    ).fetchall()


def touched(connection: sqlite3.Connection, shelf: Shelf, after: int) -> tuple[list[tuple[int, int]], int]:
    """Places (first, last) where units came with their vectors or went since the step `after`; the last step."""
    rows = connection.execute(_TOUCHED.format(shelf=shelf), (after,)).fetchall()
    return merged((first, last) for _, first, last in rows), rows[-1][0] if rows else after


def last_touch(connection: sqlite3.Connection, shelf: Shelf) -> int:
    """The step after which `touched` tells of what comes from now on."""
    [(number,)] = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (f"{shelf}_touched",)
    )
    return int(number)


def forget_touched(connection: sqlite3.Connection, shelf: Shelf, up_to: int) -> None:
    """Drop what is known of touched places up to a step: whoever follows has followed."""
    connection.execute(_FORGET_TOUCHED.format(shelf=shelf), (up_to,))


def follow_nothing(connection: sqlite3.Connection) -> None:
    """Drop what is known of touched places: nobody holds vectors yet."""
    for shelf in SHELVES:
        forget_touched(connection, shelf, last_touch(connection, shelf))


def sizes(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """How many files, conversations and passages there are."""
    [(files, of_files)] = connection.execute("SELECT count(*), coalesce(sum(passages), 0) FROM note_documents")
    [(talks, of_talks)] = connection.execute("SELECT count(*), coalesce(sum(passages), 0) FROM talk_documents")
    return files, talks, of_files + of_talks


def _texts(connection: sqlite3.Connection, shelf: Shelf, numbers: Mapping[bytes, int]) -> list[Missing]:
    return [
        Missing(sha256, text)
        for sha256, number in numbers.items()
        for (text,) in connection.execute(_TEXT.format(shelf=shelf), (number,))
    ]
