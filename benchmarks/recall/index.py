"""An index of a conversation: the product's own file, filled as transcripts are, and what others would keep."""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.recall.dataset import Conversation, Turn
from benchmarks.recall.vectors import Vectors
from goclaw.memory.base import TranscriptQuery
from goclaw.memory.index import talk, text_vectors
from goclaw.memory.index.schema import SCHEMA, Scope
from goclaw.memory.index.talk import IndexedRow
from goclaw.memory.index.text_vectors import Embedded, newest, units_with_vectors
from goclaw.memory.matrix import Matrix

MODEL = "MiniLM"
ROWS_AT_ONCE = 100

# `dated` is what BM25 alone searches: what a message is about in words, with nothing left to metadata. `original` is
# what GoClaw's first version had: no stemming, no date.
_RIVALS = """
CREATE VIRTUAL TABLE dated USING fts5 (text, content = '', tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE original USING fts5 (text, content = '');
"""


class Index:
    """An open index."""

    def __init__(self, connection: sqlite3.Connection, rivals: sqlite3.Connection, turns: Sequence[Turn]) -> None:
        self.connection = connection
        self.scope = talk.scope(connection, TranscriptQuery("", [*dict.fromkeys(turn.talk for turn in turns)]))
        self.rows: dict[int, int] = dict(connection.execute("SELECT place, row FROM talk_passages"))
        """By place; a long message has several."""
        self.tokens = {turn.row: turn.tokens for turn in turns}
        self.windows = Matrix()
        """Of the product."""
        self.messages = Matrix()
        """Of those that embed each message: rows are their places."""
        self._rivals = rivals

    def bm25(self, table: str, expression: str, limit: int) -> list[tuple[int, float]]:
        """FTS5's own ranking: rows with bm25(), which is negative, the better the lower.

        Raises:
            sqlite3.OperationalError: the expression is none.
        """
        statement = f"SELECT rowid, bm25({table}) AS score FROM {table} WHERE {table} MATCH ? ORDER BY score LIMIT ?"  # noqa: S608 - a table's name is ours
        return list(self._rivals.execute(statement, (expression, limit)))

    def similar_messages(self, vector: bytes, limit: int) -> dict[int, float]:
        """The rows of the nearest messages, with their cosines."""
        everything = Scope([(0, 1 << 40)], 0, 0)
        return {row: cosine for row, _, cosine in self.messages.nearest(vector, everything, limit)}


@contextmanager
def open_index(conversation: Conversation) -> Iterator[Index]:
    """The index of a conversation, without vectors."""
    with tempfile.TemporaryDirectory(prefix="goclaw-recall-") as folder:
        file = closing(sqlite3.connect(Path(folder) / "memory.db"))
        with file as connection, closing(sqlite3.connect(":memory:")) as rivals:
            connection.executescript(SCHEMA)
            for begin in range(0, len(conversation.turns), ROWS_AT_ONCE):
                talk.put(connection, [_said(turn) for turn in conversation.turns[begin : begin + ROWS_AT_ONCE]])
            rivals.executescript(_RIVALS)
            for turn in conversation.turns:
                for table, text in (("dated", turn.dated), ("original", turn.line)):
                    rivals.execute(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", (turn.row, text))  # noqa: S608 - a table's name is ours
            yield Index(connection, rivals, conversation.turns)


def texts(index: Index, conversation: Conversation) -> list[str]:
    """What is embedded: messages for the rivals, windows for the product, and the questions."""
    windows = [text for (text,) in index.connection.execute("SELECT text FROM talk_units")]
    return [*(turn.line for turn in conversation.turns), *windows, *(each.text for each in conversation.questions)]


def embed(index: Index, conversation: Conversation, vectors: Vectors) -> None:
    """Give the index its vectors."""
    connection = index.connection
    text_vectors.announce(connection, MODEL, MODEL)
    span = (1, newest(connection, "talk"))
    while missing := text_vectors.missing(connection, "talk", MODEL, span, text_vectors.LOOKED_AT).missing:
        text_vectors.store(connection, MODEL, {each.sha256: vectors[each.text] for each in missing})
    after = 0
    while found := units_with_vectors(connection, "talk", MODEL, after):
        index.windows.grow(found)
        after = found[-1].unit
    index.messages.grow(Embedded(turn.row, turn.row, turn.row, vectors[turn.line]) for turn in conversation.turns)


def _said(turn: Turn) -> IndexedRow:
    """As the product takes it in; the names of the two are all that tells them apart."""
    return IndexedRow(
        turn.row, turn.talk, f"t{turn.row}", "user", turn.text, turn.speaker, turn.speaker, turn.told.timestamp()
    )
