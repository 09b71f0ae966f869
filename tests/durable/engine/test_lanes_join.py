"""What waits may join the turn that runs: once, in order, only of the same person and place, whatever is cut."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from goclaw.common.core.codec import Codec
from goclaw.common.core.events import Inbound
from goclaw.common.core.messages import UserMessage
from goclaw.durable.engine.base import Step, Turn
from goclaw.durable.store.database import BoundStatement, Database, Statement
from goclaw.durable.store.schema import messages
from goclaw.durable.store.transcripts import Origin, rows_of
from tests.durable.engine.house import Act, House, Slow, inbound

TEXT: Codec[str] = Codec(str)
STORED = Statement(select(messages.c.text).order_by(messages.c.id))


def row(text: str) -> Sequence[BoundStatement]:
    return rows_of(UserMessage(text), Origin("s", "m1", "step", 0.0))


async def join(turn: Turn, other: Inbound, work: Callable[[Inbound], Awaitable[str]], heard: list[str]) -> None:
    """Take a message into the turn; what was recorded stands in `heard`."""

    def kept(step: Step[str]) -> None:
        heard.append(step.value)

    await turn.join(f"join:{other.id}", other, work, TEXT, rows=row, kept=kept, at=1.0)


def joining(*, when: asyncio.Event, begun: asyncio.Event, past_others: bool = True) -> Act:
    """A turn that takes in what waits when it may, and says all that it heard."""

    async def act(turn: Turn) -> str:
        begun.set()
        heard = [turn.inbound.text]
        await when.wait()
        while waiting := turn.followers(past_others=past_others):

            async def text(of: Inbound) -> str:
                return of.text

            await join(turn, waiting[0], text, heard)
        return "+".join(heard)

    return act


FROM_OTHERS = [
    ([inbound(2), inbound(3)], ["1+2+3"]),
    ([inbound(2, by="b"), inbound(3)], ["1+3", "2"]),
    ([inbound(2, chat="elsewhere"), inbound(3)], ["1", "2", "3"]),
    ([inbound(2), inbound(3, by="b"), inbound(4), inbound(5, by="b")], ["1+2+4", "3+5"]),
]


@pytest.mark.parametrize(("others", "told"), FROM_OTHERS, ids=["own", "past others", "another place", "mixed"])
async def test_what_is_of_the_same_person_and_place_joins_in_order(
    tmp_path: Path, others: list[Inbound], told: list[str]
) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    house = House(tmp_path, joining(when=gate, begun=begun))
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await begun.wait()
        for other in others:
            await lanes.submit(other)
        gate.set()
        await lanes.idle()
        assert lanes.waiting("s") == 0
        assert not await lanes.submit(inbound(2)), "a message that joined is known when it is redelivered"
    assert house.texts() == told


async def test_nobody_is_overtaken_unless_it_is_wanted(tmp_path: Path) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    house = House(tmp_path, joining(when=gate, begun=begun, past_others=False))
    async with house.open() as lanes:
        for each in (inbound(1), inbound(2), inbound(3, by="b"), inbound(4)):
            await lanes.submit(each)
        gate.set()
        await lanes.idle()
    assert house.texts() == ["1+2", "3", "4"]


async def test_nothing_joins_a_compaction_and_a_compaction_joins_nothing(tmp_path: Path) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()
    house = House(tmp_path, joining(when=gate, begun=begun))
    async with house.open() as lanes:
        await lanes.submit(inbound(1), "compact")
        await begun.wait()
        await lanes.submit(inbound(2))
        await lanes.submit(inbound(3), "compact")
        gate.set()
        await lanes.idle()
    assert house.texts() == ["1", "2", "3"]


async def test_what_could_not_join_because_of_a_stop_has_a_turn_of_its_own(tmp_path: Path) -> None:
    gate, fetching, heard = asyncio.Event(), asyncio.Event(), list[str]()

    async def never(_: Inbound) -> str:
        fetching.set()
        await asyncio.Event().wait()
        return "never"

    async def act(turn: Turn) -> str:
        await gate.wait()
        for other in turn.followers(past_others=True):
            await join(turn, other, never, heard)
        return turn.inbound.text

    house = House(tmp_path, act)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.submit(inbound(2))
        gate.set()
        await fetching.wait()
        assert await lanes.cancel("s")
        await lanes.idle()
    assert (house.texts(), heard) == (["2"], [])


async def test_what_has_begun_joins_nothing(tmp_path: Path) -> None:
    """Both turns have begun: the first one failed without words, and the daemon ended in the second."""
    hanging, followers = asyncio.Event(), list[Sequence[Inbound]]()

    async def give() -> str:
        return "done"

    async def cut(turn: Turn) -> str:
        await turn.step("one", give, TEXT)
        if turn.id == "m1":
            raise ValueError("a bug")
        hanging.set()
        await asyncio.Event().wait()
        return "never"

    async def act(turn: Turn) -> str:
        followers.append(turn.followers(past_others=True))
        return turn.inbound.text

    house = House(tmp_path, cut)
    async with house.open() as lanes:
        await lanes.submit(replace(inbound(1), text="worst"))
        await lanes.submit(inbound(2))
        await hanging.wait()
    house.act = act
    async with house.open() as lanes:
        await lanes.submit(inbound(3))
        await lanes.idle()
    assert followers == [[], [inbound(3)], []]
    assert house.texts() == ["worst", "2", "3"]


@pytest.mark.parametrize("full", [False, True], ids=["recorded", "refused"])
async def test_a_stop_while_a_message_is_being_recorded_neither_loses_nor_doubles_it(
    tmp_path: Path, full: bool
) -> None:
    databases, gate, heard = list[Slow](), asyncio.Event(), list[str]()

    def around(inner: Database) -> Database:
        databases.append(Slow(inner, "join:m2"))
        return databases[0]

    async def act(turn: Turn) -> str:
        await gate.wait()
        for other in turn.followers(past_others=True):
            await join(turn, other, give, heard)
            await asyncio.Event().wait()
        return turn.inbound.text

    async def give(_: Inbound) -> str:
        return "2"

    house = House(tmp_path, act, around)
    async with house.open() as lanes:
        await lanes.submit(inbound(1))
        await lanes.submit(inbound(2))
        gate.set()
        (database,) = databases
        await database.reached.wait()
        stopping = asyncio.ensure_future(lanes.cancel("s"))
        database.full = full
        database.gate.set()
        assert await stopping
        await lanes.idle()
        stored = [found["text"] for found in await database.read(STORED())]
    assert heard == stored == ([] if full else ["2"])
    assert house.texts() == (["2"] if full else [])
