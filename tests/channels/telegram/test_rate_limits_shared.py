"""Telegram's limits are those of the bot: all processes together keep them, whoever comes and goes."""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from goclaw.channels.base import Unrecorded
from goclaw.channels.telegram.rate_limits import RateLimiter, SlidingWindow
from goclaw.common.config.schema import TelegramSettings
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.events import Delivery
from goclaw.durable.store.postgres.channel_processes import NEWCOMER, VALID_SECONDS, WINDOW_SECONDS, ReplicaShare
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.postgres.ownership import STALL_SECONDS
from goclaw.errors import DeliveryError
from tests.acceptance.waiting import clock as real
from tests.acceptance.waiting import eventually
from tests.channels.support import RecordingGateway
from tests.channels.telegram.replicas import Replica, open_replica
from tests.channels.telegram.support import delivery
from tests.fake_telegram.server import FakeTelegram
from tests.parts import sql

LIMIT = 30
SECONDS = 20.0
SEEN = """
INSERT INTO replicas (id, address, version, began_at, seen_at)
VALUES (:id, '', '', clock_timestamp(), clock_timestamp() - make_interval(secs => :ago))
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
"""


def most_within(seconds: float, times: Sequence[float]) -> int:
    """The most events that any time of this length has, wherever it begins."""
    ordered = sorted(times)
    return max(bisect_left(ordered, first + seconds) - place for place, first in enumerate(ordered))


class Noting(Unrecorded):
    """Notes when a message is handed over: the fake sees it later, one sooner than another."""

    def __init__(self, times: list[float]) -> None:
        super().__init__()
        self._times = times

    async def sending(self) -> None:
        self._times.append(real.monotonic())


@pytest.mark.promise("P-telegram-replicas")
@pytest.mark.long
async def test_three_senders_keep_the_limit_of_one_bot_also_while_one_joins_and_one_leaves(
    place: PostgresPlace, tmp_path: Path
) -> None:
    gateway, handed_over = RecordingGateway(), list[float]()

    async def flood(replica: Replica, number: int) -> None:
        """Send to a chat of its own each time, for as long as this is not cancelled."""
        for chat in range(1_000 * number, 1_000 * number + 1_000):
            telegram.world.meet(chat)
            await replica.channel.deliver(delivery("x", chat=chat, number=str(chat)), Noting(handed_over))

    async with FakeTelegram() as telegram, AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(
                open_replica(place, telegram, tmp_path / str(number), gateway, messages_per_second=LIMIT)
            )
            for number in range(2)
        ]
        floods = [asyncio.create_task(flood(replica, number)) for number, replica in enumerate(replicas, 1)]
        await eventually(lambda: len(telegram.called("sendMessage")) > 2 * LIMIT, SECONDS)
        async with open_replica(place, telegram, tmp_path / "third", gateway, messages_per_second=LIMIT) as third:
            late = asyncio.create_task(flood(third, 3))
            # It gets its part once the others have counted it.
            await eventually(lambda: sum(each.chat >= 3_000 for each in telegram.sent()) > LIMIT, 2 * SECONDS)
            floods.append(late)
            late.cancel()
        before = len(telegram.called("sendMessage"))
        await eventually(lambda: len(telegram.called("sendMessage")) > before + 3 * LIMIT, SECONDS)
        for each in floods:
            each.cancel()
        ended = await asyncio.gather(*floods, return_exceptions=True)
        times = [call.at for call in telegram.calls if call.method == "sendMessage"]
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
    assert most_within(1, handed_over) <= LIMIT + 1, "one message of one that the others have not counted yet"
    assert most_within(5, times) <= 5 * LIMIT + 8, "as the service counts them, however long each was on its way"


@pytest.mark.promise("P-telegram-replicas")
async def test_all_processes_honour_a_request_to_wait_that_one_of_them_got(
    place: PostgresPlace, tmp_path: Path
) -> None:
    gateway = RecordingGateway()
    async with (
        FakeTelegram() as telegram,
        open_replica(place, telegram, tmp_path / "one", gateway) as one,
        open_replica(place, telegram, tmp_path / "two", gateway) as two,
    ):
        await eventually(lambda: two.channel.capabilities.sends_at_once(_to(5)), SECONDS)
        heard = list[str]()
        two.processes.subscribe("test", heard.append)
        while not heard:  # what is told before both listen is lost
            await one.processes.broadcast("test", "hello")
            await real.sleep(0.1)
        telegram.fail("sendMessage", status=429, retry_after=60, chat=5)
        with pytest.raises(DeliveryError, match="to wait 60 s"):
            await one.send("hello", chat=5)
        await eventually(lambda: not two.channel.capabilities.sends_at_once(_to(5)), SECONDS)
        assert two.channel.capabilities.sends_at_once(_to(6))


def _to(chat: int) -> Delivery:
    return delivery("x", chat=chat)


async def test_a_part_that_shrinks_counts_what_was_sent_before() -> None:
    clock, part = SteppedClock(), 1.0
    window = SlidingWindow(LIMIT, 1.0, lambda: part)
    for _ in range(LIMIT):
        assert window.wait(clock.monotonic()) == 0
        window.count(clock.monotonic())
        clock.advance(0.01)
    part = 1 / 3
    wait = window.wait(clock.monotonic())
    clock.advance(wait - 0.001)
    assert window.wait(clock.monotonic()) > 0
    clock.advance(0.002)
    assert window.free(clock.monotonic()) == 1, "nine of the last second are left, of ten"


@pytest.mark.parametrize("replicas", [1, 2, 3, 7, 29, 31, 60])
async def test_all_parts_together_are_no_more_than_the_limit(replicas: int) -> None:
    clock, seconds = SteppedClock(), 20
    settings = TelegramSettings.model_validate({"messages_per_second": LIMIT, "chat_messages_per_second": 1e6})
    limiters = [RateLimiter(settings, clock, lambda: 1 / replicas) for _ in range(replicas)]
    times = list[float]()
    for _ in range(seconds * 100):
        for limiter in limiters:
            while limiter.wait(1) <= 0:
                limiter._count(1)
                times.append(clock.monotonic())
        clock.advance(0.01)
    assert len(times) <= LIMIT * seconds + replicas
    assert len(times) >= LIMIT * seconds * 0.7
    if replicas <= LIMIT:
        assert most_within(1, times) <= LIMIT


class Counted:
    """A process's part, its heartbeat and its clock."""

    def __init__(self, database: PostgresDatabase, clock: SteppedClock) -> None:
        self.database = database
        self.clock = clock
        self.share = ReplicaShare(database, clock)

    async def see(self, name: str = "", ago: float = 0.0) -> None:
        """Send the heartbeat of a process, this one without a name."""
        await self.database.write(sql(SEEN, id=name or self.database.replica, ago=ago))

    async def look(self) -> float:
        await self.share._count()
        return self.share.part()


async def test_a_process_uses_its_part_when_the_others_have_counted_it_and_next_to_nothing_before(
    place: PostgresPlace,
) -> None:
    async with open_schema(place, real) as database:
        one = Counted(database, SteppedClock())
        assert one.share.part() == NEWCOMER
        assert await one.look() == NEWCOMER, "no heartbeat was seen yet"
        await one.see()
        assert await one.look() == 1.0, "alone, it need not wait for anyone"
        await one.see("other")
        one.clock.advance(1)
        assert await one.look() == 1 / 2
        two = Counted(database, SteppedClock())
        assert await two.look() == NEWCOMER, "the others do not know of it"
        for _ in range(4):
            two.clock.advance((VALID_SECONDS + WINDOW_SECONDS) / 4)
            await two.look()
        assert two.share.part() == 1 / 2
        # One that is unseen for as long as the dead are is not counted.
        await one.see("other", ago=STALL_SECONDS + 1)
        one.clock.advance(1)
        assert await one.look() == 1 / 2, "what it sent right before still counts"
        one.clock.advance(WINDOW_SECONDS)
        assert await one.look() == 1.0


async def test_a_process_that_stood_still_is_a_newcomer_again(place: PostgresPlace) -> None:
    async with open_schema(place, real) as database:
        one = Counted(database, SteppedClock())
        await one.see()
        assert await one.look() == 1.0
        one.clock.advance(VALID_SECONDS + 0.1)
        assert one.share.part() == NEWCOMER, "what it counted may be wrong by now"
        one.clock.advance(STALL_SECONDS)
        await one.see("another, which began meanwhile")
        await one.see()
        assert await one.look() == NEWCOMER
