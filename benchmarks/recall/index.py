"""The smallest index that the recipes need: SQLite with FTS5, rows numbered by place."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date

from benchmarks.recall.dataset import Conversation, Turn
from goclaw.memory.ranking import Passage

# The same tokenizer as `goclaw.memory.index`. `dated` is what BM25 alone searches, `original` what GoClaw's first
# version had: no stemming, no date.
_SCHEMA = """
CREATE TABLE passages (place INTEGER PRIMARY KEY, words INTEGER, told TEXT, speaker TEXT, asks INTEGER);
CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE dated USING fts5 (text, content = '', tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE original USING fts5 (text, content = '');
"""


class Index:
    """An open index in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        [(self.size, self.usual)] = connection.execute("SELECT count(*), avg(words) FROM passages")
        """How many passages there are, and their mean length."""
        self.speakers = [name for (name,) in connection.execute("SELECT DISTINCT speaker FROM passages")]

    def postings(self, expressions: Iterable[str]) -> list[list[int]]:
        """Where each term stands."""
        statement = "SELECT rowid FROM words WHERE words MATCH ?"
        return [[place for (place,) in self._connection.execute(statement, (each,))] for each in expressions]

    def passages(self, places: Iterable[int]) -> dict[int, Passage]:
        """What is known of those places that exist."""
        # Places are whole numbers, so nothing of a person's text is in the statement.
        chosen = ",".join(map(str, places))
        rows = self._connection.execute(f"SELECT * FROM passages WHERE place IN ({chosen})")  # noqa: S608 - as said above
        return {
            place: Passage(words, date.fromisoformat(told), speaker, bool(asks))
            for place, words, told, speaker, asks in rows
        }

    def bm25(self, table: str, expression: str, limit: int) -> list[tuple[int, float]]:
        """FTS5's own ranking: places with bm25(), which is negative, the better the lower.

        Raises:
            sqlite3.OperationalError: the expression is none.
        """
        statement = f"SELECT rowid, bm25({table}) AS score FROM {table} WHERE {table} MATCH ? ORDER BY score LIMIT ?"  # noqa: S608 - a table's name is ours
        return list(self._connection.execute(statement, (expression, limit)))


@contextmanager
def open_index(conversation: Conversation) -> Iterator[Index]:
    """The index of a conversation."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_SCHEMA)
        fill(connection, conversation.turns)
        yield Index(connection)
    finally:
        connection.close()


def fill(connection: sqlite3.Connection, turns: Iterable[Turn]) -> None:
    """Write turns."""
    for turn in turns:
        told = turn.told.date().isoformat()
        row = (turn.place, len(turn.text.split()), told, turn.speaker, turn.text.rstrip().endswith("?"))
        connection.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?)", row)
        for table, text in (("words", turn.text), ("dated", turn.dated), ("original", turn.line)):
            connection.execute(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", (turn.place, text))  # noqa: S608 - a table's name is ours
