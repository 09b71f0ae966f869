"""Deletion of conversations, forever: all of one (`/forget`) in one transaction, or its old turns (`retention.days`).

Numbers of rows are never used again, although SQLite would do so: a deletion leaves one empty row of no session with
the highest number. So a client that comes back with the last row it saw can learn that it is gone.

What lies outside the database (pictures, long outputs) cannot be part of a transaction. Its names are written down
with the deletion as owed, so that a crash in between only delays it. So is the rewriting of the file: SQLite
overwrites deleted data (`secure_delete`), but copies that it left when it moved rows between pages are gone only
when the file has been rewritten. And so are its part of the memory index and its words in the audit log.

Of old turns whole ones go, oldest first: no result loses its call, and the remainder begins with a person's message.
The summary in force stays while anything of its session does; it is the model's memory of the rest.
"""

import asyncio
import operator
import re
import secrets
from collections.abc import Sequence
from functools import reduce

from sqlalchemy import String, and_, bindparam, delete, func, or_, select, update

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import AGENT_MARK
from goclaw.common.core.records import record
from goclaw.durable.store.database import BoundStatement, Database, Statement, insert_into
from goclaw.durable.store.dialect import contains, json_flag, json_text
from goclaw.durable.store.media import ARTIFACTS, HAS_MEDIA, HAS_UPLOAD, blobs_of, media_of, uploads_of
from goclaw.durable.store.schema import (
    checkpoints,
    compactions,
    daemon_facts,
    deliveries,
    held_messages,
    inbox,
    media_parts,
    messages,
    schedule_runs,
    schedules,
    session_settings,
    sessions,
    tasks,
    usage,
)
from goclaw.durable.store.settings import Settings

OWED = "owed deletions"
"""Name of the daemon's facts that hold a `PendingDeletion` each, with a random number behind a ":".

Each deletion adds one of its own, so that two processes lose nothing of each other's.
"""
EVERYTHING = 2**63 - 1
"""No row has this number."""
_OUTPUT = re.compile(r"output:([0-9a-f]{16})")

_of_session = messages.c.session == bindparam("of_session")
_up_to = (_of_session, messages.c.id < bindparam("first_kept"))
# Ids of deliveries begin with the id of the message that they answer, and ";" is the character after ":".
_answers = (
    select(deliveries.c.seq)
    .join(inbox, and_(deliveries.c.id >= inbox.c.id + ":", deliveries.c.id < inbox.c.id + ";"))
    .where(inbox.c.session == bindparam("of_session"))
)
ended = or_(deliveries.c.state == "sent", deliveries.c.state == "failed")
"""Condition for deliveries that will not be read again."""

_MARK = insert_into(messages, "session", "turn", "step", "role", "text", "created_at")
_FORGET_MESSAGES = Statement(delete(messages).where(*_up_to))
_FORGET_OLD_MARKS = Statement(
    delete(messages).where(messages.c.session == "", messages.c.id < select(func.max(messages.c.id)).scalar_subquery())
)
_TASKS = Statement(select(tasks.c.output, tasks.c.person).where(tasks.c.session == bindparam("of_session")))
_made_here = json_text(schedules.c.body, "session") == bindparam("of_session")
_is_configured = json_flag(schedules.c.body, "configured")
_SCHEDULES = Statement(select(func.count()).where(_made_here, ~_is_configured, schedules.c.state != "done"))
FORGET_SUMMARIES = [
    Statement(delete(table).where(table.c.session == bindparam("of_session"))) for table in (compactions, checkpoints)
]
_FORGET_SETTINGS = Statement(delete(session_settings).where(session_settings.c.session == bindparam("of_session")))
_FORGET_HELD = Statement(delete(held_messages).where(held_messages.c.session == bindparam("of_session")))
# One of the configuration is there again at the next start, with nothing that was said here.
_FORGET_SCHEDULES = Statement(delete(schedules).where(_made_here, ~_is_configured))
_FORGET_ALL = (
    *FORGET_SUMMARIES,
    _FORGET_SETTINGS,
    Statement(delete(tasks).where(tasks.c.session == bindparam("of_session"))),
    _FORGET_HELD,
    Statement(delete(schedule_runs).where(schedule_runs.c.job.in_(select(schedules.c.id).where(_made_here)))),
    _FORGET_SCHEDULES,
    Statement(delete(sessions).where(sessions.c.key == bindparam("of_session"))),
    Statement(update(usage).where(usage.c.session == bindparam("of_session")).values(session="", turn="")),
    # Their ids stay, so that nothing is taken or sent twice.
    Statement(update(deliveries).where(ended, deliveries.c.seq.in_(_answers)).values(body="")),
    Statement(update(inbox).where(inbox.c.session == bindparam("of_session"), inbox.c.state == "done").values(body="")),
    # A group of messages is named by the id of the message that it became.
    Statement(
        delete(media_parts).where(
            media_parts.c.name.in_(select(inbox.c.id).where(inbox.c.session == bindparam("of_session")))
        )
    ),
)
"""Deletes all of a session but its messages, or empties it; its costs lose its name."""

_AGENTS = Statement(
    select(sessions.c.key)
    .where(
        sessions.c.key >= bindparam("of_session", type_=String) + AGENT_MARK,
        sessions.c.key < bindparam("of_session", type_=String) + f"{AGENT_MARK[:-1]};",  # the character after ":"
    )
    .order_by(sessions.c.key)
)
_EXTENT = Statement(select(func.count(), func.min(messages.c.created_at)).where(_of_session))
_OPEN = Statement(select(func.count()).where(inbox.c.session == bindparam("of_session"), inbox.c.state != "done"))
_UNSENT = Statement(select(func.count()).select_from(deliveries).where(~ended, deliveries.c.seq.in_(_answers)))
_IMAGES = Statement(select(messages.c.images).where(*_up_to, messages.c.images.is_not(None)))
_ARTIFACTS = Statement(select(messages.c.artifacts).where(*_up_to, messages.c.artifacts.is_not(None)))
_RESULTS = Statement(
    select(messages.c.text).where(*_up_to, messages.c.role == "tool_result", contains(messages.c.text, "output:"))
)
_SENDERS = Statement(select(messages.c.sender).where(*_up_to, messages.c.sender != "").distinct())
_SENT = Statement(
    select(deliveries.c.body).where(deliveries.c.seq.in_(_answers), contains(deliveries.c.body, HAS_MEDIA))
)
_ATTACHED = Statement(
    select(inbox.c.body).where(inbox.c.session == bindparam("of_session"), contains(inbox.c.body, HAS_UPLOAD))
)
_ALL_IMAGES = Statement(select(messages.c.images).where(messages.c.images.is_not(None)))
_ALL_SENT = Statement(select(deliveries.c.body).where(contains(deliveries.c.body, HAS_MEDIA)))
_OLDEST_OPEN = Statement(select(func.min(inbox.c.received_at)).where(inbox.c.state != "done"))

PREFERENCES = ("model", "queue_mode", "mode")
"""Settings of a session that reveal nothing of its content: they stay."""

_BEGIN_OF_TURN = Statement(select(func.min(messages.c.id)).where(_of_session, messages.c.turn == bindparam("turn")))
_ENDS = Statement(select(func.min(messages.c.id), func.max(messages.c.id)).where(_of_session))

_CANCEL_RETRY = Statement(
    # Nothing is left that a better summary could be made of.
    update(compactions)
    .where(compactions.c.session == bindparam("of_session"), compactions.c.first_kept <= bindparam("first_kept"))
    .values(retry_owed=False)
)
_OLD_CHECKPOINTS = Statement(
    delete(checkpoints).where(
        checkpoints.c.session == bindparam("of_session"), checkpoints.c.created_at < bindparam("before")
    )
)
_YOUNG_COMPACTIONS = Statement(
    select(func.count())
    .select_from(compactions)
    .where(compactions.c.session == bindparam("of_session"), compactions.c.created_at >= bindparam("before"))
)
_OLD_SETTINGS = Statement(
    delete(session_settings).where(
        session_settings.c.session == bindparam("of_session"),
        *(session_settings.c.name != name for name in PREFERENCES),
    )
)
_OLD_INBOX = Statement(
    update(inbox)
    .where(inbox.c.state == "done", inbox.c.ended_at < bindparam("before"), inbox.c.body != "")
    .values(body="")
)
_OLD_PARTS = Statement(
    delete(media_parts).where(
        media_parts.c.name.in_(
            select(inbox.c.id).where(inbox.c.state == "done", inbox.c.ended_at < bindparam("before"))
        )
    )
)


@record
class PendingDeletion:
    """Work that is left after deletions."""

    media: frozenset[str] = frozenset()
    """Keys of pictures and files that may have no references any more."""
    outputs: frozenset[tuple[str, str]] = frozenset()
    """Ids of long outputs, each with the key of the actor that it may belong to."""
    rewrite: bool = False
    """Rewrite the file."""
    memory: bool = False
    """Remove deleted text from the memory index."""
    audit: frozenset[str] = frozenset()
    """Sessions whose words in the audit log are to be blanked."""

    def __or__(self, other: "PendingDeletion") -> "PendingDeletion":
        return PendingDeletion(
            self.media | other.media,
            self.outputs | other.outputs,
            self.rewrite or other.rewrite,
            self.memory or other.memory,
            self.audit | other.audit,
        )

    def __bool__(self) -> bool:
        return self != PendingDeletion()


_OWED: Codec[PendingDeletion] = Codec(PendingDeletion)
_ALL_OWED = Statement(
    select(daemon_facts.c.name, daemon_facts.c.value)
    .where(daemon_facts.c.name >= OWED, daemon_facts.c.name < f"{OWED};")  # ";" is the character after ":"
    .order_by(daemon_facts.c.name)
)
_SETTLE = Statement(delete(daemon_facts).where(daemon_facts.c.name == bindparam("named")))


@record
class Extent:
    """Size of a conversation."""

    rows: int
    first_at: float | None
    schedules: int
    """Schedules that were made there and are not done."""


class Forgetting:
    """The deletions, and the work they leave to do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settings = Settings(database)
        self.retention = Retention(database, self)
        self._read: Sequence[str] | None = None
        """The facts last read by `owed`: `replace_pending` replaces these, and not facts added since."""

    @property
    def describe_copies(self) -> str:
        """Where deleted words stay outside the store, in a sentence for people; empty: nowhere."""
        return self._database.kept_elsewhere

    async def extent(self, session: str) -> Extent:
        """Return the facts that a person should know before it is deleted."""
        row = (await self._database.read(_EXTENT(of_session=session)))[0]
        made = (await self._database.read(_SCHEDULES(of_session=session)))[0][0]
        return Extent(int(row[0]), row[1], int(made))

    async def agents_of(self, session: str) -> Sequence[str]:
        """Return the sessions of the agents that worked for a session, however deep."""
        return [row[0] for row in await self._database.read(_AGENTS(of_session=session))]

    async def count_open_work(self, session: str) -> int:
        """Return messages of the session that are not answered yet, and answers that have not reached their chat."""
        counts = [await self._database.read(each(of_session=session)) for each in (_OPEN, _UNSENT)]
        return sum(int(rows[0][0]) for rows in counts)

    async def forget(self, session: str, at: float) -> int:
        """Delete all that was said in a session, and its settings; its costs stay in the sums, without its name.

        No turn of it may run or wait. Returns the number of rows.
        """
        sent = await self._database.read(_SENT(of_session=session))
        attached = await self._database.read(_ATTACHED(of_session=session))
        said = await self._database.read(_TASKS(of_session=session))
        outputs = frozenset((row["output"].removeprefix("output:"), row["person"]) for row in said)
        media = media_of(row[0] for row in sent) | uploads_of(row[0] for row in attached)
        return await self.delete(
            session,
            EVERYTHING,
            at,
            *(statement(of_session=session) for statement in _FORGET_ALL),
            owed=PendingDeletion(media, outputs, True, True, frozenset({session})),
        )

    async def delete(
        self, session: str, first_kept: int, at: float, *others: BoundStatement, owed: PendingDeletion
    ) -> int:
        """Delete the rows of a session before `first_kept`, together with other statements; returns how many."""
        left = owed | await self._files(session, first_kept)
        done = await self._database.write(
            _MARK(session="", turn="", step="", role="user", text="", created_at=at),
            _FORGET_MESSAGES(of_session=session, first_kept=first_kept),
            _FORGET_OLD_MARKS(),
            *others,
            *self._owing(left),
            durable=True,
        )
        return done[1].rowcount

    async def list_pending(self) -> PendingDeletion:
        """Return the work that is left."""
        rows = await self._database.read(_ALL_OWED())
        self._read = [row["name"] for row in rows]
        return reduce(operator.or_, (_OWED.from_json(row["value"]) for row in rows), PendingDeletion())

    async def replace_pending(self, owed: PendingDeletion, *others: BoundStatement) -> None:
        """Replace what `list_pending` has returned, or would, together with other statements."""
        if self._read is None:
            await self.list_pending()
        settled, self._read = self._read or (), None
        await self._database.write(*others, *(_SETTLE(named=name) for name in settled), *self._owing(owed))

    def _owing(self, left: PendingDeletion) -> Sequence[BoundStatement]:
        return [self._settings.learning(f"{OWED}:{secrets.token_hex(8)}", _OWED.to_data(left))] if left else []

    async def rewrite(self) -> bool:
        """Rewrite the file; False: it could not be done now."""
        return await self._database.rewrite()

    async def referred_media(self) -> frozenset[str]:
        """Return keys of the pictures and files that any conversation or delivery refers to."""
        images = await self._database.read(_ALL_IMAGES())
        kept = await self._database.read(ARTIFACTS())
        sent = await self._database.read(_ALL_SENT())
        return blobs_of(row[0] for row in [*images, *kept]) | media_of(row[0] for row in sent)

    async def oldest_open_turn(self) -> float | None:
        """Return the time of the oldest message without an answer: its turn may be fetching pictures."""
        found: float | None = (await self._database.read(_OLDEST_OPEN()))[0][0]
        return found

    async def _files(self, session: str, first_kept: int) -> PendingDeletion:
        """Return the files that the rows before `first_kept` refer to."""
        part = {"of_session": session, "first_kept": first_kept}
        images = [*await self._database.read(_IMAGES(**part)), *await self._database.read(_ARTIFACTS(**part))]
        results = await self._database.read(_RESULTS(**part))
        senders = [row[0] for row in await self._database.read(_SENDERS(**part))]
        ids = await asyncio.to_thread(_outputs, [row[0] for row in results])
        # The owner of an output is part of its name: an id that another person wrote down leads nowhere.
        outputs = frozenset((found, sender) for found in ids for sender in senders)
        return PendingDeletion(blobs_of(row[0] for row in images), outputs)


def _outputs(texts: Sequence[str]) -> set[str]:
    return {found for text in texts for found in _OUTPUT.findall(text)}


_first = messages.alias()
_first_at = (
    select(_first.c.created_at).where(_first.c.session == sessions.c.key).order_by(_first.c.id).limit(1)
).scalar_subquery()
_WITH_OLD = Statement(select(sessions.c.key).where(_first_at < bindparam("before")).order_by(sessions.c.key))
_open_turns = select(inbox.c.id).where(inbox.c.state != "done")
_FIRST_YOUNG = Statement(
    select(messages.c.turn)
    .where(_of_session, or_(messages.c.created_at >= bindparam("before"), messages.c.turn.in_(_open_turns)))
    .order_by(messages.c.id)
    .limit(1)
)

_start = select(sessions.c.context_start).where(sessions.c.key == bindparam("of_session")).scalar_subquery()
_shown = select(func.max(compactions.c.id)).where(
    compactions.c.session == bindparam("of_session"), compactions.c.first_kept > _start
)
# A stub is paid from the latest real summary and the messages since.
_real = _shown.where(compactions.c.retry_owed.is_(False))
_OLD_COMPACTIONS = Statement(
    delete(compactions).where(
        compactions.c.session == bindparam("of_session"),
        compactions.c.created_at < bindparam("before"),
        *(compactions.c.id != func.coalesce(kept.scalar_subquery(), 0) for kept in (_shown, _real)),
    )
)
_old = (ended, deliveries.c.created_at < bindparam("before"))
_OLD_SENT = Statement(select(deliveries.c.body).where(*_old, contains(deliveries.c.body, HAS_MEDIA)))
_OLD_ANSWERS = Statement(update(deliveries).where(*_old, deliveries.c.body != "").values(body=""))


@record
class Pruned:
    """Number of rows that retention deleted of a session."""

    rows: int
    first_kept: int
    """The row where the conversation begins now."""
    whole: bool
    """Nothing is left of it, its summary included."""


class Retention:
    """The deletions of old turns."""

    def __init__(self, database: Database, forgetting: Forgetting) -> None:
        self._database = database
        self._forgetting = forgetting

    async def sessions(self, before: float) -> list[str]:
        """Return sessions that have messages from before a moment."""
        return [row["key"] for row in await self._database.read(_WITH_OLD(before=before))]

    async def prune(self, session: str, before: float, at: float) -> Pruned:
        """Delete the turns of a session that had ended before a moment. What `/clear` hid stays hidden."""
        first, last = (int(row or 0) for row in (await self._database.read(_ENDS(of_session=session)))[0])
        first_kept = await self._boundary(session, before, last)
        young = await self._database.read(_YOUNG_COMPACTIONS(of_session=session, before=before))
        whole = first_kept > last and not young[0][0]
        if whole:
            others = [statement(of_session=session) for statement in (*FORGET_SUMMARIES, _OLD_SETTINGS)]
        else:
            others = [
                _OLD_COMPACTIONS(of_session=session, before=before),
                _CANCEL_RETRY(of_session=session, first_kept=first_kept),
                _OLD_CHECKPOINTS(of_session=session, before=before),
            ]
        rows = await self._forgetting.delete(
            session, first_kept, at, *others, owed=PendingDeletion(memory=first < first_kept)
        )
        return Pruned(rows, first_kept, whole)

    async def empty_receipts(self, before: float) -> None:
        """Empty messages and answers that ended before a moment; their ids stay, so that none is processed twice."""
        sent = await self._database.read(_OLD_SENT(before=before))
        owed = await self._forgetting.list_pending() | PendingDeletion(media_of(row[0] for row in sent))
        await self._forgetting.replace_pending(
            owed, _OLD_INBOX(before=before), _OLD_PARTS(before=before), _OLD_ANSWERS(before=before)
        )

    async def _boundary(self, session: str, before: float, last: int) -> int:
        """Return the row where the first turn to stay begins; beyond the last row when none stays."""
        young = await self._database.read(_FIRST_YOUNG(of_session=session, before=before))
        if not young:
            return last + 1
        begin = await self._database.read(_BEGIN_OF_TURN(of_session=session, turn=young[0]["turn"]))
        return int(begin[0][0])
