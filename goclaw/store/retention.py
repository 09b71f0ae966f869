"""Deletion of old turns (`retention.days`) that leaves valid conversations.

Whole turns go, oldest first: no result loses its call, and what is left begins with a person's message. The summary in
force stays as long as anything of its session does; it is what the model remembers of the rest.
"""

from sqlalchemy import bindparam, delete, func, or_, select, update

from goclaw.records import record
from goclaw.store.database import Database, Statement
from goclaw.store.forgetting import FORGET_SUMMARIES, Forgetting, Owed, ended
from goclaw.store.media import HAS_MEDIA, media_of
from goclaw.store.tables import checkpoints, compactions, deliveries, inbox, messages, session_settings, sessions

PREFERENCES = ("model", "queue_mode", "mode")
"""Settings of a session that say nothing of what was said: they stay."""

_of_session = messages.c.session == bindparam("of_session")
_first = messages.alias()
_first_at = (
    select(_first.c.created_at).where(_first.c.session == sessions.c.key).order_by(_first.c.id).limit(1)
).scalar_subquery()
_WITH_OLD = Statement(select(sessions.c.key).where(_first_at < bindparam("before")))
_open_turns = select(inbox.c.id).where(inbox.c.state != "done")
_FIRST_YOUNG = Statement(
    select(messages.c.turn)
    .where(_of_session, or_(messages.c.created_at >= bindparam("before"), messages.c.turn.in_(_open_turns)))
    .order_by(messages.c.id)
    .limit(1)
)
_BEGIN_OF_TURN = Statement(select(func.min(messages.c.id)).where(_of_session, messages.c.turn == bindparam("turn")))
_ENDS = Statement(select(func.min(messages.c.id), func.max(messages.c.id)).where(_of_session))

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
_old = (ended, deliveries.c.created_at < bindparam("before"))
_OLD_SENT = Statement(select(deliveries.c.body).where(*_old, func.instr(deliveries.c.body, HAS_MEDIA) > 0))
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
        rows = await self._forgetting.delete(session, first_kept, at, *others, owed=Owed(memory=first < first_kept))
        return Pruned(rows, first_kept, whole)

    async def empty_receipts(self, before: float) -> None:
        """Empty messages and answers that ended before a moment; their ids stay, so that none is processed twice."""
        sent = await self._database.read(_OLD_SENT(before=before))
        owed = await self._forgetting.owed() | Owed(media_of(row[0] for row in sent))
        await self._forgetting.owe(owed, _OLD_INBOX(before=before), _OLD_ANSWERS(before=before))

    async def _boundary(self, session: str, before: float, last: int) -> int:
        """Return the row where the first turn to stay begins; beyond the last row when none stays."""
        young = await self._database.read(_FIRST_YOUNG(of_session=session, before=before))
        if not young:
            return last + 1
        begin = await self._database.read(_BEGIN_OF_TURN(of_session=session, turn=young[0]["turn"]))
        return int(begin[0][0])
