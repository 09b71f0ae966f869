"""Conversations row by row, for display and export; `transcripts` has them as a model is shown them."""

import sqlite3
from collections.abc import Sequence

import orjson
from sqlalchemy import bindparam, func, select

from goclaw.events import CompactionRecord, Outline, TranscriptRow
from goclaw.messages import Image
from goclaw.store.database import Database, Statement
from goclaw.store.tables import compactions, messages, sessions
from goclaw.store.transcripts import CLEARED, artifacts_of

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
_COMPACTIONS = Statement(
    select(compactions).where(compactions.c.session == bindparam("session")).order_by(compactions.c.id)
)
_BEGIN = Statement(
    # A call belongs to the answer before it.
    select(messages.c.id)
    .where(_of_session, messages.c.role != "tool_use")
    .order_by(messages.c.id.desc())
    .limit(1)
    .offset(bindparam("skipped"))
)


_KEEPS = Statement(
    select(messages.c.id)
    .where(_of_session, messages.c.artifacts.is_not(None), func.instr(messages.c.artifacts, bindparam("blob")) > 0)
    .limit(1)
)


class TranscriptReader:
    """Questions about the rows of a session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, session: str, after: int) -> Sequence[TranscriptRow]:
        """Return the next rows after `after`, oldest first: as many as are convenient at once, none at the end."""
        found: list[TranscriptRow] = []
        size = 0
        for row in await self._database.read(_PAGE(session=session, after=after)):
            size += len(row["text"]) + len(row["input"] or "")
            if found and size > PAGE_SIZE:
                break
            found.append(_row(row))
        return found

    async def keeps(self, session: str, blob: str) -> bool:
        """Whether a call of the session kept the artifact with this key."""
        return bool(await self._database.read(_KEEPS(session=session, blob=f'"{blob}"')))

    async def outline(self, session: str, last: int = 0) -> Outline:
        """Return the session beside its rows; `begins` is where its last `last` messages begin (0: all)."""
        start = await self._database.read(_START(session=session))
        cleared_to = int(start[0][0]) if start else 0
        records = [_record(row) for row in await self._database.read(_COMPACTIONS(session=session))]
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


def _row(row: sqlite3.Row) -> TranscriptRow:
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
        images=tuple(Image(blob, mime) for blob, mime in orjson.loads(row["images"] or "[]")),
        name=row["name"] or "",
        call_id=row["call_id"] or "",
        input=orjson.loads(row["input"]) if row["input"] is not None else None,
        is_error=bool(row["is_error"]),
        hint=row["hint"] or "",
        call_hint=row["call_hint"] or "",
        artifacts=artifacts_of(row["artifacts"]),
    )


def _record(row: sqlite3.Row) -> CompactionRecord:
    return CompactionRecord(
        row["first_kept"],
        row["summary"],
        row["source"],
        row["tokens_before"],
        row["tokens_after"],
        row["created_at"],
    )
