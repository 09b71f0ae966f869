"""The state of an indexed conversation, and its windows: the units that get vectors.

Windows are continued with each message, and mended after a deletion. The cost of one more message does not depend on
how many there are: cutting continues at the seam stored with the conversation. Only the last window of a conversation
ever changes.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from goclaw.memory.chunks import BYTES_PER_TOKEN, CHUNK_TOKENS, Chunk, Seam, chunk_messages, grow_windows
from goclaw.memory.index.schema import places_of

_DOCUMENT = """
SELECT id, first_row, last_row, last_at, orderly, next_position, passages, words,
    open_unit, seam_place, seam_piece, seam_repeated FROM talk_documents WHERE session = ?
"""
_NEW_DOCUMENT = """
INSERT INTO talk_documents (session, first_row, last_row, last_at, orderly, next_position, passages, words,
    open_unit, seam_place, seam_piece, seam_repeated) VALUES (?, ?, ?, ?, 1, 0, 0, 0, 0, -1, 0, 0)
"""
_KEEP_DOCUMENT = """
UPDATE talk_documents SET first_row = ?, last_row = ?, last_at = ?, orderly = ?, next_position = ?, passages = ?,
    words = ?, open_unit = ?, seam_place = ?, seam_piece = ?, seam_repeated = ? WHERE id = ?
"""
_NO_SEAM = (-1, 0, 0)
"""The last three of these columns where no window grows."""


@dataclass(slots=True)
class IndexedConversation:
    """A row of `talk_documents`."""

    id: int
    first_row: int
    """Where the transcript began when it was last compared, whether or not that row has any text to search."""
    last_row: int
    last_at: float
    orderly: int = 1
    """Whether times follow the order of messages, that is the clock was never set back."""
    next_position: int = 0
    passages: int = 0
    words: int = 0
    open_unit: int = 0
    """The unit of the window that still grows; 0: none does."""
    seam: Seam | None = None
    """Where that window begins."""

    def save(self, connection: sqlite3.Connection) -> None:
        """Write the row back."""
        number, *changed, seam = astuple(self)
        connection.execute(_KEEP_DOCUMENT, (*changed, *(seam or _NO_SEAM), number))


def conversation_of(connection: sqlite3.Connection, session: str) -> IndexedConversation | None:
    """Return the row of a session; None if nothing of it is indexed."""
    row = connection.execute(_DOCUMENT, (session,)).fetchone()
    if row is None:
        return None
    *columns, place, piece, repeated = row
    document = IndexedConversation(*columns)
    if place >= 0:
        document.seam = Seam(place, piece, repeated)
    return document


def start(connection: sqlite3.Connection, session: str, row: int, at: float) -> IndexedConversation:
    """Return a new row for an unknown session, with its first transcript row."""
    number = connection.execute(_NEW_DOCUMENT, (session, row, row, at)).lastrowid or 0
    return IndexedConversation(number, row, row, at)


EMBEDDED = CHUNK_TOKENS * BYTES_PER_TOKEN
"""Characters of a passage that get into windows: all of a message's, the beginning of a long result."""

_LINES = "SELECT place, speaker, heading, text FROM talk_passages WHERE place BETWEEN ? AND ? ORDER BY place"
_DELETE_UNUSED_VECTORS = """
DELETE FROM vectors WHERE sha256 = ?
    AND NOT EXISTS (SELECT 1 FROM talk_units WHERE talk_units.sha256 = vectors.sha256)
    AND NOT EXISTS (SELECT 1 FROM note_units WHERE note_units.sha256 = vectors.sha256)
"""

Line = tuple[int, str]
"""A place, and its text as it is embedded."""


def line_of(place: int, speaker: str, heading: str, text: str) -> Line:
    """Return a passage as it is embedded: the speaker, the heading, and the text."""
    about = f" ({heading})" if heading else ""
    return place, f"{speaker}{about}: {text[:EMBEDDED]}"


def _lines(connection: sqlite3.Connection, first: int, last: int) -> Iterator[Line]:
    """Return the lines that were stored before."""
    for row in connection.execute(_LINES, (first, last)):
        yield line_of(*row)


def grow(connection: sqlite3.Connection, document: IndexedConversation, new: Sequence[Line]) -> None:
    """Continue cutting at the open window."""
    seam = document.seam
    before = list(_lines(connection, seam.line, new[0][0] - 1)) if seam else []
    grown = grow_windows([*before, *new], seam)
    windows = grown.full + grown.open
    if document.open_unit:
        windows = _update_open(connection, document, windows)
    last = document.open_unit if document.open_unit and not windows else 0
    for window in windows:
        last = _add_unit(connection, window)
    document.open_unit = last if grown.open else 0
    document.seam = grown.seam


def _update_open(connection: sqlite3.Connection, document: IndexedConversation, windows: list[Chunk]) -> list[Chunk]:
    """Delete the unit of the open window, unless it has not changed; return the windows that are new."""
    row = connection.execute("SELECT first, text FROM talk_units WHERE id = ?", (document.open_unit,)).fetchone()
    if windows and row == (windows[0].start, windows[0].text):
        return windows[1:]
    drop(connection, "id = ?", document.open_unit)
    document.open_unit = 0
    return windows


def _add_unit(connection: sqlite3.Connection, window: Chunk) -> int:
    digest = hashlib.sha256(window.text.encode()).digest()
    added = connection.execute(
        "INSERT INTO talk_units (first, last, sha256, text) VALUES (?, ?, ?, ?)",
        (window.start, window.end, digest, window.text),
    )
    return added.lastrowid or 0


def drop(connection: sqlite3.Connection, which: str, *values: int) -> None:
    """Delete the units for which a constant condition holds, and vectors that nothing else needs."""
    texts = connection.execute(f"SELECT sha256 FROM talk_units WHERE {which}", values).fetchall()  # noqa: S608 - no text of others
    connection.execute(f"DELETE FROM talk_units WHERE {which}", values)  # noqa: S608 - no text of others
    connection.executemany(_DELETE_UNUSED_VECTORS, texts)


def mend(connection: sqlite3.Connection, document: IndexedConversation, first: int) -> None:
    """Cut the span between the first remaining place and the first remaining window: its windows are gone.

    Later windows stay as they are, so that their vectors do.
    """
    end = places_of(document.id)[1]
    [(whole,)] = connection.execute("SELECT min(first) FROM talk_units WHERE first BETWEEN ? AND ?", (first, end))
    if whole is None:
        document.seam = None
        grow(connection, document, list(_lines(connection, first, end)))
        return
    # The first remaining window may begin within its first message, whose beginning was in the previous window.
    for window in chunk_messages(_lines(connection, first, whole)):
        _add_unit(connection, window)
