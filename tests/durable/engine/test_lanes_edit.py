"""An edited message takes the place of its older version while that one waits; once begun, nothing changes it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Inbound
from goclaw.durable.engine.base import Turn
from goclaw.durable.store.database import Database
from goclaw.errors import StateError
from tests.durable.engine.house import Act, House, Slow, inbound
from tests.durable.engine.test_lanes_join import join

TEXT: Codec[str] = Codec(str)


def named(number: int, session: str = "s", *, by: str = "a", chat: str = "") -> Inbound:
    return replace(inbound(number, session, by=by, chat=chat), ref=f"memory:{number}")


def edit(of: Inbound, text: str, *, update: str = "e1") -> Inbound:
    return replace(of, id=update, text=text, edited=True)


def waiting_at(gate: asyncio.Event, begun: asyncio.Event) -> Act:
    async def act(turn: Turn) -> str:
        begun.set()
        await gate.wait()
        return turn.inbound.text

    return act


@pytest.mark.promise("P-queue-modes")
async def test_an_edit_replaces_what_waits_in_its_place_and_under_its_id(tmp_path: Path) -> None:
    gate, begun, ids = asyncio.Event(), asyncio.Event(), list[str]()

    async def act(turn: Turn) -> str:
        ids.append(turn.id)
        begun.set()
        await gate.wait()
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        for number in (1, 2, 3):
            await lanes.submit(named(number))
        await begun.wait()
        assert await lanes.replace(edit(named(2), "two"))
        assert await lanes.replace(edit(named(2), "2nd", update="e2"))
        gate.set()
        await lanes.idle()
    assert (house.texts(), ids) == (["1", "2nd", "3"], ["m1", "m2", "m3"])


@pytest.mark.promise("P-queue-modes")
async def test_an_edit_outlives_a_kill(tmp_path: Path) -> None:
    begun = asyncio.Event()
    house = House(tmp_path, waiting_at(asyncio.Event(), begun))
    async with house.open() as lanes:
        await lanes.submit(named(1))
        await lanes.submit(named(2))
        await begun.wait()
        assert await lanes.replace(edit(named(2), "two"))
    gate = asyncio.Event()
    gate.set()
    house.act = waiting_at(gate, begun)
    async with house.open() as lanes:
        await lanes.idle()
    assert house.texts() == ["1", "two"]


UNREACHED = {
    "runs": edit(named(1), "one"),
    "is unknown": edit(named(7), "seven"),
    "is somebody else's": edit(named(2, by="b"), "two"),
    "is in another chat": edit(named(2, chat="elsewhere"), "two"),
    "has no name": replace(edit(named(2), "two"), ref=""),
    "is in another session": edit(named(2, "t"), "two"),
}


@pytest.mark.promise("P-queue-modes")
@pytest.mark.parametrize("edited", UNREACHED.values(), ids=UNREACHED.keys())
async def test_an_edit_of_what_cannot_be_replaced_changes_nothing(tmp_path: Path, edited: Inbound) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    house = House(tmp_path, waiting_at(gate, begun))
    async with house.open() as lanes:
        await lanes.submit(named(1))
        await lanes.submit(named(2))
        await begun.wait()
        assert not await lanes.replace(edited)
        gate.set()
        await lanes.idle()
    assert house.texts() == ["1", "2"]


@pytest.mark.promise("P-queue-modes")
@pytest.mark.parametrize("moment", ["fetched", "recorded"])
async def test_an_edit_of_what_joins_counts_until_that_is_recorded(tmp_path: Path, moment: str) -> None:
    databases, heard = list[Slow](), list[str]()
    both, reached, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def around(inner: Database) -> Database:
        databases.append(Slow(inner, "join:m2"))
        return databases[0]

    async def fetch(other: Inbound) -> str:
        if moment == "fetched" and not reached.is_set():
            reached.set()
            await gate.wait()
        return other.text

    async def act(turn: Turn) -> str:
        await both.wait()
        await join(turn, turn.followers(past_others=True)[0], fetch, heard)
        return turn.inbound.text

    house = House(tmp_path, act, around)
    async with house.open() as lanes:
        await lanes.submit(named(1))
        await lanes.submit(named(2))
        both.set()
        (database,) = databases
        if moment == "recorded":
            await database.reached.wait()
        else:
            await reached.wait()
        assert await lanes.replace(edit(named(2), "two")) is (moment == "fetched")
        gate.set()
        database.gate.set()
        await lanes.idle()
    assert (heard, house.texts()) == (["two" if moment == "fetched" else "2"], ["1"])


@pytest.mark.promise("P-queue-modes")
async def test_an_edit_that_the_disk_refuses_changes_nothing_and_can_be_tried_again(tmp_path: Path) -> None:
    databases, gate, begun = list[Slow](), asyncio.Event(), asyncio.Event()

    def around(inner: Database) -> Database:
        databases.append(Slow(inner, "e1"))
        return databases[0]

    house = House(tmp_path, waiting_at(gate, begun), around)
    async with house.open() as lanes:
        await lanes.submit(named(1))
        await lanes.submit(named(2))
        await lanes.submit(named(3))
        await begun.wait()
        (database,) = databases
        database.full = True
        database.gate.set()
        for number in (2, 3):
            with pytest.raises(StateError):
                await lanes.replace(edit(named(number), "lost"))
        database.full = False
        assert await lanes.replace(edit(named(3), "three"))
        gate.set()
        await lanes.idle()
    assert house.texts() == ["1", "2", "three"]
