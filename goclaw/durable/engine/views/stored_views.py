"""The stored state of a session, for a process that shows it and does not own it: rows are the truth."""

from collections.abc import Sequence

from sqlalchemy import bindparam, func, select

from goclaw.common.core.events import AGENT_TURN, MessageStored, Outcome, SessionNow, TurnFinished
from goclaw.common.core.messages import AssistantMessage
from goclaw.durable.store.database import Database, Statement
from goclaw.durable.store.schema import inbox, messages
from goclaw.durable.store.transcripts import NOTICE, Transcripts

MAX_ROWS = 5_000
"""Rows that a reader can have missed; before those it has to read the transcript."""
MAX_CALLS = 100
"""Rows in which the last message is looked for, behind which those of its calls stand."""
SETTLED = "settle"
"""The step that ends a turn without a whole answer (`turns.turn.TurnRun.finish`)."""
_SAID = frozenset({"assistant", NOTICE})
_STATE = Statement(select(inbox.c.state).where(inbox.c.id == bindparam("turn")))
_LAST = Statement(select(func.max(messages.c.id)).where(messages.c.session == bindparam("of_session")))
_END = Statement(
    select(messages.c.step, messages.c.role, messages.c.text)
    .where(messages.c.session == bindparam("of_session"), messages.c.turn == bindparam("of_turn"))
    .order_by(messages.c.id.desc())
    .limit(2)
)
"""The last rows of a turn: below what an answer says, a row of its own may say why there is no more."""


def published_to(last: MessageStored, now: SessionNow) -> int:
    """Return the last row that comes before `now`, which was read after `last`.

    A message may be stored and not published yet: its text is still the one that is being written.
    """
    begun = now.text.strip()
    is_being_written = (
        bool(begun)
        and last.turn == now.turn
        and isinstance(last.message, AssistantMessage)
        and last.message.text.strip() == begun
    )
    return last.row - 1 if is_being_written else last.row


class StoredViews:
    """Reads sessions of others. All methods raise DiskError when the store cannot be read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._transcripts = Transcripts(database)

    async def last_row(self, session: str) -> int:
        """Return the last row of a session; 0: it has none."""
        [row] = await self._database.read(_LAST(of_session=session))
        return int(row[0] or 0)

    async def last_message(self, session: str) -> MessageStored | None:
        """Return the last message of a session, if it is among its last rows."""
        rows = await self._transcripts.history(session, 0, MAX_CALLS)
        return rows[-1] if rows else None

    async def rows(self, session: str, after: int) -> Sequence[MessageStored]:
        """Return the messages after a row."""
        return await self._transcripts.history(session, after, MAX_ROWS)

    async def is_open(self, turn: str) -> bool:
        """Whether a turn has still to be ended; an agent's is open while the one that it works for is."""
        rows = await self._database.read(_STATE(turn=turn.partition(AGENT_TURN)[0]))
        return bool(rows) and rows[0]["state"] != "done"

    async def end_of(self, session: str, turn: str) -> TurnFinished:
        """Return how a turn has ended, as far as its rows tell."""
        rows = await self._database.read(_END(of_session=session, of_turn=turn))
        if not rows:
            return TurnFinished(turn, session, Outcome.STOPPED, "")
        outcome = Outcome.FAILED if rows[0]["step"] == SETTLED else Outcome.ANSWERED
        said = [row["text"] for row in reversed(rows) if row["step"] == rows[0]["step"] and row["role"] in _SAID]
        return TurnFinished(turn, session, outcome, "\n\n".join(said))
