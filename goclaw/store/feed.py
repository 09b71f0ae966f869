"""Transcript rows in the order in which they were stored, for the memory index, which keeps a copy.

Rows of all sessions together, after the last one that the reader has; `reading` has those of one session. The
reader is notified by `stored`. It finds deleted rows by comparing where sessions begin.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence

import orjson
from sqlalchemy import bindparam, case, func, select

from goclaw.messages import OWN
from goclaw.records import record
from goclaw.store.database import Database, Statement
from goclaw.store.tables import messages

PAGE_ROWS = 32
PAGE_SIZE = 10_000
"""Characters after which a page ends: a few milliseconds of the database's reader and of the index, so that
neither the reader nor the interpreter is held for long (pages of 100 rows: four times the lag)."""
RESULT_CHARACTERS = 4_000
"""Maximum length of a tool's result; the rest is cut."""

_GIVEN = messages.c.role != "tool_use"
_PAGE = Statement(
    select(
        messages.c.id,
        messages.c.session,
        messages.c.turn,
        messages.c.role,
        case(
            (messages.c.role == "tool_result", func.substr(messages.c.text, 1, RESULT_CHARACTERS)),
            else_=messages.c.text,
        ).label("text"),
        messages.c.name,
        messages.c.material,
        messages.c.hint,
        messages.c.call_hint,
        messages.c.context,
        messages.c.sender,
        messages.c.created_at,
    )
    # The empty row that a deletion leaves belongs to no session.
    .where(messages.c.id > bindparam("after"), _GIVEN, messages.c.session != "")
    .order_by(messages.c.id)
    .limit(PAGE_ROWS)
)


_AT = Statement(select(messages.c.created_at).where(messages.c.id == bindparam("row"), messages.c.session != ""))


def _extents() -> Statement:
    """Select every session with its first and last row: two steps along the index for each, whatever its length."""
    names = select(func.min(messages.c.session).label("session")).where(messages.c.session > "").cte(recursive=True)
    later = select(func.min(messages.c.session)).where(messages.c.session > names.c.session).scalar_subquery()
    names = names.union_all(select(later).where(names.c.session.is_not(None)))
    of_it = (messages.c.session == names.c.session, _GIVEN)
    first, last = messages.c.id.asc(), messages.c.id.desc()
    ends = [select(messages.c.id).where(*of_it).order_by(by).limit(1).scalar_subquery() for by in (first, last)]
    return Statement(select(names.c.session, *ends).where(names.c.session.is_not(None)))


_EXTENTS = _extents()


@record
class FeedRow:
    """A row of a transcript: what a person, the agent or a tool said. Calls are left out."""

    row: int
    session: str
    turn: str
    role: str
    """user, assistant or tool_result."""
    text: str
    """The text; of a tool's result the beginning."""
    at: float
    sender: str = ""
    """Actor key of a person."""
    context: str = ""
    """The line about time, sender and channel that the model reads before a person's text."""
    name: str = ""
    """Name of the tool."""
    hint: str = ""
    call_hint: str = ""
    """The outcome and the call in one line for people."""
    origins: tuple[str, ...] = ()
    """Origins of the pieces of a person's text that others wrote."""


class TranscriptFeed:
    """Reads on. Implements `memory.transcript_indexer.Feed`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._news = asyncio.Event()

    async def after(self, row: int) -> Sequence[FeedRow]:
        """Return the next rows after `row`, as many as are convenient at once; none at the end."""
        found: list[FeedRow] = []
        size = 0
        for each in await self._database.read(_PAGE(after=row)):
            size += len(each["text"])
            if found and size > PAGE_SIZE:
                break
            found.append(_row(each))
        return found

    async def extents(self) -> Mapping[str, tuple[int, int]]:
        """Return the sessions that there are, each with its first and its last row."""
        rows = await self._database.read(_EXTENTS())
        return {session: (first, last) for session, first, last in rows if first is not None}

    async def said_at(self, row: int) -> float | None:
        """Return the time of the row with this number; None: no such row."""
        found = await self._database.read(_AT(row=row))
        return found[0][0] if found else None

    def stored(self) -> None:
        """Wake the readers after a write; costs nothing."""
        self._news.set()

    async def news(self) -> None:
        """Wait until something was written since this was asked last."""
        await self._news.wait()
        self._news.clear()


def _row(row: sqlite3.Row) -> FeedRow:
    pieces = orjson.loads(row["material"]) if row["role"] == "user" and row["material"] else []
    return FeedRow(
        row=row["id"],
        session=row["session"],
        turn=row["turn"],
        role=row["role"],
        text=row["text"],
        at=row["created_at"],
        sender=row["sender"],
        context=row["context"],
        name=row["name"] or "",
        hint=row["hint"] or "",
        call_hint=row["call_hint"] or "",
        origins=tuple(dict.fromkeys(origin for _, _, origin, *source in pieces if not OWN.intersection(source[:1]))),
    )
