"""Reservations in a schema that several processes share: the largest costs of requests to models that run.

A reservation gets its number while its transaction holds the row of the person, until it is committed: of two requests
of one person, wherever they run, the later one sees the earlier one.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from goclaw.common.core.fencing import under_fence
from goclaw.durable.store.database import BoundStatement, Database, Statement
from goclaw.durable.store.dialect import IS_SEEN, REPLICA, SEEN_SECONDS
from goclaw.durable.store.spending import Reservation, Reservations, ReservationsPart
from goclaw.errors import StateError

log = logging.getLogger(__name__)

RESERVATIONS = f"""
CREATE SEQUENCE reservation_numbers;
CREATE TABLE spenders (person VARCHAR COLLATE "C" PRIMARY KEY, last_number BIGINT NOT NULL);
CREATE TABLE reservations (
    id VARCHAR COLLATE "C" PRIMARY KEY, person VARCHAR COLLATE "C" NOT NULL, number BIGINT NOT NULL,
    session VARCHAR COLLATE "C" NOT NULL, turn VARCHAR COLLATE "C" NOT NULL,
    tokens BIGINT NOT NULL, cost DOUBLE PRECISION NOT NULL,
    made_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    {REPLICA} VARCHAR COLLATE "C" DEFAULT current_setting('goclaw.replica', true)
);
CREATE INDEX reservations_by_person ON reservations (person, number);
CREATE FUNCTION reserve(
    of_id VARCHAR, of_person VARCHAR, of_session VARCHAR, of_turn VARCHAR, of_tokens BIGINT, of_cost DOUBLE PRECISION
) RETURNS BIGINT LANGUAGE sql AS $$
    WITH locked AS (
        INSERT INTO spenders AS known (person, last_number) VALUES (of_person, nextval('reservation_numbers'))
        ON CONFLICT (person) DO UPDATE SET last_number = nextval('reservation_numbers') RETURNING last_number
    )
    INSERT INTO reservations AS made (id, person, number, session, turn, tokens, cost)
    SELECT of_id, of_person, last_number, of_session, of_turn, of_tokens, of_cost FROM locked
    ON CONFLICT (id) DO UPDATE SET person = excluded.person, number = excluded.number, tokens = excluded.tokens,
        cost = excluded.cost, made_at = excluded.made_at, {REPLICA} = excluded.{REPLICA}
    RETURNING made.number
$$;
"""  # noqa: S608  # our own words
"""The numbers of a person rise in the order of commits: the next one is drawn only once the row of the person is locked
(postgresql.org/docs/current/sql-insert.html, ON CONFLICT). They come from a sequence, and not from that row, which
`prune` deletes."""
RETRY_SECONDS = 1.0
"""Seconds until a row that could not be deleted is tried again: until then requests of its person may wait for it."""
_RESERVE = Statement("SELECT reserve(:id, :person, :session, :turn, :tokens, :cost)")
_COLUMNS = "id, person, session, turn, tokens, cost"
_BEFORE = Statement(
    f"SELECT {_COLUMNS} FROM reservations WHERE person = :person AND number < :number ORDER BY number"  # noqa: S608  # our own
)
_OF_PERSON = Statement(f"SELECT {_COLUMNS} FROM reservations WHERE person = :person ORDER BY number")  # noqa: S608  # our own
# One that another process has taken over since is not ours to end.
_END = Statement(
    f"DELETE FROM reservations WHERE id = :id AND {REPLICA} = current_setting('goclaw.replica', true)"  # noqa: S608  # our own
)
# A process may reserve before it is seen for the first time.
_END_THE_DEAD = Statement(
    f"DELETE FROM reservations WHERE {REPLICA} IS DISTINCT FROM current_setting('goclaw.replica', true) "  # noqa: S608  # our own
    f"AND made_at < clock_timestamp() - interval '{SEEN_SECONDS} s' "
    f"AND NOT EXISTS (SELECT 1 FROM replicas WHERE replicas.id = reservations.{REPLICA} AND {IS_SEEN})"
)
_PRUNE = Statement(
    "DELETE FROM spenders WHERE NOT EXISTS (SELECT 1 FROM reservations r WHERE r.person = spenders.person)"
)


class PostgresReservations(Reservations):
    """The reservations of all processes of a schema."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._numbers: dict[str, int | None] = {}
        """Numbers of the open ones of this process by id; None: it is being made."""
        self._left: set[str] = set()
        """Ids of ended ones whose rows could not be deleted yet."""

    async def make(self, wanted: Reservation) -> None:
        await super().make(wanted)
        self._numbers[wanted.id] = None
        self._left.discard(wanted.id)
        left = frozenset(self._left)
        values = {name: getattr(wanted, name) for name in ("id", "person", "session", "turn", "tokens", "cost")}
        results = await self._database.write(_RESERVE(**values), *(_END(id=each) for each in left))
        self._left -= left
        self._numbers[wanted.id] = int(results[0].rows[0][0])

    async def before(self, wanted: Reservation) -> Sequence[Reservation]:
        number = self._numbers[wanted.id]
        rows = await self._database.read(_BEFORE(person=wanted.person, number=number))
        return [Reservation(*row) for row in rows]

    async def of_person(self, person: str) -> Sequence[Reservation]:
        return [Reservation(*row) for row in await self._database.read(_OF_PERSON(person=person))]

    def end_statements(self, reservation: str) -> Sequence[BoundStatement]:
        return [_END(id=reservation)] if reservation in self.own else ()

    def on_end(self, reservation: str) -> None:
        super().on_end(reservation)
        self._numbers.pop(reservation, None)

    def release(self, reservation: str) -> None:
        if reservation in self.own:
            super().release(reservation)
            self._delete(reservation)

    def _delete(self, reservation: str) -> None:
        self._numbers.pop(reservation, None)
        with under_fence(None):  # also where another process has the session
            ending = asyncio.ensure_future(self._database.write(_END(id=reservation)))
        ending.add_done_callback(partial(self._on_delete, reservation))

    def _on_delete(self, reservation: str, ending: "asyncio.Future[Any]") -> None:
        if (ending.cancelled() or ending.exception()) and reservation not in self._numbers:
            self._left.add(reservation)
            ending.get_loop().call_later(RETRY_SECONDS, self._delete_again, reservation)

    def _delete_again(self, reservation: str) -> None:
        if reservation in self._left:
            self._left.discard(reservation)
            self._delete(reservation)

    async def end_the_dead(self) -> None:
        with under_fence(None):
            ending = self._database.write(_END_THE_DEAD())
        try:
            await ending
        except StateError as error:
            log.debug("reservations of dead processes wait: %s", error)

    async def prune(self) -> None:
        await self._database.write(_END_THE_DEAD(), _PRUNE())


PART = ReservationsPart(PostgresReservations)
"""The reservations that `RESERVATIONS` of the catalogue names."""
