"""Transcript rows as stored: of one session, for display and export, and of all, for the memory index.

`transcripts` has conversations as a model is shown them. The feed gives rows of all sessions together, in the order in
which they were stored, after the last one that the reader has; the memory index keeps a copy. Its reader is notified by
`wake`, and finds deleted rows by comparing where sessions begin.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import orjson
from sqlalchemy import bindparam, case, func, select

from goclaw.common.core.events import CompactionRecord, Outline, TranscriptRow
from goclaw.common.core.messages import OWN, Image
from goclaw.common.core.records import record
from goclaw.durable.store.database import Database, Row, Statement
from goclaw.durable.store.dialect import contains, is_settled
from goclaw.durable.store.schema import compactions, messages, sessions
from goclaw.durable.store.transcripts import CLEARED, artifacts_of

if TYPE_CHECKING:
    from goclaw.durable.store.replicas import SharedVectors

PAGE_ROWS = 100
PAGE_SIZE = 1 << 20
"""Characters after which a page ends: one frame must not hold up the daemon."""

_NATIVE = {"native", "native_provider", "native_schema"}
"""Columns that only the model's provider can read."""
_of_session = messages.c.session == bindparam("session")
_PAGE = Statement(
    select(*(column for column in messages.columns if column.name not in _NATIVE))
    .where(_of_session, messages.c.id > bindparam("after"))
    .order_by(messages.c.id)
    .limit(PAGE_ROWS)
)
_COUNT = Statement(select(func.count()).where(_of_session))
_START = Statement(select(sessions.c.context_start).where(sessions.c.key == bindparam("session")))
_RECORD = ("first_kept", "summary", "source", "tokens_before", "tokens_after", "created_at")
"""Columns of a `CompactionRecord`, in the order of its fields."""
_COMPACTIONS = Statement(
    select(*(compactions.c[name] for name in _RECORD))
    .where(compactions.c.session == bindparam("session"))
    .order_by(compactions.c.id)
)
_BEGIN = Statement(
    # A call belongs to the answer before it.
    select(messages.c.id)
    .where(_of_session, messages.c.role != "tool_use")
    .order_by(messages.c.id.desc())
    .limit(1)
    .offset(bindparam("skipped"))
)
_SHOWS = Statement(
    select(messages.c.images)
    .where(_of_session, messages.c.images.is_not(None), contains(messages.c.images, bindparam("blob")))
    .limit(1)
)
_KEPT = Statement(
    select(messages.c.artifacts)
    .where(_of_session, messages.c.artifacts.is_not(None), contains(messages.c.artifacts, bindparam("blob")))
    .limit(1)
)

FEED_ROWS, MANY_ROWS = 32, 128
FEED_SIZE, MANY_SIZE = 10_000, 60_000
"""Rows and characters after which a page ends: a few milliseconds of the database's reader and of the index, so that
neither the reader nor the interpreter is held for long (pages of 100 rows: four times the lag). The second where a
large backlog is read, some 20 ms of the index a page."""
RESULT_CHARACTERS = 4_000
"""Maximum length of a tool's result; the rest is cut."""

_GIVEN = messages.c.role != "tool_use"
_FEED_PAGE = Statement(
    select(
        *(messages.c[name] for name in ("id", "session", "turn", "role", "name", "material", "hint", "call_hint")),
        *(messages.c[name] for name in ("context", "sender", "created_at")),
        case(
            (messages.c.role == "tool_result", func.substr(messages.c.text, 1, RESULT_CHARACTERS)),
            else_=messages.c.text,
        ).label("text"),
    )
    # The empty row that a deletion leaves belongs to no session.
    .where(messages.c.id > bindparam("after"), _GIVEN, messages.c.session != "", is_settled(messages.c.id))
    .order_by(messages.c.id)
    .limit(bindparam("rows"))
)

_UNSETTLED = Statement(
    select(messages.c.id)
    .where(messages.c.id > bindparam("after"), _GIVEN, messages.c.session != "", ~is_settled(messages.c.id))
    .limit(1)
)
_FEED_END = Statement(select(messages.c.id).where(is_settled(messages.c.id)).order_by(messages.c.id.desc()).limit(1))
UNSETTLED_SECONDS = 0.5
"""Pause before the feed is read again while another transaction of the database holds rows back."""

_AT = Statement(select(messages.c.created_at).where(messages.c.id == bindparam("row"), messages.c.session != ""))


class TranscriptReader:
    """Questions about the rows of a session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        """Return the next rows after `after`, oldest first: a convenient number, none at the end."""
        rows = await self._database.read(_PAGE(session=session, after=after))
        return [_row(row) for row in _within(PAGE_SIZE, rows, lambda row: len(row["text"]) + len(row["input"] or ""))]

    async def keeps(self, session: str, blob: str) -> bool:
        """Whether a call of the session kept the artifact with this key."""
        return bool(await self._database.read(_KEPT(session=session, blob=f'"{blob}"')))

    async def media_name(self, session: str, blob: str) -> str | None:
        """Return the name of a picture or file that a message of the session has; None: none has it."""
        key = f'"{blob}"'
        if kept := await self._database.read(_KEPT(session=session, blob=key)):
            return next((each.name for each in artifacts_of(kept[0][0]) if each.blob == blob), None)
        return "" if await self._database.read(_SHOWS(session=session, blob=key)) else None

    async def outline(self, session: str, last: int = 0) -> Outline:
        """Return the session without its rows; `begins` is where its last `last` messages begin (0: all)."""
        start = await self._database.read(_START(session=session))
        cleared_to = int(start[0][0]) if start else 0
        records = [CompactionRecord(*row) for row in await self._database.read(_COMPACTIONS(session=session))]
        in_force = next((record for record in reversed(records) if record.first_kept > cleared_to), None)
        begin = await self._database.read(_BEGIN(session=session, skipped=last - 1)) if last else []
        return Outline(
            session=session,
            rows=int((await self._database.read(_COUNT(session=session)))[0][0]),
            shown_from=in_force.first_kept if in_force else cleared_to + 1,
            cleared_to=cleared_to,
            begins=int(begin[0][0]) if begin else 0,
            compactions=tuple(record for record in records if record.source != CLEARED),
            summary=in_force if in_force and in_force.source != CLEARED else None,
        )


def _within(limit: int, rows: Sequence[Row], size: Callable[[Row], int]) -> Iterator[Row]:
    """Yield the first row, and the following ones while all together are no larger than `limit`."""
    total = 0
    for at, row in enumerate(rows):
        total += size(row)
        if at and total > limit:
            return
        yield row


def _row(row: Row) -> TranscriptRow:
    return TranscriptRow(
        row=row["id"],
        session=row["session"],
        turn=row["turn"],
        step=row["step"],
        role=row["role"],
        text=row["text"],
        at=row["created_at"],
        sender=row["sender"],
        context=row["context"],
        images=tuple(Image(*image) for image in orjson.loads(row["images"] or "[]")),
        name=row["name"] or "",
        call_id=row["call_id"] or "",
        input=orjson.loads(row["input"]) if row["input"] is not None else None,
        is_error=bool(row["is_error"]),
        hint=row["hint"] or "",
        call_hint=row["call_hint"] or "",
        artifacts=artifacts_of(row["artifacts"]),
    )


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
    """A row of a transcript: the words of a person, the agent or a tool. Calls are left out."""

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
    heading: str = ""
    """Of a tool: call and outcome in one line for people. Of a person: who wrote the pieces by others."""


class TranscriptFeed:
    """Reads rows in their order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._news = asyncio.Event()
        self.deletions = 0
        """Another number whenever something may have been deleted by another gateway."""

    @property
    def vectors(self) -> "SharedVectors | None":
        """The vectors that gateways share; None where there is one alone."""
        return self._database.vectors

    async def after(self, row: int, *, many: bool = False) -> Sequence[FeedRow]:
        """Return the next rows after `row`, a convenient number; none at the end."""
        rows = await self._database.read(_FEED_PAGE(after=row, rows=MANY_ROWS if many else FEED_ROWS))
        if not rows and self._database.is_shared and await self._database.read(_UNSETTLED(after=row)):
            asyncio.get_running_loop().call_later(UNSETTLED_SECONDS, self.wake)
        size = MANY_SIZE if many else FEED_SIZE
        return [_feed_row(each) for each in _within(size, rows, lambda each: len(each["text"]))]

    async def end(self) -> int:
        """Return the number of a row after which `after` has all that is stored from now on; 0: of the first one."""
        rows = await self._database.read(_FEED_END())
        return int(rows[0][0]) if rows else 0

    async def extents(self) -> Mapping[str, tuple[int, int]]:
        """Return the sessions that there are, each with its first and its last row."""
        rows = await self._database.read(_EXTENTS())
        return {session: (first, last) for session, first, last in rows if first is not None}

    async def time_of(self, row: int) -> float | None:
        """Return the time of the row with this number; None: no such row."""
        found = await self._database.read(_AT(row=row))
        return found[0][0] if found else None

    def wake(self) -> None:
        """Wake the readers after a write; costs nothing."""
        self._news.set()

    def on_deletion(self) -> None:
        """Wake the readers after a deletion that another gateway may have made; costs nothing."""
        self.deletions += 1
        self._news.set()

    async def news(self) -> None:
        """Wait until something was written since this was asked last."""
        await self._news.wait()
        self._news.clear()


def _feed_row(row: Row) -> FeedRow:
    pieces = orjson.loads(row["material"]) if row["role"] == "user" and row["material"] else []
    origins = dict.fromkeys(origin for _, _, origin, *source in pieces if not OWN.intersection(source[:1]))
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
        heading="; ".join(origins) or ": ".join(filter(None, (row["call_hint"], row["hint"]))),
    )
