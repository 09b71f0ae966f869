"""Notices between processes that share a schema, on a real Postgres."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import RealClock
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.notices import MAX_BYTES
from tests.acceptance.waiting import clock, eventually
from tests.postgres import Server, fresh_place


class Topic:
    """What a process has heard of a topic."""

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self.heard: list[str] = []
        self.connections = 0
        database.notices.subscribe(name, self.heard.append, self._missed)

    def _missed(self) -> None:
        self.connections += 1


@asynccontextmanager
async def process(place: PostgresPlace) -> AsyncIterator[PostgresDatabase]:
    """A process that hears notices for as long as the block lasts."""
    async with open_schema(place, RealClock()) as database:
        async with background(run_with_restarts("notices", database.notices.run, clock), "notices"):
            yield database


async def test_a_notice_reaches_every_process_of_the_schema_in_order_and_no_other_schema(
    place: PostgresPlace, server: Server
) -> None:
    async with process(place) as one, process(place) as two, process(fresh_place(server)) as foreign:
        topics = [Topic(database, "news") for database in (one, two, foreign)]
        await eventually(lambda: all(topic.connections for topic in topics))
        for number in range(20):
            await one.write(one.notices.notice_for("news", str(number)))
        await one.write(one.notices.notice_for("news", "x" * MAX_BYTES))
        await eventually(lambda: all(len(topic.heard) == 21 for topic in topics[:2]))
        expected = [*map(str, range(20)), "x" * MAX_BYTES]
        assert [topic.heard for topic in topics] == [expected, expected, []]


async def test_a_topic_that_is_added_later_is_heard_and_the_others_told_that_they_may_have_missed_something(
    place: PostgresPlace,
) -> None:
    async with process(place) as database:
        first = Topic(database, "first")
        await eventually(lambda: first.connections == 1)
        second = Topic(database, "second")
        await eventually(lambda: second.connections == 1)
        assert first.connections == 2
        await database.write(database.notices.notice_for("second", "b"), database.notices.notice_for("first", "a"))
        await eventually(lambda: first.heard == ["a"] and second.heard == ["b"])


async def test_after_a_lost_connection_listeners_are_told_and_hear_again(place: PostgresPlace, server: Server) -> None:
    async with process(place) as database:
        topic = Topic(database, "news")
        await eventually(lambda: topic.connections == 1)
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                (database.application_name,),
            )
        await eventually(lambda: topic.connections == 2)
        await database.write(database.notices.notice_for("news", "again"))
        await eventually(lambda: topic.heard == ["again"])


async def test_a_notice_of_a_transaction_that_is_undone_is_not_sent(place: PostgresPlace) -> None:
    async with process(place) as database:
        topic = Topic(database, "news")
        await eventually(lambda: topic.connections == 1)
        told = database.notices.notice_for("news", "never"), database.notices.notice_for("news", "x" * (MAX_BYTES + 1))
        [refused] = await asyncio.gather(database.write(*told), return_exceptions=True)
        assert isinstance(refused, Exception)
        await database.write(database.notices.notice_for("news", "then"))
        await eventually(lambda: topic.heard == ["then"])
