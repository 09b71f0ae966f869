"""Several processes with one bot: one polls, all send, and the next one polls when that is gone."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from goclaw.channels.telegram.connection import STANDING_BY
from goclaw.channels.telegram.first_poll import start
from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.errors import DiskError, DiskFault
from tests.acceptance.waiting import eventually
from tests.channels.support import RecordingGateway
from tests.channels.telegram.replicas import STALL, open_replica
from tests.channels.telegram.support import passing
from tests.fake_telegram.server import FakeTelegram
from tests.postgres import fresh_place, running

SECONDS = 20.0


async def test_one_of_several_polls_and_all_of_them_send(place: PostgresPlace, tmp_path: Path) -> None:
    gateway = RecordingGateway()
    async with FakeTelegram() as telegram, open_replica(place, telegram, tmp_path / "one", gateway) as one:
        await eventually(lambda: one.channel.health().startswith("polling"), SECONDS)
        async with open_replica(place, telegram, tmp_path / "two", gateway) as two:
            await telegram.world.say("hello", user=5)
            assert [each.text for each in await gateway.wait_accepted(1)] == ["hello"]
            await one.send("from one", number="d1")
            await two.send("from two", number="d2")
            assert [sent.text for sent in telegram.sent(5)] == ["from one", "from two"]
            assert two.channel.health() == STANDING_BY
            assert one.channel.health().startswith("polling")


@pytest.mark.promise("P-telegram-replicas")
async def test_the_next_one_polls_on_from_what_the_last_one_has_acknowledged(
    place: PostgresPlace, tmp_path: Path
) -> None:
    first, second = RecordingGateway(), RecordingGateway()
    async with FakeTelegram() as telegram, AsyncExitStack() as stack:
        leaving = await stack.enter_async_context(AsyncExitStack())
        one = await leaving.enter_async_context(open_replica(place, telegram, tmp_path / "one", first))
        await eventually(lambda: one.channel.health().startswith("polling"), SECONDS)
        two = await stack.enter_async_context(open_replica(place, telegram, tmp_path / "two", second))
        await telegram.world.say("kept", user=5)
        await eventually(lambda: telegram.world.confirmed, SECONDS)
        first.gates["not kept"] = asyncio.Event()
        await telegram.world.say("not kept", user=5)
        await first.wait_begun(2)
        await leaving.aclose()
        assert [each.text for each in await second.wait_accepted(1)] == ["not kept"]
        await eventually(lambda: two.channel.health().startswith("polling"), SECONDS)


@pytest.mark.promise("P-telegram-replicas")
async def test_a_poller_that_stood_still_gives_way_and_nothing_is_lost_or_taken_in_twice(
    place: PostgresPlace, tmp_path: Path
) -> None:
    """The clock of the first one stands still: it sends no heartbeat, and does not see that its duty is gone."""
    clock, gateway, said = SteppedClock(), RecordingGateway(), 0

    async def say(count: int) -> None:
        nonlocal said
        for _ in range(count):
            said += 1
            await telegram.world.say(f"m{said}", user=5)

    async with FakeTelegram() as telegram, AsyncExitStack() as stack:
        paused = await stack.enter_async_context(
            open_replica(place, telegram, tmp_path / "one", gateway, clock=clock, poll_seconds=50)
        )
        await eventually(lambda: paused.channel.health().startswith("polling"), SECONDS)
        await passing(clock, lambda: len(telegram.called("getUpdates")) > 1)
        heir = await stack.enter_async_context(open_replica(place, telegram, tmp_path / "two", gateway))
        await eventually(lambda: heir.channel.health().startswith("polling"), SECONDS + STALL)
        await say(3)
        await gateway.wait_accepted(3)
        # It goes on: it polls once more, until it sees that the connection with its duty is gone.
        clock.advance(0.9)
        await say(3)
        await passing(clock, lambda: paused.channel.health() == STANDING_BY)
        await say(3)
        await eventually(lambda: len({each.id for each in gateway.accepted}) == said, SECONDS)
        await eventually(lambda: not telegram.world.updates, SECONDS)
        assert heir.channel.health().startswith("polling")
    taken = Counter(each.id for each in gateway.accepted)
    assert len(taken) == said == len(set(telegram.world.confirmed)), "what came twice has the same id both times"


async def test_no_process_on_postgres_polls_before_it_has_the_duty(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        values = {"token": telegram.token, "base_url": telegram.base_url}
        config = Config.model_validate({"telegram": values, "state_dir": tmp_path, "store": "postgresql://h/db"})
        async with start(config) as begun:
            assert begun is None
        assert telegram.calls == []


async def test_while_the_store_is_away_each_person_is_told_why_they_wait(tmp_path: Path) -> None:
    gateway = RecordingGateway()
    away = DiskError("Postgres cannot be reached", DiskFault.UNREACHABLE)
    with running() as server:
        async with FakeTelegram() as telegram:
            async with open_replica(fresh_place(server), telegram, tmp_path / "one", gateway) as one:
                await eventually(lambda: one.channel.health().startswith("polling"), SECONDS)
                gateway.errors = [away] * 100  # as the gateway does, which tells the sender before
                server.stop()
                for number, name in enumerate(("Ann", "Ben", "Cem"), 1):
                    await telegram.world.say(f"from {name}", user=number)
                    await eventually(lambda name=name: f"from {name}" in gateway.begun, SECONDS)  # type: ignore[misc]  # bound at once
                server.start()
                gateway.errors = []
                await eventually(lambda: len({each.id for each in gateway.accepted}) == 3, SECONDS)


@pytest.mark.promise("P-order")
async def test_what_follows_a_message_that_waits_for_the_store_is_not_taken_before_it(tmp_path: Path) -> None:
    gateway = RecordingGateway()
    away = DiskError("Postgres cannot be reached", DiskFault.UNREACHABLE)
    with running() as server:
        async with FakeTelegram() as telegram:
            async with open_replica(fresh_place(server), telegram, tmp_path / "one", gateway) as one:
                await eventually(lambda: one.channel.health().startswith("polling"), SECONDS)
                gateway.errors = [away] * 2  # to the poll that ends by it, and to the first one without the store
                server.stop()
                await telegram.world.say("m1", user=1)
                await eventually(lambda: not gateway.errors, SECONDS)
                await telegram.world.say("m2", user=1)
                await telegram.world.say("from Ben", user=2)
                await eventually(lambda: len(gateway.accepted) == 1, SECONDS)
                server.start()
                await eventually(lambda: len({each.id for each in gateway.accepted}) == 3, SECONDS)
    assert list(dict.fromkeys(each.text for each in gateway.accepted)) == ["from Ben", "m1", "m2"]
