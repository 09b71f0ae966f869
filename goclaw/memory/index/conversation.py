"""The state of one indexed conversation as a whole."""

import sqlite3
from dataclasses import astuple, dataclass

from goclaw.memory.chunks import Seam

_DOCUMENT = """
SELECT id, session, first_row, last_row, last_at, orderly, next_position, passages, words,
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


@dataclass(slots=True)
class IndexedConversation:
    """A row of `talk_documents`."""

    id: int
    session: str
    first_row: int
    """Where the transcript began when it was last compared, whether or not that row has any text to search."""
    last_row: int
    last_at: float
    orderly: int
    """Whether times follow the order of messages, that is the clock was never set back."""
    next_position: int
    passages: int
    words: int
    open_unit: int
    """The unit of the window that still grows; 0: none does."""
    seam_place: int
    seam_piece: int
    seam_repeated: int

    @property
    def seam(self) -> Seam | None:
        """Return where that window begins."""
        return Seam(self.seam_place, self.seam_piece, self.seam_repeated) if self.seam_place >= 0 else None

    @seam.setter
    def seam(self, seam: Seam | None) -> None:
        self.seam_place, self.seam_piece, self.seam_repeated = (
            (seam.line, seam.piece, seam.repeated) if seam else (-1, 0, 0)
        )

    def keep(self, connection: sqlite3.Connection) -> None:
        """Write the row back."""
        _, _, *changed = astuple(self)
        connection.execute(_KEEP_DOCUMENT, (*changed, self.id))


def conversation_of(connection: sqlite3.Connection, session: str) -> IndexedConversation | None:
    """Return the row of a session; None if nothing of it is indexed."""
    row = connection.execute(_DOCUMENT, (session,)).fetchone()
    return IndexedConversation(*row) if row else None


def begun(connection: sqlite3.Connection, session: str, row: int, at: float) -> IndexedConversation:
    """Return a new row for an unknown session, with its first transcript row."""
    number = connection.execute(_NEW_DOCUMENT, (session, row, row, at)).lastrowid or 0
    return IndexedConversation(number, session, row, row, at, 1, 0, 0, 0, 0, -1, 0, 0)
