"""Conversations in the index: writing them, a passage per message, and the scope of a search.

Nothing here reads the transcripts (`transcript_indexer` does). Places follow the order of messages, windows
(`chunks.grow_windows`) are the units that get vectors, and the cost of one more message does not depend on how many
there are.

While a large backlog is indexed, the newest messages are in documents of their own, without windows, so that a search
finds them immediately: of each only the rows that the backlog has not reached count.
"""

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import chain

from goclaw.common.core.events import AGENT_TURN, root_session
from goclaw.common.core.records import record
from goclaw.memory.base import Talk, TranscriptQuery
from goclaw.memory.chunks import split_message
from goclaw.memory.index import windows
from goclaw.memory.index.schema import NEWEST_MARK, NO_PLACES, POSITION_BITS, Scope, merge, place_of, places_of
from goclaw.memory.index.windows import IndexedConversation, Line, conversation_of, line_of, start
from goclaw.memory.query_terms import extra_terms, parts_terms, word_count
from goclaw.memory.ranking import REACH

PAUSE = 3_600.0
"""Seconds of silence that separate topics: no neighbours, and no window, across it."""
RESULT_CHARACTERS = 2_000
"""Indexed characters of a tool's result: its beginning identifies it."""
FORGOTTEN_AT_ONCE = 500
"""Passages deleted per call of `forget`: a transaction of some 20 ms."""

NOTHING: Mapping[str, int] = {}
_DAY = 86_400.0
_SEEN, _SEEN_AT = "talk seen", "talk seen at"
_NEWEST, _NEWEST_FROM = "talk newest", "talk newest from"
_POSITIONS = (1 << POSITION_BITS) - 1

_PASSAGE = """
INSERT INTO talk_passages (place, row, turn, first, last, told, speaker, words, asks, heading, text, extra, parts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_SPEAKERS_OF_NOTHING = """
DELETE FROM talk_speakers WHERE NOT EXISTS (SELECT 1 FROM talk_spoken WHERE speaker = talk_speakers.id)
"""


@record
class IndexedRow:
    """A row of a transcript as it goes into the index."""

    row: int
    session: str
    turn: str
    role: str
    """user, assistant or tool_result."""
    text: str
    """Empty: the row is not searched."""
    speaker: str
    """A name as people say it."""
    sender: str
    """Actor key of a person; empty: GoClaw, a tool."""
    at: float
    """Epoch seconds."""
    heading: str = ""
    """A summary of a tool call, or the name of the person quoted."""


def put(connection: sqlite3.Connection, rows: Sequence[IndexedRow], *, newest: bool = False) -> None:
    """Add messages in the order of the rows over all sessions; rows already indexed are skipped.

    `newest`: while a backlog is indexed, add them to the newest messages.
    """
    known = newest_seen(connection) if newest else highest_row(connection)
    sessions: dict[str, list[IndexedRow]] = {}
    for said in rows:
        if said.row > known:
            sessions.setdefault(said.session, []).append(said)
    for session, new in sessions.items():
        _put(connection, session + NEWEST_MARK if newest else session, new, windowed=not newest)
    if rows and rows[-1].row > known:
        last, at = rows[-1].row, rows[-1].at
        facts = ((_NEWEST, str(last)),) if newest else ((_SEEN, str(last)), (_SEEN_AT, repr(at)))
        connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)


def session_of(name: str) -> str:
    """Return the session of a document."""
    return name.removesuffix(NEWEST_MARK)


def index_newest(connection: sqlite3.Connection, row: int, at: float) -> None:
    """Index the messages after a row, of that time, before the backlog up to it."""
    facts = ((_NEWEST, str(row)), (_NEWEST_FROM, repr(at)))
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)


def newest_seen(connection: sqlite3.Connection) -> int:
    """Return the highest indexed row of the newest messages; 0: no backlog is indexed."""
    return int(_fact(connection, _NEWEST) or 0)


def gap(connection: sqlite3.Connection) -> tuple[float, float] | None:
    """Return from when to when messages are not in the index, in epoch seconds; None: none are missing."""
    begin, end = seen_at(connection), float(_fact(connection, _NEWEST_FROM) or 0)
    return (begin, end) if begin < end else None


def end_newest(connection: sqlite3.Connection) -> bool:
    """Delete newest messages that are in the index twice by now; return whether there are more."""
    name = f"%{NEWEST_MARK}"
    found = connection.execute("SELECT session FROM talk_documents WHERE session LIKE ? LIMIT 1", (name,)).fetchone()
    if found:
        _forget(connection, found[0], None)
        return True
    connection.execute("DELETE FROM facts WHERE name IN (?, ?)", (_NEWEST, _NEWEST_FROM))
    return False


def highest_row(connection: sqlite3.Connection) -> int:
    """Return the highest indexed row."""
    return int(_fact(connection, _SEEN) or 0)


def seen_at(connection: sqlite3.Connection) -> float:
    """Return the time of the highest indexed row, in epoch seconds."""
    return float(_fact(connection, _SEEN_AT) or 0)


def _fact(connection: sqlite3.Connection, name: str) -> str:
    found = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return str(found[0]) if found else ""


def talks(connection: sqlite3.Connection) -> list[Talk]:
    """Return the conversations. The writers of a session are also writers of its agents' sessions."""
    senders: dict[str, set[str]] = {}
    for session, sender in connection.execute(
        "SELECT session, sender FROM talk_documents LEFT JOIN talk_senders ON document = id ORDER BY id"
    ):
        senders.setdefault(session_of(session), set()).update([sender] if sender else [])
    return [
        Talk(session, frozenset(of_it | senders.get(root_session(session), set())))
        for session, of_it in senders.items()
    ]


def restart(connection: sqlite3.Connection) -> None:
    """Index all rows once more, for another database's transcripts. The caller forgets the old ones."""
    connection.execute("DELETE FROM facts WHERE name IN (?, ?, ?, ?)", (_SEEN, _SEEN_AT, _NEWEST, _NEWEST_FROM))


def extents(connection: sqlite3.Connection, *, newest: bool = False) -> dict[str, tuple[int, int]]:
    """Return the first and the last row of each conversation, whether or not they have any text to search.

    `newest`: of the newest messages, while a backlog is indexed.
    """
    rows = connection.execute("SELECT session, first_row, last_row FROM talk_documents")
    return {
        session_of(session): (first, last) for session, first, last in rows if session.endswith(NEWEST_MARK) == newest
    }


def forget(connection: sqlite3.Connection, session: str, before_row: int | None = None) -> bool:
    """Delete a conversation's messages before a row, or all; vectors, too, unless an equal text still needs them.

    Returns whether there is more to delete: at most `FORGOTTEN_AT_ONCE` passages go at a time, the oldest first. The
    words are out of the tables then; `IndexFile.rewrite` removes them from the file.
    """
    return any(_forget(connection, name, before_row) for name in (session, session + NEWEST_MARK))


def _forget(connection: sqlite3.Connection, session: str, before_row: int | None) -> bool:
    document = conversation_of(connection, session)
    if document is None or (before_row is not None and before_row <= document.first_row):
        return False
    first, end = places_of(document.id)
    kept = _first_from(connection, document, before_row)
    many = connection.execute(
        "SELECT place FROM talk_passages WHERE place BETWEEN ? AND ? ORDER BY place LIMIT 1 OFFSET ?",
        (first, (end if kept is None else kept - 1), FORGOTTEN_AT_ONCE),
    ).fetchone()
    _delete(connection, document, (many[0] if many else end + 1 if kept is None else kept) - 1)
    if many:
        document.save(connection)
        return True
    connection.execute(_SPEAKERS_OF_NOTHING)
    if before_row is None or document.last_row < before_row:
        connection.execute("DELETE FROM talk_senders WHERE document = ?", (document.id,))
        connection.execute("DELETE FROM talk_documents WHERE id = ?", (document.id,))
        return False
    document.first_row = before_row
    if kept is not None and not session.endswith(NEWEST_MARK):
        windows.mend(connection, document, kept)
    document.save(connection)
    return False


def _put(connection: sqlite3.Connection, session: str, rows: Sequence[IndexedRow], *, windowed: bool) -> None:
    document = conversation_of(connection, session) or start(connection, session, rows[0].row, rows[0].at)
    lines: list[Line] = []
    for said in rows:
        if said.at < document.last_at:
            document.orderly = 0
        if said.at - document.last_at > PAUSE and document.next_position:
            document.next_position += REACH
        document.last_row, document.last_at = said.row, said.at
        lines += _write(connection, document, said)
    for sender in {said.sender for said in rows if said.sender}:
        connection.execute("INSERT OR IGNORE INTO talk_senders VALUES (?, ?)", (document.id, sender))
    if lines and windowed:
        windows.grow(connection, document, lines)
    document.save(connection)


def _write(connection: sqlite3.Connection, document: IndexedConversation, said: IndexedRow) -> Iterator[Line]:
    result = said.role == "tool_result"
    text = said.text[:RESULT_CHARACTERS] if result else said.text
    parts = [(0, len(text))] if result else split_message(text)
    places = []
    for first, last in parts:
        part = text[first:last].strip()
        if not part or document.next_position > _POSITIONS:
            continue
        place = place_of(document.id, document.next_position)
        whole = f"{said.heading}\n{part}" if said.heading else part
        words = word_count(part)
        connection.execute(
            _PASSAGE,
            (
                *(place, said.row, said.turn, first, last, said.at, said.speaker),
                *(words, not result and part.endswith(("?", "？")), said.heading, part),
                *(" ".join(extra_terms(whole)), " ".join(parts_terms(whole))),
            ),
        )
        document.next_position += 1
        document.passages += 1
        document.words += words
        places.append(place)
        yield line_of(place, said.speaker, said.heading, part)
    if places:
        speaker = _speaker(connection, said)
        connection.executemany("INSERT INTO talk_spoken VALUES (?, ?)", [(speaker, place) for place in places])


def _speaker(connection: sqlite3.Connection, said: IndexedRow) -> int:
    whose = (said.sender, said.speaker)
    connection.execute("INSERT OR IGNORE INTO talk_speakers (sender, name) VALUES (?, ?)", whose)
    [(number,)] = connection.execute("SELECT id FROM talk_speakers WHERE sender = ? AND name = ?", whose)
    return int(number)


def _first_from(connection: sqlite3.Connection, document: IndexedConversation, row: int | None) -> int | None:
    """Return the first place of the messages from a row on; None if there are none, or all are meant."""
    if row is None:
        return None
    found = connection.execute(
        "SELECT place FROM talk_passages WHERE place BETWEEN ? AND ? AND row >= ? ORDER BY place LIMIT 1",
        (*places_of(document.id), row),
    ).fetchone()
    return int(found[0]) if found else None


def _delete(connection: sqlite3.Connection, document: IndexedConversation, last: int) -> None:
    """Delete the passages up to a place, and each unit with any of their words."""
    here = (places_of(document.id)[0], last)
    [(passages, words)] = connection.execute(
        "SELECT count(*), coalesce(sum(words), 0) FROM talk_passages WHERE place BETWEEN ? AND ?", here
    )
    document.passages -= passages
    document.words -= words
    connection.execute("DELETE FROM talk_passages WHERE place BETWEEN ? AND ?", here)
    speakers = connection.execute("SELECT id FROM talk_speakers").fetchall()
    connection.executemany(
        "DELETE FROM talk_spoken WHERE speaker = ? AND place BETWEEN ? AND ?", [(each[0], *here) for each in speakers]
    )
    windows.drop(connection, "first BETWEEN ? AND ?", *here)
    if (
        document.open_unit
        and not connection.execute("SELECT 1 FROM talk_units WHERE id = ?", (document.open_unit,)).fetchone()
    ):
        document.open_unit, document.seam = 0, None


def scope(connection: sqlite3.Connection, wanted: TranscriptQuery, deleted: Mapping[str, int] = NOTHING) -> Scope:
    """Return the places that a search for `wanted` may see.

    `deleted`: sessions with rows that are still in the index, each with the first row that is left.
    """
    since, until = (_midnight(wanted.since), _midnight(wanted.until, days=1))
    ranges: list[tuple[int, int]] = []
    passages = words = 0.0
    known = highest_row(connection)
    for session in dict.fromkeys(name for each in wanted.sessions for name in (each, each + NEWEST_MARK)):
        document = conversation_of(connection, session)
        if document is None or not document.passages:
            continue
        there = list(_places_between(connection, document, since, until))
        row = max(known + 1 if session.endswith(NEWEST_MARK) else 0, deleted.get(session_of(session), 0))
        begin = _first_from(connection, document, row or None)
        if row:
            there = [(max(first, begin), last) for first, last in there if begin is not None and last >= begin]
        share = min(1.0, sum(last - first + 1 for first, last in there) / document.passages)
        ranges += there
        passages += share * document.passages
        words += share * document.words
    if not ranges:
        return NO_PLACES
    places = merge(ranges)
    only = None if not wanted.speaker else frozenset(_find_places(connection, wanted.speaker, places))
    but = frozenset(_of_turn(connection, wanted.but_turn)) if wanted.but_turn else frozenset[int]()
    return Scope(places, max(1, round(passages)), max(1, round(words)), only, but)


def _midnight(day: date | None, days: int = 0) -> float | None:
    if day is None:
        return None
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() + days * _DAY


def _places_between(
    connection: sqlite3.Connection, document: IndexedConversation, since: float | None, until: float | None
) -> Iterator[tuple[int, int]]:
    """Return the places of a conversation's messages from one moment on and before another."""
    first, last = places_of(document.id)
    if not document.orderly and (since is not None or until is not None):
        # The clock was set back during the conversation: every passage is examined.
        rows = connection.execute(
            "SELECT place FROM talk_passages WHERE place BETWEEN ? AND ? AND told >= ? AND told < ?",
            (first, last, -math.inf if since is None else since, math.inf if until is None else until),
        )
        yield from merge((place, place) for (place,) in rows)
        return
    if since is not None:
        first = _first_place(connection, document, since)
    if until is not None:
        last = _first_place(connection, document, until) - 1
    if first <= last:
        yield first, min(last, places_of(document.id)[1])


def _first_place(connection: sqlite3.Connection, document: IndexedConversation, at: float) -> int:
    """Find, by bisection, the first place from which all messages have this time or a later one."""
    low, end = place_of(document.id, 0), place_of(document.id, document.next_position)
    high = end
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(
            "SELECT place, told FROM talk_passages WHERE place >= ? AND place < ? ORDER BY place LIMIT 1", (middle, end)
        ).fetchone()
        if found is None or found[1] >= at:
            high = middle
        else:
            low = found[0] + 1
    return low


def _find_places(connection: sqlite3.Connection, who: str, places: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Return the places where a speaker with this key or whole name speaks, else speakers with these words in their
    names."""
    speakers = connection.execute("SELECT id, sender, name FROM talk_speakers").fetchall()
    wanted = who.casefold().split()
    meant = [number for number, sender, name in speakers if who == sender or wanted == name.casefold().split()]
    if not meant and wanted:
        meant = [number for number, _, name in speakers if set(wanted) <= set(name.casefold().split())]
    for number in meant:
        for first, last in places:
            found = "SELECT place FROM talk_spoken WHERE speaker = ? AND place BETWEEN ? AND ?"
            yield from chain.from_iterable(connection.execute(found, (number, first, last)).fetchall())


def _of_turn(connection: sqlite3.Connection, turn: str) -> list[int]:
    """Return the places of a turn, and of the agents that work in it."""
    root = turn.partition(AGENT_TURN)[0]
    agents = (f"{root}{AGENT_TURN}", f"{root}{AGENT_TURN[:-1]};")  # the character after ":"
    found = "SELECT place FROM talk_passages WHERE turn = ? OR (turn >= ? AND turn < ?)"
    return [place for (place,) in connection.execute(found, (root, *agents))]
