"""Orders between processes: a reply each, in time or not at all."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.supervise import background, ends_within
from goclaw.durable.store.ownership import Lease, Order
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.ownership import PostgresOwnership
from goclaw.errors import NotAnswered, StateError
from tests.acceptance.waiting import clock, eventually
from tests.parts import sql
from tests.postgres import STALL

SECONDS = 15.0


class Process:
    """One process, which answers every order of its sessions unless it is told not to."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.ownership = PostgresOwnership(database, clock, STALL)
        self.read: list[Order] = []
        self.answers = True
        self.ends = False

    async def work(self, lease: Lease) -> bool:
        while not (lease.is_lost or self.ends):
            lease.news.clear()
            if lease.has_orders:
                lease.has_orders = False
                await self._carry_out(await self.ownership.orders.open(lease.session))
            await lease.news.wait()
        return True

    async def _carry_out(self, orders: Sequence[Order]) -> None:
        for order in orders:
            self.read.append(order)
            if self.answers:
                reply, is_refusal = f"{order.name} {order.body}", order.name == "refuse"
                await self.ownership.orders.answer(order, reply, is_refusal=is_refusal)


@asynccontextmanager
async def process(place: PostgresPlace) -> AsyncIterator[Process]:
    async with open_schema(place, clock) as database:
        made = Process(database)
        async with background(made.ownership.run(made.work), "a process"), asyncio.timeout(60):
            yield made
            made.ends = True
            for lease in made.ownership._leases.values():
                lease.news.set()


async def rows(database: PostgresDatabase, query: str = "SELECT id FROM orders") -> list[str]:
    return [str(row[0]) for row in await database.read(sql(query))]


async def test_an_order_to_a_session_of_another_process_has_its_reply_and_leaves_nothing(place: PostgresPlace) -> None:
    async with process(place) as owner, process(place) as other:
        other.ownership.take_no_more()
        assert await other.ownership.orders.request("s", "say", "hello", SECONDS) == "say hello", (
            "none had it: one took it"
        )
        long = "x" * 20_000
        replies = await asyncio.gather(
            *(other.ownership.orders.request("s", "say", f"{number} {long}", SECONDS) for number in range(8))
        )
        assert replies == [f"say {number} {long}" for number in range(8)], "longer than a notice may be"
        with pytest.raises(StateError, match="refuse that"):
            await other.ownership.orders.request("s", "refuse", "that", SECONDS)
        assert len(owner.read) == 10 and other.read == []
        await other.database.write()  # behind the deletions
        assert await rows(owner.database) == []


async def test_an_order_without_a_reply_is_given_up_and_not_carried_out_later(place: PostgresPlace) -> None:
    async with process(place) as owner, process(place) as other:
        other.ownership.take_no_more()
        await other.ownership.orders.request("s", "say", "first", SECONDS)  # taking the session is no part of the time
        owner.answers = False
        with pytest.raises(NotAnswered, match=r"works on s has not answered within 3 s"):
            await other.ownership.orders.request("s", "say", "hello", 3.0)
        assert await rows(owner.database) == []
        assert [order.body for order in owner.read] == ["first", "hello"]


async def test_an_order_whose_time_is_over_is_not_read_any_more_though_its_asker_is_gone(place: PostgresPlace) -> None:
    async with process(place) as owner, process(place) as other:
        other.ownership.take_no_more()
        owner.answers = False
        async with background(other.ownership.orders.request("s", "say", "late", SECONDS), "an asker"):
            await eventually(lambda: owner.read)
        [left] = await rows(owner.database)
        assert [order.id for order in await owner.ownership.orders.open("s")] == [left]
        await owner.database.write(sql("UPDATE orders SET until = clock_timestamp()"))
        assert list(await owner.ownership.orders.open("s")) == []
        await owner.ownership.orders.sweep()
        assert await rows(owner.database) == []


async def test_the_next_owner_carries_out_what_the_one_before_has_left(place: PostgresPlace) -> None:
    async with process(place) as before, process(place) as after, process(place) as other:
        for each in (after, other):
            each.ownership.take_no_more()
        before.answers = False
        async with background(other.ownership.orders.request("s", "say", "hello", SECONDS), "an asker") as asking:
            await eventually(lambda: before.read)
            before.ownership.take_no_more()
            after.ownership._takes = True
            await other.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
            assert await ends_within(asking, clock, SECONDS)
            assert asking.result() == "say hello"
        assert [order.body for order in after.read] == ["hello"]


async def test_a_reply_that_no_notice_tells_of_is_found_when_notices_are_heard_again(place: PostgresPlace) -> None:
    async with process(place) as owner, process(place) as other:
        other.ownership.take_no_more()
        owner.answers = False
        async with background(other.ownership.orders.request("s", "say", "hello", SECONDS), "an asker") as asking:
            [order] = await eventually(lambda: owner.read)
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = :name"
            await owner.database.write(
                sql("UPDATE orders SET reply = 'unheard' WHERE id = :id", id=order.id),
                sql(f"{cut} AND query LIKE 'LISTEN%'", name=other.database.application_name),
            )
            assert await ends_within(asking, clock, SECONDS)
            assert asking.result() == "unheard"


async def test_whether_any_process_works_on_a_session_is_known_everywhere(place: PostgresPlace) -> None:
    async with process(place) as owner, process(place) as other:
        other.ownership.take_no_more()
        assert not await other.ownership.is_owned("s")
        await other.ownership.orders.request("s", "say", "hello", SECONDS)
        assert await other.ownership.is_owned("s")
        assert owner.ownership.fence_of("s") is not None and other.ownership.fence_of("s") is None
