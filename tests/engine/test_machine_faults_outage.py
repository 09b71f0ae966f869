"""What people are told while a message of theirs waits."""

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.core.clock import SteppedClock
from goclaw.engine.machine_faults import ANY_FAULT, SILENT_OWNER, Outage
from goclaw.errors import NotAnswered, StateError
from tests.engine.house import inbound


class NoAlerts:
    """Alerts that no one reads."""

    def tell(self, key: str, text: str) -> None: ...

    def clear(self, key: str) -> None: ...


async def test_an_owner_that_does_not_answer_is_not_called_a_store_that_cannot_store(clock: SteppedClock) -> None:
    for error, words in ((NotAnswered("it is silent"), SILENT_OWNER), (StateError("full"), ANY_FAULT)):
        room = Room()
        outage = Outage({"memory": MemoryChannel(room, clock)}, lambda notice: None, NoAlerts(), clock)
        await outage.refused(inbound(1), error)
        assert [heard.delivery.text.partition(".")[0] for heard in room.all] == [words]
