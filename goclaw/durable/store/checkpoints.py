"""Checkpoints as rows; only ever added, except when forgotten (`forgetting`)."""

from sqlalchemy import bindparam, func, select

from goclaw.common.core.records import record
from goclaw.durable.store.database import Database, Statement, insert_if
from goclaw.durable.store.schema import checkpoints, messages, sessions

_INSERT = insert_if(
    checkpoints,
    # What it covers may have been forgotten while it was written: then its words must not come back.
    select(messages.c.id)
    .where(messages.c.session == bindparam("session"), messages.c.id == bindparam("covers_to"))
    .exists(),
    *("session", "created_at", "covers_to", "tokens", "body"),
)
_LATEST = Statement(
    select(checkpoints)
    .join(sessions, sessions.c.key == checkpoints.c.session)
    .where(
        checkpoints.c.session == bindparam("session"),
        # What was cleared away must not come back.
        checkpoints.c.covers_to > sessions.c.context_start,
    )
    .order_by(checkpoints.c.id.desc())
    .limit(1)
)
_TURNS_SINCE = Statement(
    select(func.count()).where(
        messages.c.session == bindparam("session"), messages.c.id > bindparam("after"), messages.c.role == "user"
    )
)


@record
class StoredCheckpoint:
    """A row."""

    covers_to: int
    """Row of the last message that it covers."""
    tokens: int
    """Size of the context when it was made."""
    body: str
    """The `agent.context.summary.Checkpoint` as JSON."""
    at: float


class CheckpointStore:
    """Keeps checkpoints."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, session: str, checkpoint: StoredCheckpoint) -> None:
        """Keep one, unless the rows it covers are gone."""
        await self._database.write(
            _INSERT(
                session=session,
                created_at=checkpoint.at,
                covers_to=checkpoint.covers_to,
                tokens=checkpoint.tokens,
                body=checkpoint.body,
            )
        )

    async def latest(self, session: str) -> StoredCheckpoint | None:
        """Return the latest one that the session's context began with after the last `/clear`."""
        rows = await self._database.read(_LATEST(session=session))
        if not rows:
            return None
        row = rows[0]
        return StoredCheckpoint(row["covers_to"], row["tokens"], row["body"], row["created_at"])

    async def turns_since(self, session: str, row: int) -> int:
        """Count the messages of people after a row."""
        return int((await self._database.read(_TURNS_SINCE(session=session, after=row)))[0][0])
