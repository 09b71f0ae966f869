"""Lanes: one turn at a time per session, in order; sessions side by side; a stop ends the turn, not the lane."""

import asyncio
from pathlib import Path

import pytest

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Actor, Address, Inbound
from goclaw.durable.engine.base import Turn
from goclaw.durable.engine.lanes import Lanes
from tests.durable.engine.house import EVERYWHERE, House, inbound

TEXT: Codec[str] = Codec(str)


async def echo(turn: Turn) -> str:
    """Give way at several places, so that whatever could mix would mix."""
    for name in ("one", "two"):
        await turn.step(name, give_way, TEXT)
    return turn.inbound.text


async def give_way() -> str:
    await asyncio.sleep(0)
    return "done"


async def while_others_work(lanes: Lanes) -> None:
    """Time enough for everything that is not held up."""
    for _ in range(10):
        await lanes.signal("nothing", "asks", "this")


async def test_a_failure_is_told_and_the_lane_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def act(turn: Turn) -> str:
        if turn.inbound.text == "1":
            raise ValueError("a bug")
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.submit(inbound(2))
        await lanes.idle()
    assert house.texts() == ["sorry: a bug", "2"]
    assert "ValueError: a bug" in caplog.text


async def test_even_a_failure_without_words_leaves_the_lane_open(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def act(turn: Turn) -> str:
        await gate.wait()
        if turn.inbound.text == "worst":
            raise ValueError("a bug")
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(Inbound("m0", Actor("a", "memory"), "s", "worst", Address("memory", "s"), 0.0))
        await lanes.submit(inbound(2))
        gate.set()
        await lanes.idle()
    assert house.texts() == ["2"]


@pytest.mark.promise("P-order")
async def test_nothing_new_is_taken_in_before_what_was_left(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def act(turn: Turn) -> str:
        await gate.wait()
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.submit(inbound(2))
    gate.set()
    async with house.open(resume=False) as lanes:
        early = asyncio.ensure_future(lanes.submit(inbound(3)))
        await while_others_work(lanes)
        assert await lanes.resume(house.turns, EVERYWHERE) == 2
        assert await early
        await lanes.idle()
    assert house.texts() == ["1", "2", "3"]


async def test_a_caller_that_goes_away_does_not_take_its_message_along(tmp_path: Path) -> None:
    house = House(tmp_path, echo)
    async with house.open() as lanes:
        submitting = asyncio.ensure_future(lanes.submit(inbound(1)))
        await asyncio.sleep(0)
        submitting.cancel()
        assert (await house.room.heard()).delivery.text == "1"


@pytest.mark.promise("P-stop")
async def test_stop_ends_the_turn_and_the_next_one_follows(tmp_path: Path) -> None:
    begun, ending, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def act(turn: Turn) -> str:
        if turn.inbound.text != "1":
            assert ended.is_set(), "the lane was free before its turn had ended"
            return turn.inbound.text
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ending.wait()
            ended.set()
        return "never"

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.submit(inbound(2))
        await begun.wait()
        stopping = asyncio.ensure_future(lanes.cancel("s"))
        await while_others_work(lanes)
        assert not stopping.done()
        ending.set()
        assert await stopping and ended.is_set()
        await lanes.idle()
        assert not await lanes.cancel("s")
    assert house.texts() == ["2"]


async def nobody(question: str) -> None:
    """Nobody is told."""


@pytest.mark.promise("P-parked")
async def test_a_parked_turn_keeps_its_lane_over_a_restart_and_gets_its_answer(tmp_path: Path) -> None:
    async def act(turn: Turn) -> str:
        return await turn.park("approve", "May I?", nobody) if turn.inbound.text == "1" else turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.submit(inbound(2))
    async with house.open() as lanes:
        await lanes.submit(inbound(3))
        assert (lanes.running("s") or "m1", lanes.waiting("s")) == ("m1", 2)
        assert not await lanes.signal("m2", "approve", "no")
        while not await lanes.signal("m1", "approve", "yes"):
            pass
        await lanes.idle()
    assert house.texts() == ["yes", "2", "3"]


async def test_nobody_waits_for_a_turn_that_waits_for_a_person(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def ask(question: str) -> None:
        asked.set()

    house = House(tmp_path, lambda turn: turn.park("approve", "May I?", ask))
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        async with asyncio.timeout(10):
            await asked.wait()
            await asyncio.sleep(0)
            await lanes.idle(but_parked=True)
        assert lanes.busy() == 1
    async with house.open() as lanes:
        while not await lanes.signal("m1", "approve", "yes"):
            pass
        await lanes.idle(but_parked=True)
    assert house.texts() == ["yes"]


async def test_a_parked_turn_can_be_stopped(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def act(turn: Turn) -> str:
        begun.set()
        return await turn.park("approve", "May I?", nobody)

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await begun.wait()
        assert await lanes.cancel("s")
        assert not await lanes.signal("m1", "approve", "yes")
        await lanes.idle()
    assert house.texts() == []


@pytest.mark.promise("P-stop")
async def test_a_turn_that_is_stopped_before_it_begins_is_still_heard(tmp_path: Path) -> None:
    house = House(tmp_path, echo)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        assert await lanes.cancel("s")
        await lanes.idle()
    assert (house.stopped, house.texts()) == (["m1"], [])
