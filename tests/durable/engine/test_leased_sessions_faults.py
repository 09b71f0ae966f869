"""Two processes on one schema of Postgres: moments in which one of them ends, has died or cannot read the store."""

import asyncio
from collections.abc import Sequence

import pytest

from goclaw.channels.base import Handover
from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.events import Address, Delivery, Receipt
from goclaw.durable.engine import session_work
from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.outbox import OPEN_OF, Outbox
from goclaw.durable.store.database import BoundStatement, Row
from goclaw.errors import DiskError, DiskFault, StateError
from tests.acceptance.waiting import PATIENCE, clock, eventually, never
from tests.durable.engine.house import inbound
from tests.durable.engine.test_leased_sessions import replica, short_linger, texts

__all__ = ["short_linger"]


class SlowService(MemoryChannel):
    """A service that takes its time to say that it has a message."""

    def __init__(self, room: Room) -> None:
        super().__init__(room, clock)
        self.asked = asyncio.Event()
        self.says = asyncio.Event()

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        await handover.sending()
        message = self._room._arrive(delivery, handover.doubt)
        self.asked.set()
        await self.says.wait()
        await handover.arrived(message, last=True)
        return Receipt(message)


async def test_a_delivery_of_a_dead_process_that_is_promised_again_is_sent_and_its_receipt_comes(
    place: PostgresPlace,
) -> None:
    """The turn that promises it is quicker than the look for what the dead process had promised."""
    room, promised = Room(), asyncio.Event()

    async def again(turn: Turn) -> str:
        if turn.id == "m1":
            return "it is taken"
        sending = asyncio.ensure_future(one.outbox.send(told))
        await asyncio.sleep(0)  # the row is on its way
        await asyncio.sleep(0)
        promised.set()
        return f"it is {(await sending).message_id}"

    told = Delivery("told", Address("memory", "s"), "a file", session="s")
    async with replica(place, room, again) as one:
        await one.lanes.submit(inbound(1))
        await eventually(lambda: texts(room) == ["it is taken"])
        read, looking = one.database.read, asyncio.Event()

        async def slow(statement: BoundStatement) -> Sequence[Row]:
            rows = await read(statement)
            if statement.statement is OPEN_OF:
                looking.set()
                await promised.wait()
            return rows

        one.database.read = slow  # type: ignore[method-assign]  # the moment cannot be met otherwise
        dead = Outbox(one.database, {}, clock, one.ownership)
        await one.database.write(dead.row(told), one.ownership.wanted("s"))
        await looking.wait()
        await one.lanes.submit(inbound(2))
        await eventually(lambda: len(room.all) == 3)
    assert texts(room) == ["it is taken", "a file", f"it is {room.all[1].message_id}"]


@pytest.mark.promise("P-answered-once")
async def test_a_process_that_ends_keeps_a_conversation_whose_answer_is_just_being_sent(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_work, "SEND_SECONDS", 2 * PATIENCE)  # more than what is waited for here
    room = Room()
    service = SlowService(room)
    async with replica(place, room) as two:
        two.ownership.take_no_more()
        async with replica(place, room, channel=service) as one:
            await one.lanes.submit(inbound(1))
            await service.asked.wait()
            await eventually(lambda: not one.lanes.is_busy("s"))
            two.ownership._takes = True
            one.sessions.begin_no_more()
            await never(lambda: two.has("s"), 1.0)
            service.says.set()
            await two.lanes.submit(inbound(2))
            await eventually(lambda: two.acted == ["m2"])  # it is let go as soon as the service has said so
        await eventually(lambda: len(room.all) == 2)
    assert texts(room) == ["answer 1", "answer 2"], "nothing is sent again"


async def test_of_a_session_that_could_not_be_read_nothing_stays_in_memory(place: PostgresPlace) -> None:
    room = Room()
    async with replica(place, room) as one:
        one.refusals.append(StateError("Postgres is away"))
        await one.lanes.submit(inbound(1))
        await eventually(lambda: one.taken == ["s"] and not one.refusals)
        await eventually(lambda: texts(room) == ["answer 1"])
        assert (one.taken, one.left) == (["s", "s"], ["s"]), "half of it may have been read"


@pytest.mark.promise("P-answered-once")
async def test_a_turn_goes_on_when_its_session_cannot_be_looked_at(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Postgres has no connection left for readers, or one is cut in the middle of an answer."""
    room, gate = Room(), asyncio.Event()

    async def stand(turn: Turn) -> str:
        await gate.wait()
        return f"answer {turn.inbound.text}"

    async with replica(place, room, stand) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        await one.lanes.submit(inbound(1))
        await eventually(lambda: one.acted == ["m1"])
        looks = list[BoundStatement]()

        async def refused(statement: BoundStatement) -> Sequence[Row]:
            looks.append(statement)
            raise DiskError("too many connections", DiskFault.UNREACHABLE)

        with monkeypatch.context() as full:
            full.setattr(one.database, "read", refused)
            asking = asyncio.ensure_future(two.sessions.ask("s", "echo", "hello"))
            await two.lanes.submit(inbound(2))
            await eventually(lambda: len(looks) > 1)
        assert await asking == "s: hello", "what was not read is read then"
        gate.set()
        await eventually(lambda: len(room.all) == 2)
        assert one.acted == ["m1", "m2"], "none was begun twice"
    assert texts(room) == ["answer 1", "answer 2"]
