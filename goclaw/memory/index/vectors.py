"""What gets a vector, and the vectors: reading them for searches. Writing is `units`' business.

Each call reads a bounded portion, so that whoever loads a hundred thousand vectors holds up nobody for long.
"""

import sqlite3
from collections.abc import Collection, Sequence

from goclaw.memory.index.schema import Shelf
from goclaw.records import record

LOADED_AT_ONCE = 1_000
"""Vectors that are loaded in one step: some 5 ms."""

_FOUND = """
SELECT units.id, units.first, units.last, vectors.vector FROM {shelf}_units AS units JOIN vectors
    ON vectors.sha256 = units.sha256 AND vectors.model = (SELECT id FROM models WHERE name = ?)
"""
# CROSS keeps SQLite from going through the vectors, of which the units of this portion have a few.
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
    connection: sqlite3.Connection, shelf: Shelf, model: str, after: int, limit: int = LOADED_AT_ONCE
) -> list[Embedded]:
    """The next units behind the one with the id `after` that have a vector of the model; none at the end."""
    return [Embedded(*row) for row in connection.execute(_AFTER.format(shelf=shelf), (model, after, limit))]


def units_of(connection: sqlite3.Connection, shelf: Shelf, model: str, texts: Collection[bytes]) -> list[Embedded]:
    """The units with one of these texts (by SHA-256) and a vector of the model: what came with vectors just stored."""
    statement = _OF_TEXTS.format(shelf=shelf)
    return [Embedded(*row) for sha256 in texts for row in connection.execute(statement, (model, sha256))]


def units_within(
    connection: sqlite3.Connection, shelf: Shelf, model: str, ranges: Sequence[tuple[int, int]]
) -> list[Embedded]:
    """The units whose places lie within one of the ranges as a whole, and that have a vector of the model."""
    statement = _WITHIN.format(shelf=shelf)
    found = (connection.execute(statement, (model, first, last, last)) for first, last in ranges)
    return [Embedded(*row) for rows in found for row in rows]
