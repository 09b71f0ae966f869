"""The statements of the journal about `inbox` and `steps`."""

from sqlalchemy import and_, bindparam, delete, exists, func, or_, select, update

from goclaw.durable.store.database import Statement, insert_into
from goclaw.durable.store.dialect import contains, is_of_the_dead
from goclaw.durable.store.schema import inbox, session_settings, steps

LOOK_BACK = 2_000
"""Rows of the inbox searched for the older version of an edited message: there is no index of them."""

SUBMIT = insert_into(inbox, "id", "session", "kind", "body", "state", "received_at", ignore_conflict=True)
SUBMIT_NEW = insert_into(inbox, "id", "session", "kind", "body", "state", "received_at")
SETTLED = insert_into(inbox, "id", "session", "kind", "body", "state", "received_at", "ended_at", ignore_conflict=True)
# Never a turn that has ended meanwhile: that would open it again at the next start.
STOPPING = Statement(
    update(inbox).where(inbox.c.id == bindparam("turn"), inbox.c.state != "done").values(state="stopping")
)
# Never one that is being stopped: its words are kept as they were.
REPLACE = Statement(
    update(inbox)
    .where(inbox.c.id == bindparam("turn"), or_(inbox.c.state == "new", inbox.c.state == "next"))
    .values(body=bindparam("new_body"))
)
END = Statement(update(inbox).where(inbox.c.id == bindparam("turn")).values(state="done", ended_at=bindparam("at")))
_WITH_BEGUN = select(inbox, exists().where(steps.c.turn == inbox.c.id).label("begun")).order_by(inbox.c.seq)
OPEN = Statement(_WITH_BEGUN.where(inbox.c.state != "done"))
OPEN_OF = Statement(_WITH_BEGUN.where(inbox.c.state != "done", inbox.c.session == bindparam("of_session")))
QUEUE = Statement(
    select(inbox.c.id).where(inbox.c.state != "done", inbox.c.session == bindparam("of_session")).order_by(inbox.c.seq)
)
_IN_SESSION = (inbox.c.session == bindparam("of_session"), inbox.c.state != "done")
MEETS = Statement(
    select(
        select(func.count()).select_from(inbox).where(*_IN_SESSION).scalar_subquery().label("open"),
        select(func.count())
        .select_from(steps)
        .join(inbox, inbox.c.id == steps.c.turn)
        .where(*_IN_SESSION, steps.c.state == "parked", steps.c.name.not_like(bindparam("pauses")))
        .scalar_subquery()
        .label("asked"),
        select(session_settings.c.value)
        .where(session_settings.c.session == bindparam("of_session"), session_settings.c.name == bindparam("mode"))
        .scalar_subquery()
        .label("chosen"),
    )
)
"""The state of a session when a message arrives: open turns, questions that wait, and a setting's value."""
OPEN_SESSIONS = Statement(select(inbox.c.session).where(inbox.c.state != "done").distinct().order_by(inbox.c.session))
KNOWN = Statement(select(func.count()).where(inbox.c.id == bindparam("turn")))
VERSION = Statement(
    select(inbox.c.body)
    .where(
        inbox.c.seq > select(func.max(inbox.c.seq)).scalar_subquery() - LOOK_BACK,
        inbox.c.session == bindparam("of_session"),
        inbox.c.kind == "message",
        contains(inbox.c.body, bindparam("named")),
    )
    .order_by(inbox.c.seq.desc())
    .limit(1)
)
PRUNE = Statement(delete(inbox).where(inbox.c.state == "done", inbox.c.ended_at < bindparam("before")))
INTENT = insert_into(steps, "turn", "name", "state")
FORGET_INTENT = Statement(delete(steps).where(steps.c.turn == bindparam("turn"), steps.c.name == bindparam("name")))
PARK = insert_into(steps, "turn", "name", "state", "output")
DONE = insert_into(steps, "turn", "name", "state", "output")
STEPS = Statement(select(steps).where(steps.c.turn == bindparam("turn")))
PARKED = Statement(
    select(steps.c.turn, steps.c.name, steps.c.output, inbox.c.session)
    .join(inbox, inbox.c.id == steps.c.turn)
    .where(steps.c.state == "parked", or_(inbox.c.state == "new", inbox.c.state == "next"))
    .order_by(inbox.c.seq)
)
OF_NO_MESSAGE = and_(steps.c.turn.not_in(select(inbox.c.id)), is_of_the_dead(steps.c.turn))
LOOSE = Statement(select(func.count()).select_from(steps).where(OF_NO_MESSAGE))
FORGET_LOOSE = Statement(delete(steps).where(OF_NO_MESSAGE))
FORGET_STEPS = Statement(delete(steps).where(steps.c.turn == bindparam("turn")))
ANSWERED = Statement(
    update(steps)
    .where(steps.c.turn == bindparam("of_turn"), steps.c.name == bindparam("of_name"), steps.c.state == "parked")
    .values(state="done", output=bindparam("output"))
)
