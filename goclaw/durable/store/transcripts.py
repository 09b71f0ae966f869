"""Conversations as rows, and rows as conversations.

An answer with tool calls is one `assistant` row and a `tool_use` row per call; each result is a `tool_result` row.
GoClaw's own words in the place of an answer, or below one, are a `notice` row.
Rows are only ever added.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import orjson
from sqlalchemy import and_, bindparam, func, insert, literal, null, or_, select, text, update

from goclaw.common.core.events import MessageStored, SessionInfo, SessionPlace
from goclaw.common.core.messages import (
    SAID,
    SAID_NAME,
    Artifact,
    AssistantMessage,
    Foreign,
    Image,
    Message,
    Native,
    Provenance,
    SourceKind,
    ToolCall,
    ToolResult,
    UserMessage,
    was_denied,
)
from goclaw.common.core.records import record
from goclaw.durable.store.database import (
    BoundStatement,
    Database,
    Row,
    Statement,
    columns_of,
    insert_if,
    insert_into,
)
from goclaw.durable.store.schema import compactions, messages, open_turns, sessions

LAST_ROW = 2**63 - 1
"""SQLite numbers rows up to this."""
JOINING = "join:"
"""Begins the name of the step that took a person's message into a turn of another one; its id follows."""
CLEARED = "cleared"
"""Source of the empty summary that takes another one's place at a `/clear`."""
NOTICE = "notice"
"""Role of a row with GoClaw's own words to people (`AssistantMessage.notice`)."""
TITLE = 80
"""Characters of a message that name its session in a list."""

_INSERT = insert_into(messages, *columns_of(messages))
_SESSION = insert_into(sessions, "key", "created_at", "context_start", ignore_conflict=True)
_of_session = messages.c.session == bindparam("session")
_START = Statement(select(sessions.c.context_start).where(sessions.c.key == bindparam("session")))
_CLEAR = Statement(
    update(sessions).where(sessions.c.key == bindparam("session")).values(context_start=bindparam("context_start"))
)
_LAST_ROW = Statement(select(func.max(messages.c.id)).where(_of_session, messages.c.turn.not_in(open_turns("session"))))
_ROWS_FROM = Statement(
    select(messages)
    .where(_of_session, messages.c.id >= bindparam("first"), messages.c.id < bindparam("before"))
    .order_by(messages.c.id)
)
_TAIL = Statement(
    select(messages)
    .where(_of_session, messages.c.id > bindparam("after"), messages.c.id < bindparam("before"))
    .order_by(messages.c.id.desc())
    .limit(bindparam("limit"))
)
_COUNT = Statement(select(func.count()).where(_of_session))
# What it stands for may have been forgotten while it was written: then its words must not come back.
_of_kept = select(messages.c.id).where(_of_session, messages.c.id == bindparam("first_kept")).exists()
_COMPACTION = insert_if(compactions, _of_kept, *columns_of(compactions))
_beyond = messages.alias()
_NO_SUMMARY = Statement(
    # The turn that runs was compacted before it was cleared around: that summary is of what is hidden, too.
    insert(compactions).from_select(
        columns_of(compactions),
        select(
            bindparam("session", type_=compactions.c.session.type),
            bindparam("created_at", type_=compactions.c.created_at.type),
            literal(""),
            literal(CLEARED),
            select(func.min(_beyond.c.id))
            .where(_beyond.c.session == bindparam("session"), _beyond.c.id > bindparam("last"))
            .scalar_subquery(),
            literal(0),
            literal(0),
            literal(False),
            func.max(compactions.c.id),
            null(),
        )
        .where(compactions.c.session == bindparam("session"), compactions.c.first_kept > bindparam("last"))
        .having(func.max(compactions.c.id).is_not(None)),
    )
)
_last_compaction = (
    select(compactions)
    .where(compactions.c.session == bindparam("session"), compactions.c.first_kept > bindparam("start"))
    .order_by(compactions.c.id.desc())
    .limit(1)
)
_LAST_COMPACTION = Statement(_last_compaction)
_LAST_REAL = Statement(
    _last_compaction.where(compactions.c.first_kept <= bindparam("before"), compactions.c.retry_owed.is_(False))
)
_later, _owed = compactions.alias(), compactions.alias()
_of_owed = _owed.join(sessions, sessions.c.key == _owed.c.session)
_is_owed = (
    _owed.c.retry_owed.is_(True),
    _owed.c.first_kept > sessions.c.context_start,
    ~select(_later.c.id).where(_later.c.session == _owed.c.session, _later.c.id > _owed.c.id).exists(),
)
_OWED = Statement(select(_owed).select_from(_of_owed).where(*_is_owed).order_by(_owed.c.id))
_PAID = insert_if(
    compactions,
    # By whatever process, nothing was compacted or hidden since.
    select(_owed.c.id).select_from(_of_owed).where(_owed.c.id == bindparam("pays"), *_is_owed, _of_kept).exists(),
    *columns_of(compactions),
)
_COMPACTIONS = Statement(
    # A summary that was owed and came later is no compaction of its own, nor is one that was taken away.
    select(func.count()).where(compactions.c.session == bindparam("session"), compactions.c.pays.is_(None))
)
_of_it = messages.c.session == sessions.c.key
_last = messages.alias()
_last_at = (
    select(_last.c.created_at)
    .where(_last.c.session == sessions.c.key)
    .order_by(_last.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_words = messages.alias()
_title = (
    select(func.substr(_words.c.text, 1, TITLE))
    .where(_words.c.session == sessions.c.key, _words.c.role == "user")
    .order_by(_words.c.id.desc())
    .limit(1)
    .scalar_subquery()
)
_page = (
    select(sessions.c.key)
    .where(or_(_last_at < bindparam("at"), and_(_last_at == bindparam("at"), sessions.c.key > bindparam("key"))))
    .order_by(_last_at.desc(), sessions.c.key)
    .limit(bindparam("limit"))
    .correlate(None)
)
_SESSIONS = Statement(
    # Each part goes along the index by session: no row's text is read but that of the row shown.
    select(
        sessions.c.key,
        select(func.count()).select_from(messages).where(_of_it).scalar_subquery(),
        sessions.c.created_at,
        _last_at.label("last_at"),
        _title,
    )
    # Rows are counted for the sessions of the page alone.
    .where(sessions.c.key.in_(_page))
    .order_by(text("last_at DESC"), sessions.c.key)
)
_NEVER = 1e300
"""A moment later than all."""


@record
class Origin:
    """The place and time of a row."""

    session: str
    turn: str
    step: str
    at: float
    sender: str = ""
    context: str = ""
    """The line about time, sender and channel that the model reads before a user's text."""


@record
class StoredMessage:
    """A message with the row that it begins at."""

    row: int
    turn: str
    message: Message
    at: float
    sender: str = ""
    context: str = ""
    joined: str = ""
    """Id of a message that joined a turn."""


@record
class StoredCompaction:
    """The summary that stands for everything before `first_kept`."""

    summary: str
    source: str
    first_kept: int
    tokens_before: int
    tokens_after: int
    at: float
    retry_owed: bool = False
    id: int = 0
    """The row; 0 while it is not stored."""
    pays: int | None = None
    """The compaction whose stub this summary replaces."""
    outside: frozenset[SourceKind] = frozenset()
    """The sources outside the conversation of what it stands for."""


def joining(message_id: str) -> str:
    """Return the name of the step that takes this message into a turn."""
    return f"{JOINING}{message_id}"


def rows_of(message: Message, origin: Origin) -> list[BoundStatement]:
    """Return the INSERTs of one message, for the transaction of the step that made it."""
    match message:
        case UserMessage():
            images = [_of_image(image) for image in message.images]
            pieces = [_of_piece(piece) for piece in message.foreign]
            beside = {"images": _json(images) if images else None, "material": _json(pieces) if pieces else None}
            return [_row(origin, "user", text=message.text, **beside)]
        case AssistantMessage():
            native = message.native
            answer = _row(
                origin,
                NOTICE if message.notice else "assistant",
                text=message.text,
                native_provider=native.provider if native else None,
                native_schema=native.schema if native else None,
                native=_json(native.content) if native else None,
                artifacts=_of_artifacts(message.artifacts) if message.artifacts else None,
            )
            calls = [
                _row(origin, "tool_use", name=call.name, call_id=call.id, input=_json(call.input))
                for call in message.calls
            ]
            return [answer, *calls]
        case ToolResult():
            images = [_of_image(image) for image in message.images]
            return [
                _row(
                    origin,
                    "tool_result",
                    images=_json(images) if images else None,
                    text=message.content,
                    name=message.name,
                    call_id=message.call_id,
                    is_error=message.is_error,
                    denied=message.denied,
                    material=_json(_of_result(message)) if message.foreign else None,
                    hint=message.hint or None,
                    call_hint=message.call_hint or None,
                    artifacts=_of_artifacts(message.artifacts) if message.artifacts else None,
                )
            ]


def _row(origin: Origin, role: str, **values: object) -> BoundStatement:
    return _INSERT(
        **{
            "text": "",
            "is_error": False,
            "session": origin.session,
            "turn": origin.turn,
            "step": origin.step,
            "role": role,
            "sender": origin.sender,
            "context": origin.context,
            "created_at": origin.at,
        }
        | values
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def messages_of(rows: Iterable[Row]) -> list[StoredMessage]:
    """Put rows (oldest first) together to messages. A tenth of a second for ten thousand: not in the event loop."""
    found: list[StoredMessage] = []
    for row in rows:
        if row["role"] == "tool_use" and found and isinstance(answer := found[-1].message, AssistantMessage):
            call = ToolCall(row["call_id"], row["name"], orjson.loads(row["input"]))
            whole = replace(answer, calls=(*answer.calls, call))
            found[-1] = _parse_row(row, whole, first=found[-1].row)
        elif row["role"] != "tool_use":
            found.append(_parse_row(row, _message(row), first=row["id"]))
    return found


def _parse_row(row: Row, message: Message, *, first: int) -> StoredMessage:
    joined = row["step"].removeprefix(JOINING) if row["step"].startswith(JOINING) else ""
    return StoredMessage(first, row["turn"], message, row["created_at"], row["sender"], row["context"], joined)


def _message(row: Row) -> Message:
    match row["role"]:
        case "user":
            images = _images(row)
            pieces = tuple(_piece(*piece) for piece in orjson.loads(row["material"] or "[]"))
            return UserMessage(row["text"], images, pieces)
        case "assistant":
            native = None
            if row["native_provider"] is not None:
                native = Native(row["native_provider"], row["native_schema"], orjson.loads(row["native"]))
            artifacts = artifacts_of(row["artifacts"]) if row["artifacts"] else ()
            return AssistantMessage(row["text"], (), native, artifacts=artifacts)
        case "notice":
            return AssistantMessage(row["text"], notice=True)
        case _:
            return ToolResult(
                row["call_id"],
                row["name"],
                row["text"],
                bool(row["is_error"]),
                foreign=bool(row["material"]),
                provenance=_provenance_of_result(row["material"]),
                hint=row["hint"] or "",
                call_hint=row["call_hint"] or "",
                artifacts=artifacts_of(row["artifacts"]),
                images=_images(row),
                denied=was_denied(row["denied"], row["text"]),
            )


def _of_piece(piece: Foreign) -> list[object]:
    """Return `[start, end, origin]`, then the source, the author and the document as far as they are known."""
    provenance = piece.provenance
    if provenance is None:
        return [piece.start, piece.end, piece.origin]
    author = [provenance.author, piece.blob] if piece.blob else [provenance.author] if provenance.author else []
    return [piece.start, piece.end, piece.origin, provenance.kind, *author]


def _piece(start: int, end: int, origin: str, source: str = "", author: str = "", blob: str = "") -> Foreign:
    """Rebuild a piece stored by `_of_piece`."""
    return Foreign(start, end, origin, Provenance(SourceKind(source), author) if source else None, blob)


def _of_result(message: ToolResult) -> object:
    """Return the source of a result from outside; `true` where it is not known."""
    return message.provenance.kind if message.provenance else True


def _provenance_of_result(column: str | None) -> Provenance | None:
    """Rebuild a provenance stored by `_of_result`."""
    source = orjson.loads(column) if column else None
    return Provenance(SourceKind(source)) if isinstance(source, str) else None


def _of_image(image: Image) -> list[object]:
    return [image.blob, image.mime, image.pages, image.size] if image.pages else [image.blob, image.mime]


def _images(row: Row) -> tuple[Image, ...]:
    return tuple(Image(*image) for image in orjson.loads(row["images"] or "[]"))


def _of_artifacts(artifacts: Iterable[Artifact]) -> str:
    """Return the column `artifacts`: an array of five for each, as former versions read it.

    A message has its text where a file has its name.
    """
    return _json([[each.blob, each.mime, each.kind, each.text or each.name, each.size] for each in artifacts])


def artifacts_of(column: str | None) -> tuple[Artifact, ...]:
    """Rebuild a row's artifacts from its column `artifacts`."""
    return tuple(
        Artifact(kind, blob, mime, SAID_NAME, size, name) if kind == SAID else Artifact(kind, blob, mime, name, size)
        for blob, mime, kind, name, size in orjson.loads(column or "[]")
    )


def _compaction(row: Row) -> StoredCompaction:
    return StoredCompaction(
        row["summary"],
        row["source"],
        row["first_kept"],
        row["tokens_before"],
        row["tokens_after"],
        row["created_at"],
        bool(row["retry_owed"]),
        row["id"],
        row["pays"],
        frozenset(map(SourceKind, orjson.loads(row["outside"] or "[]"))),
    )


def _values(session: str, compaction: StoredCompaction) -> dict[str, object]:
    as_they_are = ("summary", "source", "first_kept", "tokens_before", "tokens_after", "retry_owed", "pays")
    outside = _json(sorted(compaction.outside)) if compaction.outside else None
    of_row = {"session": session, "created_at": compaction.at, "outside": outside}
    return of_row | {name: getattr(compaction, name) for name in as_they_are}


class Transcripts:
    """Questions about conversations, and the two changes that are not steps of a turn: `/clear` and a compaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ensure_session(self, session: str, at: float) -> BoundStatement:
        """Return the INSERT that makes a session's row where it is missing."""
        return _SESSION(key=session, created_at=at, context_start=0)

    async def context(self, session: str) -> tuple[StoredCompaction | None, list[StoredMessage]]:
        """Return the context of the model: the latest summary since `/clear`, and the messages it does not cover."""
        start = await self._context_start(session)
        compaction = await self.last_compaction(session, start)
        first = compaction.first_kept if compaction else start + 1
        rows = await self._database.read(_ROWS_FROM(session=session, first=first, before=LAST_ROW))
        return compaction, await asyncio.to_thread(messages_of, rows)

    async def history(self, session: str, after: int, limit: int, before: int | None = None) -> list[MessageStored]:
        """Return the last `limit` rows beyond `after` (and before `before`), oldest first, put together to messages."""
        last = LAST_ROW if before is None else before
        rows = await self._database.read(_TAIL(session=session, after=after, limit=limit, before=last))
        return [
            MessageStored(stored.turn, session, stored.row, stored.message, stored.at, stored.sender, stored.joined)
            for stored in messages_of(reversed(rows))
        ]

    async def count(self, session: str) -> int:
        """Count all rows that the session ever had."""
        return int((await self._database.read(_COUNT(session=session)))[0][0])

    async def compactions(self, session: str) -> int:
        """Count the compactions of the session."""
        return int((await self._database.read(_COMPACTIONS(session=session)))[0][0])

    async def last_compaction(self, session: str, start: int) -> StoredCompaction | None:
        """Return the latest compaction with its kept part beginning after row `start`."""
        rows = await self._database.read(_LAST_COMPACTION(session=session, start=start))
        return _compaction(rows[0]) if rows else None

    async def originals(self, session: str, before: int) -> tuple[str, list[StoredMessage]]:
        """Return the context before row `before`: the latest real summary, and the messages after it.

        Stubs are ignored: the messages that they replace are returned.
        """
        start = await self._context_start(session)
        real = await self._database.read(_LAST_REAL(session=session, start=start, before=before))
        summary, first = (real[0]["summary"], real[0]["first_kept"]) if real else ("", start + 1)
        rows = await self._database.read(_ROWS_FROM(session=session, first=first, before=before))
        return summary, await asyncio.to_thread(messages_of, rows)

    async def list_missing_summaries(self) -> list[tuple[str, StoredCompaction]]:
        """Return the sessions with a stub at the start of their context, and its compaction; the longest owed first."""
        return [(row["session"], _compaction(row)) for row in await self._database.read(_OWED())]

    async def sessions(self, after: SessionPlace | None = None, limit: int | None = None) -> Sequence[SessionInfo]:
        """Return sessions, the latest first: from a place on, at most so many; all unless told otherwise."""
        at, key = after or (_NEVER, "")
        rows = await self._database.read(_SESSIONS(at=at, key=key, limit=LAST_ROW if limit is None else limit))
        return [SessionInfo(*row) for row in rows]

    async def clear(self, session: str, *, at: float) -> int:
        """Hide everything so far from the model (not from the store), except for turns that have not ended.

        Which turns those are is read together with the rows: the next turn may begin while a caller waits.

        Returns the last row that is hidden.
        """
        rows = await self._database.read(_LAST_ROW(session=session))
        last = int(rows[0][0] or 0)
        await self._database.write(
            self.ensure_session(session, at),
            _CLEAR(session=session, context_start=last),
            _NO_SUMMARY(session=session, created_at=at, last=last),
        )
        return last

    async def add_compaction(self, session: str, compaction: StoredCompaction) -> None:
        """Keep a summary, unless the row that it ends at is gone."""
        await self._database.write(_COMPACTION(**_values(session, compaction)))

    async def replace_stub(self, session: str, compaction: StoredCompaction, *others: BoundStatement) -> bool:
        """Replace a stub by its summary, together with other statements. False: the stub is gone."""
        done = await self._database.write(_PAID(**_values(session, compaction)), *others)
        return done[0].rowcount == 1

    async def _context_start(self, session: str) -> int:
        rows = await self._database.read(_START(session=session))
        return int(rows[0][0]) if rows else 0
