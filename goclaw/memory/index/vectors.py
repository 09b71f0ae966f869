"""Reading of units and their vectors for searches. `units` writes them.

Each call reads a bounded portion, so that loading a hundred thousand vectors does not hold up other readers.
"""

import sqlite3
from collections.abc import Collection, Sequence

from goclaw.memory.index.schema import Corpus
from goclaw.records import record

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
    """Return the units with a vector of the model whose places lie entirely within one of the ranges."""
    statement = _WITHIN.format(corpus=corpus)
    found = (connection.execute(statement, (model, first, last, last)) for first, last in ranges)
    return [Embedded(*row) for rows in found for row in rows]
