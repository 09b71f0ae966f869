"""A message that interrupts takes the place of its person's turn, over restarts too, and of nobody else's."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.lanes import Lanes
from tests.durable.engine.house import EVERYWHERE, House, inbound


@dataclass
class Held:
    """Turns that go on until the gate opens, or until they are stopped."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def act(self, turn: Turn) -> str:
        self.begun.put_nowait(turn.id)
        await self.gate.wait()
        return turn.inbound.text


async def begin(lanes: Lanes, held: Held, number: int = 1) -> None:
    """Let a turn begin."""
    await lanes.submit(inbound(number))
    assert await held.begun.get() == f"m{number}"


async def test_the_turn_that_runs_is_stopped_and_the_message_comes_before_what_waits(tmp_path: Path) -> None:
    held = Held()
    house = House(tmp_path, held.act)
    async with house.open() as lanes:
        await begin(lanes, held)
        await lanes.submit(inbound(2, by="b"))
        assert await lanes.submit(inbound(3), interrupt=True)
        assert await held.begun.get() == "m3"
        assert house.stopped == ["m1"]
        held.gate.set()
        await lanes.idle()
    assert house.texts() == ["3", "2"]


async def test_it_is_taken_in_without_waiting_for_the_end_of_the_turn_that_it_stops(tmp_path: Path) -> None:
    begun, ending = asyncio.Event(), asyncio.Event()

    async def act(turn: Turn) -> str:
        if turn.id == "m1":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await ending.wait()
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await begun.wait()
        assert await lanes.submit(inbound(2), interrupt=True)
        assert lanes.running("s") == "m1"
        ending.set()
        await lanes.idle()
    assert house.texts() == ["2"]


@pytest.mark.parametrize("other", [inbound(2, by="b"), inbound(2, chat="elsewhere")], ids=["person", "place"])
async def test_what_is_of_another_person_or_place_waits(tmp_path: Path, other: object) -> None:
    held = Held()
    house = House(tmp_path, held.act)
    async with house.open() as lanes:
        await begin(lanes, held)
        assert await lanes.submit(other, interrupt=True)  # type: ignore[arg-type]  # parametrize knows no types
        assert (lanes.running("s"), lanes.waiting("s")) == ("m1", 1)
        held.gate.set()
        await lanes.idle()
    assert (house.texts(), house.stopped) == (["1", "2"], [])


async def test_the_same_message_again_stops_nothing(tmp_path: Path) -> None:
    held = Held()
    house = House(tmp_path, held.act)
    async with house.open() as lanes:
        await begin(lanes, held)
        assert await lanes.submit(inbound(2), interrupt=True)
        assert await held.begun.get() == "m2"
        assert not await lanes.submit(inbound(2), interrupt=True)
        assert not await lanes.submit(inbound(1), interrupt=True)
    held.gate.set()
    async with house.open() as lanes:
        await lanes.idle()
    assert (house.texts(), house.stopped) == (["2"], ["m1"])


async def test_without_a_turn_it_is_a_message_like_any_other(tmp_path: Path) -> None:
    held = Held()
    held.gate.set()
    house = House(tmp_path, held.act)
    async with house.open() as lanes:
        assert await lanes.submit(inbound(1), interrupt=True)
        await lanes.idle()
    assert house.texts() == ["1"]


async def test_a_compaction_is_not_interrupted(tmp_path: Path) -> None:
    held = Held()
    house = House(tmp_path, held.act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1), "compact")
        await held.begun.get()
        await lanes.submit(inbound(2), interrupt=True)
        held.gate.set()
        await lanes.idle()
    assert (house.texts(), house.stopped) == (["1", "2"], [])


async def test_stop_and_order_survive_a_restart(tmp_path: Path) -> None:
    begun, stuck = asyncio.Event(), asyncio.Event()

    async def hang(turn: Turn) -> str:
        begun.set()
        try:
            await stuck.wait()
        finally:
            await stuck.wait()
        return "never"

    house = House(tmp_path, hang)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await begun.wait()
        await lanes.submit(inbound(2, by="b"))
        await lanes.submit(inbound(3), interrupt=True)
        await lanes.submit(inbound(4), interrupt=True)
    held = Held()
    held.gate.set()
    house.act = held.act
    async with house.open(resume=False) as lanes:
        assert await lanes.resume(house.turns, EVERYWHERE) == 4
        await lanes.idle()
    assert house.stopped == ["m1", "m3"]
    assert house.texts() == ["4", "2"]
