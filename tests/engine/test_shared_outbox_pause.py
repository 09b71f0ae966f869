"""A process that was paused between the mark of a delivery and its sending asks once more whether it is its own."""

import asyncio

import pytest

from goclaw.channels.base import Handover
from goclaw.channels.memory import MemoryChannel, Room
from goclaw.config.values import PostgresPlace
from goclaw.core.clock import SteppedClock
from goclaw.core.events import Address, Delivery, Receipt
from goclaw.engine.shared_outbox import PAUSED_SECONDS, SharedOutbox, open_shared_outbox
from goclaw.store.fencing import fenced
from goclaw.store.postgres.database import open_schema
from goclaw.store.postgres.ownership import PostgresOwnership
from tests.acceptance.waiting import clock
from tests.parts import sql

TOLD = Delivery("d", Address("memory", "s"), "an answer", session="s")


class Slow(MemoryChannel):
    """Begins a delivery, and then waits before it asks whether it may send."""

    def __init__(self, room: Room) -> None:
        super().__init__(room, clock)
        self.began = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        self.began.set()
        await self.goes_on.wait()
        return await super().deliver(delivery, handover)


async def begun(outbox: SharedOutbox, channel: Slow) -> None:
    assert await outbox.promise(TOLD)
    await channel.began.wait()


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("is_taken", [True, False])
async def test_after_a_pause_only_what_is_still_its_own_is_sent(place: PostgresPlace, *, is_taken: bool) -> None:
    room, at = Room(), SteppedClock()
    channel = Slow(room)
    async with open_schema(place, clock) as one, open_schema(place, clock) as two, asyncio.timeout(30):
        ownership = PostgresOwnership(one, clock)
        async with open_shared_outbox(one, {"memory": channel}, at, ownership) as outbox:
            with fenced(await one.take("s")):
                await begun(outbox, channel)
            states = await two.read(sql("SELECT state FROM deliveries"))
            assert [row["state"] for row in states] == ["sending"], "it was marked before"
            if is_taken:
                await two.take("s")
            at.advance(PAUSED_SECONDS + 1)
            channel.goes_on.set()
            assert await outbox.flush(10)
    assert [heard.delivery.id for heard in room.all] == ([] if is_taken else ["d"])


async def test_without_a_pause_it_is_not_asked_again(place: PostgresPlace) -> None:
    room, at = Room(), SteppedClock()
    channel = Slow(room)
    async with open_schema(place, clock) as one, asyncio.timeout(30):
        async with open_shared_outbox(one, {"memory": channel}, at, PostgresOwnership(one, clock)) as outbox:
            with fenced(await one.take("s")):
                await begun(outbox, channel)
            before = one.counts["commits"]
            channel.goes_on.set()
            assert await outbox.flush(10)
            assert one.counts["commits"] == before + 1, "the receipt alone"
    assert len(room.all) == 1
