"""The wall clock of processes that share a schema is the database's, whatever their own clocks say."""

from dataclasses import replace

import psycopg
import pytest

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import Clock, RealClock, SteppedClock
from goclaw.common.core.events import Address, Delivery
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.outbox import open_outbox
from goclaw.durable.store.postgres.clock import DatabaseClock
from goclaw.durable.store.postgres.database import open_schema
from tests.acceptance.waiting import clock
from tests.durable.engine.house import inbound
from tests.postgres import Server

HOUR = 3_600.0
DOUBT = 10.0
"""Seconds by which the time is off at most: half of what an answer of the database takes on a busy machine."""


class Wrong(RealClock):
    """A machine's clock that is off by an hour, and is set while it runs."""

    def __init__(self, by: float) -> None:
        self.by = by

    def now(self) -> float:
        return super().now() + self.by


def time_of(server: Server) -> float:
    with psycopg.connect(server.url) as connection:
        row = connection.execute("SELECT extract(epoch from clock_timestamp())::float8").fetchone()
        assert row is not None
        return float(row[0])


def is_of(server: Server, found: Clock) -> bool:
    """Whether a clock has the server's time."""
    before, now, after = time_of(server), found.now(), time_of(server)
    return before - DOUBT <= now <= after + DOUBT


async def test_processes_with_clocks_an_hour_apart_have_one_time(place: PostgresPlace, server: Server) -> None:
    late, early = Wrong(-HOUR), Wrong(HOUR)
    async with open_schema(place, late) as one, open_schema(place, early) as two:
        for database, own in ((one, late), (two, early)):
            assert is_of(server, database.clock_of(own))
        early.by = -5 * HOUR
        assert is_of(server, two.clock_of(early)), "a clock that is set moves nothing"
        before, found, after = late.monotonic(), one.clock_of(late).monotonic(), late.monotonic()
        assert before <= found <= after


async def test_what_an_early_process_promises_a_late_one_does_not_take_for_old(place: PostgresPlace) -> None:
    """Nor the other way: a promise of two days in the future would never be given up."""
    room = Room()
    ahead, behind = Wrong(25 * HOUR), Wrong(-25 * HOUR)
    async with open_schema(place, behind) as one, open_schema(place, ahead) as two:
        async with open_outbox(one, {}, one.clock_of(behind)) as outbox:
            await outbox.promise(Delivery("d", Address("memory", "s"), "promised", session="s"))
        async with open_outbox(two, {"memory": MemoryChannel(room, clock)}, two.clock_of(ahead)) as outbox:
            assert await outbox.resume() == 1
            assert await outbox.flush(10)
        assert [heard.delivery.text for heard in room.all] == ["promised"]


async def test_messages_of_a_session_are_in_the_order_of_their_rows_whatever_their_times(
    place: PostgresPlace,
) -> None:
    async with open_schema(place, clock) as one, open_schema(place, clock) as two:
        for number, database in enumerate((one, two, one, two)):
            message = replace(inbound(number), received_at=1e9 - number * HOUR)
            assert await Journal(database).submit(message, "message")
        for database in (one, two):
            turns = await Journal(database).open_turns("s")
            assert [turn.id for turn in turns] == [f"m{number}" for number in range(4)]


@pytest.mark.parametrize("slow", [0.0, 5.0])
def test_an_answer_that_was_long_on_its_way_moves_the_time_no_more_than_it_is_in_doubt(slow: float) -> None:
    own = SteppedClock()
    of_database = DatabaseClock(own)
    assert of_database.now() == own.now(), "until it was asked"
    of_database.update(own.now() + HOUR, own.awake_or_not())
    asked = own.awake_or_not()
    own.advance(slow)
    of_database.update(own.now() + HOUR - slow, asked)
    assert of_database.now() == pytest.approx(own.now() + HOUR)
    of_database.update(own.now() + 2 * HOUR, own.awake_or_not())
    assert of_database.now() == pytest.approx(own.now() + 2 * HOUR), "the database's own clock was set"
