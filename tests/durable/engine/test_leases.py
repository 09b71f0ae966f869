"""A message is taken in where it arrives: into the lane here, or into the journal for who has its session."""

import asyncio
import random
from collections import Counter

import pytest

from goclaw.channels.base import Doubt
from goclaw.channels.memory import Room
from goclaw.common.config.values import PostgresPlace
from goclaw.durable.engine import session_work
from goclaw.durable.engine.base import LaneState, Turn
from goclaw.durable.store.database import BoundStatement, StatementResult
from tests.acceptance.waiting import clock, eventually
from tests.durable.engine.house import inbound
from tests.durable.engine.test_leased_sessions import replica, short_linger, texts
from tests.lanes import repeats
from tests.parts import sql

__all__ = ["short_linger"]


def certain_texts(room: Room) -> list[str]:
    """What arrived without a mark: an owner that loses its lease in a delivery has it repeated, with one."""
    return [heard.delivery.text for heard in room.all if heard.doubt is Doubt.NONE]


async def test_a_message_that_arrives_at_its_owner_begins_at_once_in_one_transaction(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_work, "LINGER_SECONDS", 3.0)  # it has the session still when the second one comes
    room = Room()
    async with replica(place, room) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        assert await one.lanes.submit(inbound(1))
        await eventually(lambda: texts(room) == ["answer 1"] and not one.outbox.waiting())
        assert one.prepared == [], "nothing was known of the session"
        before = one.database.counts["commits"]
        assert await one.lanes.submit(inbound(2))
        assert one.database.counts["commits"] - before <= 2, "the message with its first step; and the turn's own"
        await eventually(lambda: texts(room) == ["answer 1", "answer 2"])
        assert one.prepared == ["m2"]
        assert not await one.lanes.submit(inbound(2)) and not await two.lanes.submit(inbound(2))
        await eventually(lambda: not one.has("s"))
    assert texts(room) == ["answer 1", "answer 2"]


async def test_a_message_whose_lease_is_lost_meanwhile_is_answered_by_the_new_owner(place: PostgresPlace) -> None:
    room = Room()
    async with replica(place, room) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        await one.lanes.submit(inbound(1))
        await eventually(lambda: texts(room) == ["answer 1"] and not one.outbox.waiting())
        one.ownership.take_no_more()
        two.ownership._takes = True
        held = one.held.of("s")
        assert held is not None
        fence = await two.database.acquire("s")  # behind the back of the one that has it
        assert fence.epoch > held.lease.fence.epoch
        assert await one.lanes.submit(inbound(2))
        await two.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
        await eventually(lambda: certain_texts(room) == ["answer 1", "answer 2"])
    assert (one.acted, two.acted) == (["m1"], ["m2"])


async def test_a_message_that_an_owner_takes_in_while_it_looks_for_others_is_done_once(place: PostgresPlace) -> None:
    """The look falls between the commit of the message and the lane."""
    room = Room()
    async with replica(place, room) as one:
        await one.lanes.submit(inbound(1))
        await eventually(lambda: texts(room) == ["answer 1"])
        held, write, looks = one.held.of("s"), one.database.write, list[int]()
        assert held is not None

        async def written_and_looked(*statements: BoundStatement, durable: bool = False) -> list[StatementResult]:
            results = await write(*statements, durable=durable)
            if not looks:
                looks.append(await one.held.take_up(held, one.lanes.push))
            return results

        one.database.write = written_and_looked  # type: ignore[method-assign]  # the moment cannot be met otherwise
        await one.lanes.submit(inbound(2))
        await eventually(lambda: texts(room)[1:])
        await eventually(lambda: not one.has("s"))
    assert (looks, one.acted, texts(room)) == ([0], ["m1", "m2"], ["answer 1", "answer 2"])


async def test_a_message_comes_behind_one_that_was_taken_in_elsewhere_before_its_owner_has_heard_of_that(
    place: PostgresPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_work, "LINGER_SECONDS", 10.0)
    room = Room()
    async with replica(place, room) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        await one.lanes.submit(inbound(1))
        await eventually(lambda: texts(room) == ["answer 1"] and not one.outbox.waiting())
        held = one.held.of("s")
        assert held is not None
        heard, held.lease.news = held.lease.news, asyncio.Event()  # what it waits for does not come
        await two.lanes.submit(inbound(2))
        await one.lanes.submit(inbound(3))
        await eventually(lambda: len(room.all) == 3)
        held.lease.news = heard
        heard.set()
    assert texts(room) == ["answer 1", "answer 2", "answer 3"]


async def test_how_far_a_session_is_is_known_where_it_is_not(place: PostgresPlace) -> None:
    gate, room = asyncio.Event(), Room()

    async def wait(turn: Turn) -> str:
        if not turn.stopping:
            await gate.wait()
        return turn.id

    async with replica(place, room, wait) as one, replica(place, room) as two:
        two.ownership.take_no_more()
        assert await two.lanes.queue("s") == LaneState("", 0)
        for number in (1, 2, 3):
            await one.lanes.submit(inbound(number))
        await eventually(lambda: one.acted and one.lanes.waiting("s") == 2)
        assert await two.lanes.queue("s") == await one.lanes.queue("s") == LaneState("m1", 2)
        assert await two.lanes.cancel("s", 0.0)
        await eventually(lambda: one.lanes.running("s") == "m2")
        gate.set()
        await eventually(lambda: texts(room)[-2:] == ["m2", "m3"])


@pytest.mark.deep
async def test_messages_at_random_places_are_answered_once_each_while_sessions_change_hands(
    place: PostgresPlace,
) -> None:
    """A look of an owner may fall between the parts of a submission, and a submission into the end of a lease."""
    room, dice, count = Room(), random.Random(26), repeats(40, 600)

    async def short(turn: Turn) -> str:
        await clock.sleep(dice.random() * 0.01)
        return turn.id

    async with replica(place, room, short) as one, replica(place, room, short) as two:
        for number in range(count):
            at = dice.choice((one, two))
            assert await at.lanes.submit(inbound(number))
            if dice.random() < 0.2:
                assert not await dice.choice((one, two)).lanes.submit(inbound(number))
            if dice.random() < 0.1:
                await at.database.write(sql("SELECT want_sessions_of_the_dead(0)"))
            if dice.random() < 0.3:
                await clock.sleep(dice.random() * 0.5)
        wanted = {f"m{number}" for number in range(count)}
        await eventually(lambda: wanted <= set(texts(room)), 60)
        await eventually(lambda: not one.has("s") and not two.has("s"))
    # A process that only counts as dead may be sending: what the next one sends again says so.
    sure = Counter(heard.delivery.text for heard in room.all if heard.doubt is Doubt.NONE)
    assert set(texts(room)) == wanted and max(sure.values()) == 1
