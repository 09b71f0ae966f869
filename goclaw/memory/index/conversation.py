"""A conversation on the shelf of talk: what is known of it as a whole."""

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
    """Where the transcript began when it was last compared, whether or not there is anything to search in that row."""
    last_row: int
    last_at: float
    orderly: int
    """Whether what was said later has later times: nobody set the clock back."""
    next_position: int
    passages: int
    words: int
    open_unit: int
    """The unit of the window that still grows; 0: there is none."""
    seam_place: int
    seam_piece: int
    seam_repeated: int

    @property
    def seam(self) -> Seam | None:
        """Where that window begins."""
        return Seam(self.seam_place, self.seam_piece, self.seam_repeated) if self.seam_place >= 0 else None

    @seam.setter
    def seam(self, seam: Seam | None) -> None:
        self.seam_place, self.seam_piece, self.seam_repeated = (
            (seam.line, seam.piece, seam.repeated) if seam else (-1, 0, 0)
        )

    def keep(self, connection: sqlite3.Connection) -> None:
        """Write it back."""
        _, _, *changed = astuple(self)
        connection.execute(_KEEP_DOCUMENT, (*changed, self.id))


def conversation_of(connection: sqlite3.Connection, session: str) -> IndexedConversation | None:
    """What is known of a session; None: nothing was taken in of it."""
    row = connection.execute(_DOCUMENT, (session,)).fetchone()
    return IndexedConversation(*row) if row else None


def begun(connection: sqlite3.Connection, session: str, row: int, at: float) -> IndexedConversation:
    """A session that was not known, with its first row."""
    number = connection.execute(_NEW_DOCUMENT, (session, row, row, at)).lastrowid or 0
    return IndexedConversation(number, session, row, row, at, 1, 0, 0, 0, 0, -1, 0, 0)
