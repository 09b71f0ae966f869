"""What people are told while a message of theirs waits."""

import asyncio

from goclaw.channels.base import Handover
from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Delivery, Receipt
from goclaw.durable.engine.machine_faults import ANY_FAULT, SILENT_OWNER, Outage
from goclaw.errors import DeliveryError, NotAnswered, StateError
from tests.durable.engine.house import inbound


class NoAlerts:
    """Alerts that no one reads."""

    def tell(self, key: str, text: str) -> None: ...

    def clear(self, key: str) -> None: ...


async def test_an_owner_that_does_not_answer_is_not_called_a_store_that_cannot_store(clock: SteppedClock) -> None:
    for error, words in ((NotAnswered("it is silent"), SILENT_OWNER), (StateError("full"), ANY_FAULT)):
        room = Room()
        outage = Outage({"memory": MemoryChannel(room, clock)}, lambda notice: None, NoAlerts(), clock)
        await outage.on_refusal(inbound(1), error)
        assert [heard.delivery.text.partition(".")[0] for heard in room.all] == [words]


class SlowChannel(MemoryChannel):
    """Delivers when it may."""

    def __init__(self, room: Room, clock: SteppedClock) -> None:
        super().__init__(room, clock)
        self.may = asyncio.Event()

    async def deliver(self, delivery: Delivery, handover: Handover) -> Receipt:
        await self.may.wait()
        return await super().deliver(delivery, handover)


async def test_a_person_is_told_although_the_intake_of_messages_ends_meanwhile(clock: SteppedClock) -> None:
    room = Room()
    channel = SlowChannel(room, clock)
    outage = Outage({"memory": channel}, lambda notice: None, NoAlerts(), clock)
    taking = asyncio.create_task(outage.on_refusal(inbound(1), StateError("full")))
    await asyncio.sleep(0)
    taking.cancel()
    channel.may.set()
    await asyncio.wait({taking})
    assert taking.cancelled() and len(room.all) == 1


async def test_a_person_who_could_not_be_told_is_told_when_the_message_comes_again(clock: SteppedClock) -> None:
    room = Room()
    outage = Outage({"memory": MemoryChannel(room, clock)}, lambda notice: None, NoAlerts(), clock)
    room.failures.append(DeliveryError("no network"))
    for _ in range(3):
        await outage.on_refusal(inbound(1), StateError("full"))
    assert len(room.all) == 1
