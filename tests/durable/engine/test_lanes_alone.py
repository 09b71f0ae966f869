"""Somebody may have a session's lane for himself for a moment: what comes in meanwhile waits, and none is lost."""

import asyncio
from pathlib import Path

from goclaw.durable.engine.base import Turn
from tests.durable.engine.house import House, inbound


async def echo(turn: Turn) -> str:
    return turn.inbound.text


async def test_what_comes_in_meanwhile_waits_and_is_answered_in_order(tmp_path: Path) -> None:
    house = House(tmp_path, echo)
    async with house.open() as lanes:
        with lanes.alone("s") as mine:
            assert mine
            for number in range(3):
                assert await lanes.submit(inbound(number))
            await lanes.submit(inbound(9, "other"))
            assert (await house.room.heard()).delivery.text == "9"
            assert house.texts() == ["9"], "other sessions go on"
            assert (lanes.running("s"), lanes.waiting("s")) == (None, 3)
            assert not await lanes.cancel("s")
        await lanes.idle()
    assert house.texts() == ["9", "0", "1", "2"]


async def test_a_session_at_work_is_not_to_be_had(tmp_path: Path) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def wait(turn: Turn) -> str:
        begun.set()
        await gate.wait()
        return "done"

    house = House(tmp_path, wait)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await begun.wait()
        with lanes.alone("s") as mine:
            assert not mine
        gate.set()
        await lanes.idle()
        with lanes.alone("s") as mine, lanes.alone("s") as again:
            assert mine and not again
        assert lanes.busy() == 0
    assert house.texts() == ["done"]


async def test_an_error_meanwhile_lets_the_session_go_on(tmp_path: Path) -> None:
    house = House(tmp_path, echo)
    async with house.open() as lanes:
        try:
            with lanes.alone("s"):
                await lanes.submit(inbound(1))
                raise ZeroDivisionError
        except ZeroDivisionError:
            await lanes.idle()
    assert house.texts() == ["1"]
