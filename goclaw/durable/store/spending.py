"""Costs of requests to models: a row per answer, written with the step that it belongs to.

While a request runs, the largest cost that it may have is reserved (`Reservations`), where a budget limits it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Literal

from sqlalchemy import ColumnElement, String, and_, bindparam, func, or_, select, update

from goclaw.common.core import catalog
from goclaw.common.core.events import AGENT_MARK, AGENT_TURN
from goclaw.common.core.plugins import load
from goclaw.common.core.records import record
from goclaw.durable.store.database import BoundStatement, Database, Statement, columns_of, insert_into
from goclaw.durable.store.dialect import utc_day
from goclaw.durable.store.schema import usage

Purpose = Literal["answer", "summary", "checkpoint", "flush", "sampling"]
Grouping = Literal["day", "model", "person", "session"]

_INSERT = insert_into(usage, *columns_of(usage))
_SUMS = (
    func.count().label("requests"),
    func.coalesce(func.sum(usage.c.input), 0).label("input"),
    func.coalesce(func.sum(usage.c.output), 0).label("output"),
    func.coalesce(func.sum(usage.c.cache_read), 0).label("cache_read"),
    func.coalesce(func.sum(usage.c.cost), 0.0).label("cost"),
    func.count().filter(usage.c.cost.is_(None)).label("unpriced"),
)
# Turns of agents that work for a turn are named after it (`turn_of_agent`), and so are their sessions.
_session, _turn = bindparam("session", type_=String), bindparam("turn", type_=String)
_ITS_AGENTS = and_(
    usage.c.session >= _session + AGENT_MARK,
    usage.c.session < _session + f"{AGENT_MARK[:-1]};",  # the character after ":"
    usage.c.turn >= _turn + AGENT_TURN,
    usage.c.turn < _turn + f"{AGENT_TURN[:-1]};",
)
_OF_TURN = Statement(select(*_SUMS).where(or_(and_(usage.c.session == _session, usage.c.turn == _turn), _ITS_AGENTS)))
_AGENTS = Statement(select(usage.c.session).where(_ITS_AGENTS).distinct())
_OF_PERSON = Statement(
    select(*_SUMS).where(usage.c.person == bindparam("person"), usage.c.created_at >= bindparam("since"))
)
_FORGET_PERSON = Statement(
    update(usage).where(usage.c.person != "", usage.c.created_at < bindparam("before")).values(person="")
)
_OF_SESSION = Statement(select(*_SUMS).where(usage.c.session == bindparam("session")))
_by_model = (
    select(usage.c.model, *_SUMS)
    .where(usage.c.created_at >= bindparam("since"))
    .group_by(usage.c.model)
    .order_by(func.count().desc(), func.sum(usage.c.input).desc(), usage.c.model)
)
_SINCE = Statement(_by_model)
_OF_SESSION_SINCE = Statement(_by_model.where(usage.c.session == bindparam("session")))
_BY_SESSION = Statement(
    select(usage.c.session, *_SUMS)
    .where(usage.c.created_at >= bindparam("since"))
    .group_by(usage.c.session)
    .order_by(func.coalesce(func.sum(usage.c.cost), 0.0).desc(), func.count().desc(), usage.c.session)
)
_own = bindparam("own", type_=String)
_OWN_SINCE = and_(
    usage.c.created_at >= bindparam("since"),
    # A session's agents and programs have its name with a mark behind it.
    or_(_own == "", usage.c.session == _own, and_(usage.c.session >= _own + ":", usage.c.session < _own + ";")),
)
_DAY = utc_day(usage.c.created_at)


def _group_sums(by: ColumnElement[str], *order: ColumnElement[Any]) -> Statement:
    return Statement(select(by, *_SUMS).where(_OWN_SINCE).group_by(by).order_by(*order, by))


_DEAREST_FIRST = func.coalesce(func.sum(usage.c.cost), 0.0).desc()
_GROUPED: Mapping[Grouping, Statement] = {
    "day": _group_sums(_DAY),
    "model": _group_sums(usage.c.model, _DEAREST_FIRST),
    "person": _group_sums(usage.c.person, _DEAREST_FIRST),
    "session": _group_sums(usage.c.session, _DEAREST_FIRST),
}


@record
class Spent:
    """Sums over several answers. Tokens; `cost` in US dollars, of the answers with a known price."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cost: float = 0.0
    unpriced: int = 0
    """Answers without a known price."""
    model: str = ""
    """Whose sums these are; empty: of all models."""


@record
class Reservation:
    """The largest cost of a request that runs, or waits for others of the same person."""

    id: str
    """Unique among requests; a repeated request with the same id replaces the previous one."""
    person: str
    """Actor key."""
    session: str
    turn: str
    """Empty: no turn, but a summary, a checkpoint or notes."""
    tokens: int
    cost: float
    """US dollars; 0 where the price is unknown."""

    def is_of(self, session: str, turn: str) -> bool:
        """Whether the request is one of a turn, or of an agent that works for it."""
        if self.session == session and self.turn == turn:
            return True
        return self.session.startswith(session + AGENT_MARK) and self.turn.startswith(turn + AGENT_TURN)


class Reservations:
    """Reservations of the only process of a store, which end with it. A store that several share has its own kind.

    Coroutines raise `StateError` where the store cannot be reached.
    """

    def __init__(self) -> None:
        self.own: dict[str, Reservation] = {}
        """The open ones of this process by id, oldest first."""

    async def make(self, wanted: Reservation) -> None:
        """Reserve, after all open reservations; one with the same id is replaced."""
        self.own.pop(wanted.id, None)
        self.own[wanted.id] = wanted

    async def before(self, wanted: Reservation) -> Sequence[Reservation]:
        """Return the open ones of the same person that were made before a reservation."""
        earlier = takewhile(lambda each: each.id != wanted.id, self.own.values())
        return [each for each in earlier if each.person == wanted.person]

    async def of_person(self, person: str) -> Sequence[Reservation]:
        """Return all open ones of a person."""
        return [each for each in self.own.values() if each.person == person]

    def end_statements(self, reservation: str) -> Sequence[BoundStatement]:
        """Return the statements that end a reservation, for the transaction that books its request."""
        return ()

    def on_end(self, reservation: str) -> None:
        """Note that a reservation has ended: that transaction is committed."""
        self.own.pop(reservation, None)

    def release(self, reservation: str) -> None:
        """End a reservation without booking anything, and without waiting for that."""
        self.own.pop(reservation, None)

    def leave(self, session: str) -> None:
        """End those of a session's turns, and of their agents: another process works on it from here on."""
        agents = session + AGENT_MARK
        for each in list(self.own.values()):
            if each.turn and (each.session == session or each.session.startswith(agents)):
                self.release(each.id)

    async def end_the_dead(self) -> None:
        """End those of processes that are gone."""

    async def prune(self) -> None:
        """Delete what no reservation needs any more."""


@record
class ReservationsPart:
    """The reservations of a store that several processes share, as the catalogue names them."""

    open: Callable[[Database], Reservations]


def reservations_of(database: Database) -> Reservations:
    """Return the reservations for a store: in memory where one process uses it, else in its tables."""
    if not database.is_shared:
        return Reservations()
    return load(catalog.RESERVATIONS["postgres"], ReservationsPart).open(database)


class Spending:
    """Keeps and sums up the spending."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @staticmethod
    def row(
        session: str,
        turn: str,
        purpose: Purpose,
        model: str,
        *,
        tokens: tuple[int, int, int, int],
        cost: float | None,
        at: float,
        person: str = "",
    ) -> BoundStatement:
        """Return the INSERT for one answer. `tokens`: input, output, from and to the cache. `person`: actor key."""
        counts = dict(zip(("input", "output", "cache_read", "cache_write"), tokens, strict=True))
        about = {"session": session, "turn": turn, "purpose": purpose, "model": model, "person": person}
        return _INSERT(**about, **counts, cost=cost, created_at=at)

    async def store(self, *rows: BoundStatement) -> None:
        """Write rows that belong to no step of a turn: summaries and checkpoints."""
        await self._database.write(*rows)

    async def of_session(self, session: str) -> Spent:
        """Return the total spending of a session."""
        return Spent(*(await self._database.read(_OF_SESSION(session=session)))[0])

    async def of_turn(self, session: str, turn: str) -> Spent:
        """Return the spending of a turn, that of agents working for it included."""
        return Spent(*(await self._database.read(_OF_TURN(session=session, turn=turn)))[0])

    async def agents_of_turn(self, session: str, turn: str) -> frozenset[str]:
        """Return the sessions of agents that answered for a turn, however deep."""
        return frozenset(row[0] for row in await self._database.read(_AGENTS(session=session, turn=turn)))

    async def of_person(self, person: str, since: float) -> Spent:
        """Return the spending for a person since a moment, in all sessions."""
        return Spent(*(await self._database.read(_OF_PERSON(person=person, since=since)))[0])

    async def forget_people(self, before: float) -> None:
        """Remove the person from rows before a moment."""
        await self._database.write(_FORGET_PERSON(before=before))

    async def by_session(self, since: float = 0.0) -> Sequence[tuple[str, Spent]]:
        """Return sums per session since a moment, the dearest first; an empty key stands for forgotten sessions."""
        return [(row[0], Spent(*tuple(row)[1:])) for row in await self._database.read(_BY_SESSION(since=since))]

    async def group(self, by: Grouping, since: float, own: str = "") -> Sequence[tuple[str, Spent]]:
        """Return sums since a moment: days of UTC in their order, others with the dearest first.

        `own`: only of this session with its agents and programs; empty: of all.
        """
        rows = await self._database.read(_GROUPED[by](since=since, own=own))
        return [(row[0], Spent(*tuple(row)[1:])) for row in rows]

    async def by_model(self, since: float = 0.0, session: str | None = None) -> Sequence[Spent]:
        """Return sums per model since a moment, of one session or of all."""
        statement = _SINCE(since=since) if session is None else _OF_SESSION_SINCE(session=session, since=since)
        return [replace(Spent(*tuple(row)[1:]), model=row[0]) for row in await self._database.read(statement)]
