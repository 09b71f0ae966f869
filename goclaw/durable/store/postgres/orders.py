"""Orders from one process to the one that works on a session: a row each, and two notices.

The asker deletes the row with its reply, also when its time is over: work not begun by then is no longer begun.
Its time runs on the database's clock. Rows of askers that died are swept away.
"""

import asyncio
import secrets
from collections.abc import Sequence

from goclaw.common.core.clock import Clock
from goclaw.common.core.fencing import under_fence
from goclaw.common.core.supervise import set_within
from goclaw.durable.store.database import Database, Statement
from goclaw.durable.store.ownership import Order
from goclaw.durable.store.postgres.notices import Notices
from goclaw.errors import NotAnswered, StateError

GIVEN, ANSWERED = "orders", "replies"
"""Topics of the notices that a session was given an order, and that an order has its reply."""
ORDERS = """
CREATE TABLE orders (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id VARCHAR COLLATE "C" NOT NULL UNIQUE,
    session VARCHAR COLLATE "C" NOT NULL, name VARCHAR COLLATE "C" NOT NULL, body TEXT COLLATE "C" NOT NULL,
    until TIMESTAMPTZ NOT NULL, reply TEXT COLLATE "C", is_refusal BOOLEAN NOT NULL DEFAULT false
);
CREATE INDEX orders_by_session ON orders (session, seq) WHERE reply IS NULL;
CREATE INDEX inbox_open_by_session ON inbox (session, seq) WHERE state <> 'done';
"""
"""The index is for looks at one session only: the owner that takes a message in, and every other process."""
_SWEEP = Statement("DELETE FROM orders WHERE until < clock_timestamp()")
_GIVE = Statement(
    "INSERT INTO orders (id, session, name, body, until) "
    "VALUES (:id, :session, :name, :body, clock_timestamp() + make_interval(secs => :seconds))"
)
_OPEN = Statement(
    "SELECT id, session, name, body FROM orders "
    "WHERE session = :session AND reply IS NULL AND until > clock_timestamp() ORDER BY seq"
)
_ANSWER = Statement("UPDATE orders SET body = '', reply = :reply, is_refusal = :is_refusal WHERE id = :id")
_TAKE_REPLY = Statement("DELETE FROM orders WHERE id = :id AND reply IS NOT NULL RETURNING reply, is_refusal")
_TAKE_BACK = Statement("DELETE FROM orders WHERE id = :id RETURNING reply, is_refusal")
_WANT = Statement("SELECT want_session(:session)")


class PostgresOrders:
    """Implements `store.ownership.Orders`."""

    def __init__(self, database: Database, notices: Notices, clock: Clock) -> None:
        self._database = database
        self._notices = notices
        self._clock = clock
        self._asked: dict[str, asyncio.Event] = {}
        """By the id of an order of this process: set when it may have its reply."""
        notices.subscribe(ANSWERED, self._on_answer, self._answered_perhaps)

    async def request(self, session: str, name: str, body: str, seconds: float) -> str:
        order, told = secrets.token_hex(8), self._notices.notice_for
        news = self._asked[order] = asyncio.Event()
        until = self._clock.monotonic() + seconds
        try:
            # It is no work of a session that the asker may have: the epoch of that one says nothing about it.
            with under_fence(None):
                await self._database.write(
                    _GIVE(id=order, session=session, name=name, body=body, seconds=seconds),
                    told(GIVEN, session),
                    _WANT(session=session),
                )
                while await set_within(news, self._clock, until - self._clock.monotonic()):
                    news.clear()
                    if (reply := await self._pop_reply(_TAKE_REPLY, order)) is not None:
                        return reply
                if (reply := await self._pop_reply(_TAKE_BACK, order)) is not None:
                    return reply
        finally:
            del self._asked[order]
        raise NotAnswered(f"the process that works on {session} has not answered within {seconds:g} s")

    async def _pop_reply(self, statement: Statement, order: str) -> str | None:
        """Delete an order and return its reply; None: it has none.

        Raises:
            StateError: it was refused.
        """
        rows = (await self._database.write(statement(id=order)))[0].rows
        if not rows or rows[0][0] is None:
            return None
        reply, is_refusal = str(rows[0][0]), bool(rows[0][1])
        if is_refusal:
            raise StateError(reply)
        return reply

    async def open(self, session: str) -> Sequence[Order]:
        rows = await self._database.read(_OPEN(session=session))
        return [Order(row["id"], row["session"], row["name"], row["body"]) for row in rows]

    async def answer(self, order: Order, reply: str, *, is_refusal: bool = False) -> None:
        answer = _ANSWER(id=order.id, reply=reply, is_refusal=is_refusal)
        await self._database.write(answer, self._notices.notice_for(ANSWERED, order.id))

    async def sweep(self) -> None:
        await self._database.write(_SWEEP())

    def _on_answer(self, order: str) -> None:
        if asked := self._asked.get(order):
            asked.set()

    def _answered_perhaps(self) -> None:
        for asked in self._asked.values():
            asked.set()
