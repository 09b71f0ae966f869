"""A wall clock that is set, forward or back, by minutes or years: nothing is dropped, forgotten or reordered for it."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import select

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Address, Delivery
from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.journal import KEEP_SECONDS, Journal
from goclaw.durable.engine.machine_faults import JUMP_SECONDS, ClockChange
from goclaw.durable.engine.outbox import GIVE_UP_SECONDS, open_outbox
from goclaw.durable.store.database import Statement
from goclaw.durable.store.open import open_database
from goclaw.durable.store.schema import deliveries, inbox
from goclaw.errors import DeliveryError
from tests.durable.engine.house import EVERYWHERE, House, inbound

DAY = 24 * 3600.0


class NoTimers:
    """Nothing waits for a moment."""

    def start_due(self) -> None:
        """Start nothing."""

    async def clock_was_set(self) -> None:
        """Compute nothing."""


MADE = Statement(select(deliveries.c.created_at))
IDS = Statement(select(inbox.c.id))


@pytest.mark.promise("P-clock")
@pytest.mark.sqlite("where others write, too, no stamps are moved: their clocks were right")
@pytest.mark.parametrize("by", [2 * DAY, 56 * 365 * DAY], ids=["two days", "from 1970"])
async def test_an_answer_is_not_too_old_because_the_clock_was_set_forward(tmp_path: Path, by: float) -> None:
    """A machine without a clock of its own: it boots in the past, and learns the time while nothing can be sent."""
    clock, room = SteppedClock(1_000.0), Room()
    room.failures.append(DeliveryError("no network"))
    async with open_database(tmp_path / "a.db") as database:
        async with open_outbox(database, {"memory": MemoryChannel(room, clock)}, clock) as outbox:
            await outbox.resume()
            stamps = ClockChange(database, clock, NoTimers())
            await outbox.promise(Delivery("d1", Address("memory", "here"), "hello"))
            clock.jump(by)
            await stamps.check()
        assert room.all == []
        async with open_outbox(database, {"memory": MemoryChannel(room, clock)}, clock) as outbox:
            await outbox.resume()
            assert await outbox.flush(20)
    assert [heard.delivery.text for heard in room.all] == ["hello"]


@pytest.mark.promise("P-clock")
async def test_what_is_old_by_every_clock_is_given_up(tmp_path: Path) -> None:
    clock, room = SteppedClock(), Room()
    room.failures.append(DeliveryError("no network"))
    async with open_database(tmp_path / "a.db") as database:
        async with open_outbox(database, {"memory": MemoryChannel(room, clock)}, clock) as outbox:
            await outbox.resume()
            stamps = ClockChange(database, clock, NoTimers())
            await outbox.promise(Delivery("d1", Address("memory", "here"), "hello"))
        clock.suspend(GIVE_UP_SECONDS + 1)
        await stamps.check()  # a machine that slept is no clock that was set
        async with open_outbox(database, {"memory": MemoryChannel(room, clock)}, clock) as outbox:
            await outbox.resume()
            assert await outbox.flush(20)
    assert room.all == []


@pytest.mark.promise("P-clock")
@pytest.mark.sqlite("where others write, too, no stamps are moved: their clocks were right")
@pytest.mark.parametrize("by", [30 * DAY, -30 * DAY], ids=["forward", "back"])
async def test_an_id_is_remembered_as_long_as_ever(tmp_path: Path, by: float) -> None:
    clock = SteppedClock()
    async with open_database(tmp_path / "a.db") as database:
        journal, stamps = Journal(database), ClockChange(database, clock, NoTimers())
        await database.write(journal.insert_without_turn(inbound(1), clock.now()))
        clock.jump(by)
        await stamps.check()
        await journal.prune(clock.now())
        assert await journal.knows("m1"), "Telegram may still redeliver it"
        clock.advance(KEEP_SECONDS + 1)
        await journal.prune(clock.now())
        assert not await journal.knows("m1"), "and no longer"


@pytest.mark.promise("P-clock")
async def test_small_corrections_move_nothing(tmp_path: Path) -> None:
    clock = SteppedClock()
    async with open_database(tmp_path / "a.db") as database:
        async with open_outbox(database, {}, clock) as outbox:
            stamps = ClockChange(database, clock, NoTimers())
            await database.write(outbox.row(Delivery("d1", Address("memory", "here"), "hello")))
            before = clock.now()
            clock.jump(JUMP_SECONDS - 1)
            await stamps.check()
            assert [row[0] for row in await database.read(MADE())] == [before]


@pytest.mark.promise("P-clock")
async def test_the_order_of_messages_is_that_of_their_arrival_whatever_the_clock_says(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def act(turn: Turn) -> str:
        await gate.wait()
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        for number, jump in ((1, -DAY), (2, 3 * DAY), (3, -2 * DAY)):
            await lanes.submit(inbound(number))
            house.clock.jump(jump)
        await lanes.submit(inbound(4))
    async with house.open(resume=False) as lanes:
        gate.set()
        await lanes.resume(house.turns, EVERYWHERE)
        await lanes.idle()
    assert house.texts() == ["1", "2", "3", "4"]
