"""Closing of open turns and deliveries in a copy of the database, so that a restored daemon does nothing twice.

A turn that was open when the copy was made has been answered since, and a delivery that was pending has arrived: both
would be done again. So all of them are closed; the conversations say so in words. Messages that the replaced database
accepted after the copy was made stay accepted: Telegram may send them again until they are acknowledged.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import bindparam, delete, func, or_, select, update

from goclaw.common.auth.audit import FACT
from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Inbound
from goclaw.common.core.messages import AssistantMessage, UserMessage
from goclaw.common.core.records import record
from goclaw.conversation.agent.prompt import envelope
from goclaw.durable.store.database import BoundStatement, Statement, insert_into
from goclaw.durable.store.schema import daemon_facts, deliveries, held_messages, inbox, messages, sessions, steps
from goclaw.durable.store.sqlite.database import run
from goclaw.durable.store.transcripts import Origin, rows_of

_INBOUND: Codec[Inbound] = Codec(Inbound)

_OPEN = Statement(select(inbox).where(inbox.c.state != "done").order_by(inbox.c.seq))
_HEARD = Statement(
    select(func.count()).where(messages.c.turn == bindparam("turn"), messages.c.role == bindparam("role"))
)
_SESSION = insert_into(sessions, "key", "created_at", "context_start", ignore_conflict=True)
_END = Statement(update(inbox).where(inbox.c.state != "done").values(state="done", ended_at=bindparam("at")))
_FORGET_STEPS = Statement(delete(steps))
_FORGET_AUDIT = Statement(
    delete(daemon_facts).where(or_(daemon_facts.c.name == FACT, daemon_facts.c.name.startswith(f"{FACT}:")))
)
_DROP = Statement(
    update(deliveries)
    .where(or_(deliveries.c.state == "pending", deliveries.c.state == "sending"))
    .values(state="failed", error=bindparam("reason"))
)
_DROP_HELD = Statement(update(held_messages).where(held_messages.c.until.is_not(None)).values(until=None))
_TAKEN = Statement(select(inbox).order_by(inbox.c.seq))
_HIGHEST = Statement(select(func.coalesce(func.max(messages.c.id), 0)))
_MARK = insert_into(messages, "id", "session", "turn", "step", "role", "text", "created_at")
_REMEMBER = insert_into(
    inbox, "id", "session", "kind", "body", "state", "received_at", "ended_at", ignore_conflict=True
)


@record
class Settled:
    """Turns and deliveries that were closed."""

    turns: int
    deliveries: int


def moment(at: float) -> str:
    """Return a time in words: `2026-11-21 12:50 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def end_open_work(path: Path, made_at: float, now: float) -> Settled:
    """End every open turn and delivery of the database at `path`, which is a copy that was made at `made_at`.

    A message that was not processed yet becomes a part of its conversation, so that nothing is lost; each of the turns
    gets a line about its end.
    """
    words = f"not taken up: restored from a backup of {moment(made_at)}"
    with _transaction(path) as connection:
        turns = _rows(connection, _OPEN())
        for row in turns:
            for statement in _last_words(connection, row, f"[{words}]", now):
                run(connection, statement)
        run(connection, _END(at=now))
        run(connection, _FORGET_STEPS())
        dropped = run(connection, _DROP(reason=words)).rowcount + run(connection, _DROP_HELD()).rowcount
        # The files of the audit log are in no backup: it is that of this machine which goes on.
        run(connection, _FORGET_AUDIT())
    return Settled(len(turns), dropped)


def remember_replaced(path: Path, replaced: Path, now: float) -> int | None:
    """Copy the ids of all messages of the database `replaced` into the database at `path`, as done.

    Numbers of rows that were used there are not used again (see `store.forgetting`): a terminal that comes back with
    one of them must learn that it is gone, and not miss what else would have got that number.

    Returns how many of those messages had not been answered yet; None when `replaced` cannot be read.
    """
    if not replaced.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"{replaced.as_uri()}?mode=ro", uri=True)) as old:
            old.row_factory = sqlite3.Row
            taken, highest = _rows(old, _TAKEN()), _rows(old, _HIGHEST())[0][0]
    except sqlite3.Error:
        return None
    waiting = 0
    with _transaction(path) as connection:
        for row in taken:
            values = {name: row[name] for name in ("id", "session", "kind", "received_at")}
            # The words stay where they were: only the id must be known.
            done = _REMEMBER(**values, body="", state="done", ended_at=row["ended_at"] or now)
            waiting += run(connection, done).rowcount and row["state"] != "done"
        if highest > _rows(connection, _HIGHEST())[0][0]:
            run(connection, _MARK(id=highest, session="", turn="", step="", role="user", text="", created_at=now))
    return waiting


def _last_words(connection: sqlite3.Connection, row: sqlite3.Row, words: str, now: float) -> Iterator[BoundStatement]:
    turn, session = row["id"], row["session"]
    inbound = _INBOUND.from_json(row["body"])
    if row["kind"] == "compact":
        return
    yield _SESSION(key=session, created_at=now, context_start=0)
    if not _rows(connection, _HEARD(turn=turn, role="user"))[0][0]:
        heard = Origin(session, turn, "user", row["received_at"], inbound.actor.key, envelope(inbound))
        yield from rows_of(UserMessage(inbound.text, foreign=inbound.foreign), heard)
    yield from rows_of(AssistantMessage(words, notice=True), Origin(session, turn, "settle", now))


@contextmanager
def _transaction(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def _rows(connection: sqlite3.Connection, statement: BoundStatement) -> list[sqlite3.Row]:
    return run(connection, statement).fetchall()
