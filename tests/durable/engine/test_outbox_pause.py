"""A process that was paused between the mark of a delivery and its sending asks once more whether it is its own."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from goclaw.channels.base import Handover
from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address, Delivery, Receipt
from goclaw.common.core.fencing import Fence, under_fence
from goclaw.common.net import open_client
from goclaw.durable.engine.outbox import Outbox, open_outbox
from goclaw.durable.store.database import BoundStatement, StatementResult
from goclaw.durable.store.ownership import Lease
from goclaw.durable.store.postgres.database import open_schema
from goclaw.durable.store.postgres.ownership import STALL_SECONDS, PostgresOwnership
from goclaw.errors import DeliveryError
from tests.acceptance.waiting import clock, eventually
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


async def begun(outbox: Outbox, channel: Slow, fence: Fence) -> None:
    """Have a delivery promised and begun."""
    await promised(outbox, fence)
    await channel.began.wait()


async def promised(outbox: Outbox, fence: Fence, delivery: Delivery = TOLD) -> None:
    """Have a delivery promised under the lease of a process that was just seen."""
    ownership = outbox.ownership
    assert isinstance(ownership, PostgresOwnership)
    ownership._leases["s"], ownership._seen_at = Lease(fence), ownership._clock.awake_or_not()
    with under_fence(fence):
        assert await outbox.promise(delivery)


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("is_taken", [True, False])
async def test_after_a_pause_only_what_is_still_its_own_is_sent(place: PostgresPlace, *, is_taken: bool) -> None:
    room, at = Room(), SteppedClock()
    channel = Slow(room)
    async with open_schema(place, clock) as one, open_schema(place, clock) as two, asyncio.timeout(30):
        ownership = PostgresOwnership(one, at)
        async with open_outbox(one, {"memory": channel}, at, ownership) as outbox:
            await begun(outbox, channel, await one.acquire("s"))
            states = await two.read(sql("SELECT state FROM deliveries"))
            assert [row["state"] for row in states] == ["sending"], "it was marked before"
            if is_taken:
                await two.acquire("s")
            at.advance(STALL_SECONDS)
            channel.goes_on.set()
            assert await outbox.flush(10)
    assert [heard.delivery.id for heard in room.all] == ([] if is_taken else ["d"])


@pytest.mark.promise("P-answered-once")
async def test_what_was_promised_right_before_a_pause_is_not_sent_after_it(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, at = Room(), SteppedClock()
    channel = Slow(room)
    channel.goes_on.set()
    async with open_schema(place, clock) as one, open_schema(place, clock) as two, asyncio.timeout(30):
        async with open_outbox(one, {"memory": channel}, at, PostgresOwnership(one, at)) as outbox:
            write, fence = one.write, await one.acquire("s")

            async def paused(*statements: BoundStatement, durable: bool = False) -> list[StatementResult]:
                done = await write(*statements, durable=durable)
                monkeypatch.undo()
                at.advance(STALL_SECONDS)  # it is committed, and the process learns of that later
                await two.acquire("s")
                return done

            monkeypatch.setattr(one, "write", paused)
            await begun(outbox, channel, fence)
            assert await outbox.flush(10)
    assert room.all == []


class Flooded(MemoryChannel):
    """A channel whose service asks to wait at the first try; `paused` comes in that wait."""

    def __init__(self, room: Room, paused: Callable[[], Awaitable[object]]) -> None:
        super().__init__(room, clock)
        self._paused = paused
        self.tries: list[str] = []

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        self.tries.append(delivery.id)
        if len(self.tries) == 1:
            await self._paused()
            raise DeliveryError("the service asks to wait", retry_after=0.01)
        return await super().deliver(delivery, handover)


@pytest.mark.promise("P-answered-once")
async def test_a_try_that_was_lost_by_ownership_is_not_repeated_and_holds_up_no_answer_after_it(
    place: PostgresPlace,
) -> None:
    room, at = Room(), SteppedClock()

    async def paused() -> None:
        await two.acquire("s")

    channel = Flooded(room, paused)
    async with open_schema(place, clock) as one, open_schema(place, clock) as two, asyncio.timeout(30):
        async with open_outbox(one, {"memory": channel}, at, PostgresOwnership(one, at)) as outbox:
            closing = Delivery("d", Address("memory", "s"), "closed", session="s", action="edit", message_id="1")
            await promised(outbox, await one.acquire("s"), closing)
            await eventually(lambda: outbox.counts["memory", "retried"])
            at.advance(STALL_SECONDS)
            assert await outbox.flush(10), "it is tried no more"
            assert channel.tries == ["d"]
            await promised(outbox, await one.acquire("s"), replace(TOLD, id="d2"))
            assert await outbox.flush(10)
    assert channel.tries == ["d", "d2"]


class Calling(MemoryChannel):
    """A channel of a service over HTTP; `paused` comes between what it says last and its request."""

    def __init__(self, room: Room, url: str, paused: Callable[[], Awaitable[object]]) -> None:
        super().__init__(room, clock)
        self._url = url
        self._paused = paused

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        await handover.sending()
        await self._paused()
        async with open_client() as client, client.post(self._url, data=b"an answer") as response:
            await handover.arrived(await response.text(), last=True)
        return Receipt(handover.parts[0])


@pytest.mark.promise("P-answered-once")
@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_request_asks_once_more_when_it_has_its_connection(place: PostgresPlace, *, is_taken: bool) -> None:
    at, asked = SteppedClock(), list[bytes]()

    async def answer(request: web.Request) -> web.Response:
        asked.append(await request.read())
        return web.Response(text="1")

    async def paused() -> None:
        at.advance(STALL_SECONDS)
        if is_taken:
            await two.acquire("s")

    app = web.Application()
    app.router.add_post("/", answer)
    async with TestServer(app) as server, open_schema(place, clock) as one, open_schema(place, clock) as two:
        channel = Calling(Room(), str(server.make_url("/")), paused)
        async with open_outbox(one, {"memory": channel}, at, PostgresOwnership(one, at)) as outbox:
            await promised(outbox, await one.acquire("s"))
            assert await outbox.flush(10)
    assert asked == ([] if is_taken else [b"an answer"])


async def test_without_a_pause_it_is_not_asked_again(place: PostgresPlace) -> None:
    room, at = Room(), SteppedClock()
    channel = Slow(room)
    async with open_schema(place, clock) as one, asyncio.timeout(30):
        async with open_outbox(one, {"memory": channel}, at, PostgresOwnership(one, at)) as outbox:
            await begun(outbox, channel, await one.acquire("s"))
            before = one.counts["commits"]
            channel.goes_on.set()
            assert await outbox.flush(10)
            assert one.counts["commits"] == before + 1, "the receipt alone"
    assert len(room.all) == 1
