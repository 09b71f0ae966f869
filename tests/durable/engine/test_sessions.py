"""What holds for the process that owns every session of its store, and for one that has leases of them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from goclaw.channels.memory import MemoryChannel, Room
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.bus import Bus
from goclaw.common.core.events import Address, Delivery, SessionNow
from goclaw.common.core.supervise import background
from goclaw.durable.engine import session_work
from goclaw.durable.engine.base import Turn, TurnHandler
from goclaw.durable.engine.journal import Journal
from goclaw.durable.engine.lanes import Lanes, open_lanes
from goclaw.durable.engine.outbox import Outbox, open_outbox
from goclaw.durable.engine.sessions import OwnedSessions, sessions_of
from goclaw.durable.store.open import open_database
from tests.acceptance.waiting import clock, eventually
from tests.durable.engine.house import EVERYWHERE, inbound

Act = Callable[[Turn], Awaitable[str]]


@pytest.fixture(params=["sole owner", "leases"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | PostgresPlace:
    place: PostgresPlace | Path = tmp_path / "a.db"
    return request.getfixturevalue("place") if request.param == "leases" else place


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_work, "LINGER_SECONDS", 0.3)


class NoMemory:
    """Implements `SessionMemory`: nothing is remembered."""

    async def restore(self) -> None:
        pass

    async def reload(self, session: str) -> None:
        pass

    def leave(self, session: str) -> None:
        pass

    def is_needed(self, session: str) -> bool:
        return False

    async def inspect(self, session: str) -> SessionNow:
        return SessionNow()

    async def compare_folders(self) -> None:
        pass


class Process:
    """A process on the store, as the catalogue has it for that kind."""

    lanes: Lanes
    outbox: Outbox
    owned: OwnedSessions

    def __init__(self, act: Act) -> None:
        self.act = act

    async def handle(self, turn: Turn) -> Sequence[Delivery]:
        inbound = turn.inbound
        return [Delivery(f"{turn.id}:deliver:1", inbound.address, await self.act(turn), session=inbound.session)]

    async def failed(self, turn: Turn, error: Exception) -> Sequence[Delivery]:
        raise error


async def echo(turn: Turn) -> str:
    return turn.inbound.text


@asynccontextmanager
async def process(
    store: Path | PostgresPlace, room: Room, act: Act = echo, *, is_connected: bool = True
) -> AsyncIterator[Process]:
    made = Process(act)
    channels = {"memory": MemoryChannel(room, clock)} if is_connected else {}
    async with open_database(store) as database, asyncio.timeout(40):
        journal = Journal(database)
        made.owned = sessions_of(database, journal, Bus(clock), clock)
        async with (
            open_outbox(database, channels, clock, made.owned.ownership) as made.outbox,
            open_lanes(journal, made.outbox, clock, owner=made.owned) as made.lanes,
            made.owned.open(made.lanes, made.outbox, TurnHandler(made.handle, made.failed), NoMemory(), EVERYWHERE),
        ):
            yield made
            made.lanes.wind_down()


def texts(room: Room) -> list[str]:
    return [heard.delivery.text for heard in room.all]


@pytest.mark.promise("P-order")
async def test_a_session_answers_in_the_order_of_arrival(store: Path | PostgresPlace) -> None:
    room = Room()
    async with process(store, room) as one:
        for number in range(20):
            assert await one.lanes.submit(inbound(number, f"s{number % 2}"))
        await eventually(lambda: len(room.all) == 20)
    for chat in ("s0", "s1"):
        told = [int(heard.delivery.text) for heard in room.all if heard.delivery.address.chat == chat]
        assert told == sorted(told) and len(told) == 10


@pytest.mark.promise("P-order")
async def test_one_session_never_waits_for_another(store: Path | PostgresPlace) -> None:
    room, gate = Room(), asyncio.Event()

    async def act(turn: Turn) -> str:
        if turn.inbound.session == "slow":
            await gate.wait()
        return turn.inbound.text

    async with process(store, room, act) as one:
        await one.lanes.submit(inbound(1, "slow"))
        await one.lanes.submit(inbound(2, "slow"))
        await one.lanes.submit(inbound(3, "quick"))
        await eventually(lambda: texts(room) == ["3"])
        await eventually(lambda: (one.lanes.running("slow"), one.lanes.waiting("slow")) == ("m1", 1))
        gate.set()
        await eventually(lambda: len(room.all) == 3)
    assert [text for text in texts(room) if text != "3"] == ["1", "2"]


@pytest.mark.promise("P-answered-once")
async def test_the_same_message_several_times_at_once_is_one_turn(store: Path | PostgresPlace) -> None:
    room = Room()
    async with process(store, room) as one:
        submitted = await asyncio.gather(*(one.lanes.submit(inbound(1)) for _ in range(5)))
        await one.lanes.submit(inbound(2))
        await eventually(lambda: texts(room)[-1:] == ["2"])
    assert sorted(submitted) == [False, False, False, False, True]
    assert texts(room) == ["1", "2"]


async def test_a_turn_that_is_stopped_makes_way_for_the_next_one(store: Path | PostgresPlace) -> None:
    room, began = Room(), asyncio.Event()

    async def act(turn: Turn) -> str:
        if turn.id == "m1" and not turn.stopping:
            began.set()
            await asyncio.Event().wait()
        return turn.inbound.text

    async with process(store, room, act) as one:
        await one.lanes.submit(inbound(1))
        await began.wait()
        await one.lanes.submit(inbound(2))
        assert await one.lanes.cancel("s")
        await eventually(lambda: "2" in texts(room))
        assert not await one.lanes.cancel("s")


async def test_what_was_left_of_a_turn_goes_on_at_the_next_start(store: Path | PostgresPlace) -> None:
    room, began = Room(), asyncio.Event()

    async def stand(turn: Turn) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    async with process(store, room, stand) as one:
        await one.lanes.submit(inbound(1))
        await began.wait()
        await one.lanes.submit(inbound(2))
    async with process(store, room):
        await eventually(lambda: texts(room) == ["1", "2"])


async def test_a_delivery_waits_for_a_start_with_its_channel(store: Path | PostgresPlace) -> None:
    room = Room()
    told = Delivery("d", Address("memory", "s"), "an answer", session="s")
    async with process(store, room, is_connected=False) as one:
        assert await one.outbox.promise(told) and not await one.outbox.promise(told)
    async with process(store, room):
        await eventually(lambda: texts(room) == ["an answer"])


async def test_a_duty_runs_until_it_is_cancelled(store: Path | PostgresPlace) -> None:
    has = list[str]()

    async def run() -> None:
        has.append("duty")
        try:
            await asyncio.Event().wait()
        finally:
            has.clear()

    async with process(store, Room()) as one:
        async with background(one.owned.ownership.lead("duty", run), "duty"):
            await eventually(lambda: has == ["duty"])
        assert has == []
