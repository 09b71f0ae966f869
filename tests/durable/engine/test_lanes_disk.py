"""What the disk refuses waits in its lane and goes on by itself: in order, nothing done twice, no answer doubled."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from goclaw.common.core.codec import Codec
from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.lanes import MAX_PAUSE
from goclaw.durable.store.database import BoundStatement, Database, StatementResult
from goclaw.errors import StateError
from tests.durable.engine.house import House, Slow, inbound

TEXT: Codec[str] = Codec(str)


class Full(Slow):
    """A database whose disk is full for as long as a test wants."""

    def __init__(self, inner: Database) -> None:
        super().__init__(inner, "")
        self.refused = 0

    async def write(self, *statements: BoundStatement, durable: bool = False) -> list[StatementResult]:
        if self.full:
            self.refused += 1
            self.reached.set()
            raise StateError("the disk is full")
        return await self.inner.write(*statements, durable=durable)


class Disk:
    """The databases that a house opened, the last one being in use."""

    def __init__(self) -> None:
        self.opened: list[Full] = []

    def around(self, inner: Database) -> Database:
        self.opened.append(Full(inner))
        return self.opened[-1]

    @property
    def now(self) -> Full:
        return self.opened[-1]


async def until(house: House, condition: Callable[[], bool]) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(10):
        while not condition():
            if house.clock.sleepers:
                house.clock.advance(MAX_PAUSE)
            await asyncio.sleep(0)


async def test_a_turn_goes_on_by_itself_when_there_is_room_again(tmp_path: Path) -> None:
    disk, ran, accepted = Disk(), list[str](), asyncio.Event()

    async def act(turn: Turn) -> str:
        await accepted.wait()

        async def once() -> str:
            ran.append(turn.id)
            disk.now.full = turn.id == "m1"
            return f"result of {turn.id}"

        return (await turn.step("tool", once, TEXT)).value

    house = House(tmp_path, act, disk.around)
    async with house.open() as lanes:
        for number in (1, 2, 3):
            await lanes.submit(inbound(number))
        accepted.set()
        await until(house, lambda: disk.now.refused >= 5)
        assert (lanes.running("s"), lanes.waiting("s")) == ("m1", 2), "what waits stays behind it"
        assert house.texts() == []
        disk.now.full = False
        await until(house, lambda: not lanes.busy())
    assert house.texts() == ["result of m1", "result of m2", "result of m3"]
    assert ran == ["m1", "m2", "m3"]


async def test_an_answer_whose_end_the_disk_refused_is_not_made_again(tmp_path: Path) -> None:
    disk, answers = Disk(), 0

    async def act(turn: Turn) -> str:
        nonlocal answers
        answers += 1
        disk.now.full = True
        return f"answer {answers}"

    house = House(tmp_path, act, disk.around)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await until(house, lambda: disk.now.refused >= 3)
        disk.now.full = False
        await until(house, lambda: not lanes.busy())
    assert house.texts() == ["answer 1"]


async def test_other_sessions_are_held_up_by_their_own_writes_only(tmp_path: Path) -> None:
    async def act(turn: Turn) -> str:
        if turn.inbound.session == "stuck":
            raise StateError("the disk is full")
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1, "stuck"))
        await lanes.submit(inbound(2, "free"))
        assert (await house.room.heard()).delivery.text == "2"
        assert lanes.running("stuck") == "m1"


async def test_the_daemon_ends_at_once_though_a_turn_waits_for_the_disk(tmp_path: Path) -> None:
    full = True

    async def act(turn: Turn) -> str:
        if full:
            raise StateError("the disk is full")
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await until_waiting(house)
        await lanes.idle(but_parked=True)
    full = False
    async with house.open() as lanes:
        await lanes.idle()
    assert house.texts() == ["1"]


async def test_stop_ends_a_turn_that_waits_for_the_disk(tmp_path: Path) -> None:
    disk = Disk()

    async def act(turn: Turn) -> str:
        disk.now.full = True
        raise StateError("the disk is full")

    house = House(tmp_path, act, disk.around)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await until_waiting(house)
        stopping = asyncio.ensure_future(lanes.cancel("s"))
        await asyncio.sleep(0)
        disk.now.full = False
        await until(house, stopping.done)
        assert stopping.result() and house.stopped == ["m1"]
        await lanes.submit(inbound(2, "other"))
    assert house.texts() == []


async def until_waiting(house: House) -> None:
    """Wait until a turn does."""
    async with asyncio.timeout(10):
        while not house.clock.sleepers:  # noqa: ASYNC110  # the clock has no event for it
            await asyncio.sleep(0)


@pytest.mark.parametrize("tries", [1, 4])
async def test_the_pauses_grow_to_ten_seconds(tmp_path: Path, tries: int) -> None:
    seen = list[float]()

    async def act(turn: Turn) -> str:
        seen.append(house.clock.now())
        if len(seen) <= tries:
            raise StateError("the disk is full")
        return "done"

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        while lanes.busy():
            if house.clock.sleepers:
                house.clock.advance(0.5)
            await asyncio.sleep(0)
    pauses = [after - before for before, after in pairwise(seen)]
    assert pauses == [0.5, 1.0, 2.0, 4.0][:tries]
    assert house.texts() == ["done"]
