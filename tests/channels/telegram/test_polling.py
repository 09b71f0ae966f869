"""Nothing that people wrote is lost on the way in, and no trouble ends the daemon."""

import asyncio
import logging
from contextlib import AsyncExitStack

import pytest

from goclaw.channels.telegram.connection import CONFLICT, REFUSED, TOKEN_ALERT, WEBHOOK
from goclaw.channels.telegram.polling import FIRST_PAUSE, IDLE_SECONDS
from goclaw.errors import DeliveryError
from tests.channels.telegram.support import HastyClock, eventually, open_stage
from tests.fake_telegram.methods import POLLER_CONFLICT
from tests.fake_telegram.server import FakeTelegram


class Desk:
    """Alerts that were told and are not over."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def tell(self, key: str, text: str) -> None:
        self.told[key] = text

    def clear(self, key: str) -> None:
        self.told.pop(key, None)


@pytest.mark.promise("P-telegram-no-loss")
async def test_an_update_is_acknowledged_only_after_the_gateway_has_it() -> None:
    async with open_stage(clock=HastyClock()) as stage:
        gate = stage.gateway.gates["hello"] = asyncio.Event()
        said = await stage.telegram.world.say("hello")
        await stage.gateway.wait_begun(1)
        # Others are heard meanwhile, and their updates are durable, but behind one that is not.
        other = await stage.telegram.world.say("heard", user=6)
        await stage.gateway.wait_accepted(1)
        polls = len(stage.telegram.called("getUpdates"))
        await stage.telegram.wait_called("getUpdates", polls + 3)
        assert stage.telegram.world.confirmed == []
        assert stage.gateway.begun == ["hello", "heard"], "what Telegram repeats is passed over"
        gate.set()
        await stage.telegram.wait_for(lambda: not stage.telegram.world.updates or None)
        assert stage.telegram.world.confirmed == [said["update_id"], other["update_id"]]
        assert [inbound.text for inbound in stage.gateway.accepted] == ["heard", "hello"]


async def test_a_disk_that_hangs_is_polled_past_twice_a_second_at_most() -> None:
    clock = HastyClock()
    async with open_stage(clock=clock) as stage:
        stage.gateway.gates["hello"] = asyncio.Event()
        await stage.telegram.world.say("hello")
        await stage.gateway.wait_begun(1)
        began, polls = clock.monotonic(), len(stage.telegram.called("getUpdates"))
        await stage.telegram.wait_called("getUpdates", polls + 40)
        polls = len(stage.telegram.called("getUpdates")) - polls
        assert polls <= 2 * (clock.monotonic() - began) + 5  # the first looks are quicker: they may be for an album


@pytest.mark.promise("P-telegram-no-loss")
async def test_what_a_failing_gateway_did_not_take_comes_again() -> None:
    async with FakeTelegram() as telegram:
        await telegram.world.say("hello")
        async with open_stage(telegram=telegram, running=False) as first:
            first.gateway.errors.append(OSError("disk full"))
            with pytest.raises(ExceptionGroup):
                await first.channel.run(first.gateway)
        assert telegram.world.confirmed == []
        async with open_stage(telegram=telegram) as second:
            assert [inbound.text for inbound in await second.gateway.wait_accepted(1)] == ["hello"]


async def test_the_first_poll_has_no_offset() -> None:
    async with open_stage() as stage:
        (first,) = await stage.telegram.wait_called("getUpdates")
        assert "offset" not in first


async def test_after_days_without_news_the_offset_is_forgotten() -> None:
    """Telegram may go on with smaller ids after a quiet week, and would take an old offset for their receipt."""
    clock = HastyClock()
    async with open_stage(clock=clock, poll_seconds=0) as stage:
        await stage.telegram.world.say("hello")
        await stage.telegram.wait_for(lambda: stage.telegram.world.confirmed or None)
        assert "offset" in stage.telegram.called("getUpdates")[-1]
        clock.advance(IDLE_SECONDS)
        await stage.telegram.wait_for(lambda: True if "offset" not in stage.telegram.called("getUpdates")[-1] else None)


async def test_messages_of_one_chat_stay_in_order_and_do_not_hold_up_others() -> None:
    async with open_stage() as stage:
        # A first batch that waits, so that the rest arrives in one.
        first = stage.gateway.gates["first"] = asyncio.Event()
        await stage.telegram.world.say("first", user=9)
        await stage.gateway.wait_begun(1)
        slow = stage.gateway.gates["slow"] = asyncio.Event()
        for text, user in [("slow", 5), ("next", 5), ("other", 6)]:
            await stage.telegram.world.say(text, user=user)
        first.set()
        assert await stage.gateway.wait_begun(3) == ["first", "slow", "other"]
        slow.set()
        accepted = await stage.gateway.wait_accepted(4)
        assert [inbound.text for inbound in accepted] == ["first", "other", "slow", "next"]


async def test_updates_that_are_not_for_us_are_acknowledged_and_skipped() -> None:
    async with open_stage() as stage:
        await stage.telegram.world.say("talk among people", chat=-100)
        await stage.telegram.world.update("message", {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}})
        await stage.telegram.world.say("hello")
        assert [inbound.text for inbound in await stage.gateway.wait_accepted(1)] == ["hello"]
        await stage.telegram.wait_for(lambda: True if len(stage.telegram.world.confirmed) == 3 else None)


@pytest.mark.promise("P-telegram-stays")
async def test_a_conflict_is_shown_and_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = HastyClock()
    async with FakeTelegram() as fake:
        fake.fail("getUpdates", status=409, description=POLLER_CONFLICT, times=9)
        last = asyncio.Event()
        fake.fail("getUpdates", gate=last)
        async with open_stage(telegram=fake, clock=clock) as stage:
            await fake.wait_called("getUpdates", 10)
            assert clock.slept == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
            assert stage.channel.health().startswith(CONFLICT)
            await fake.world.say("hello")
            last.set()
            await stage.gateway.wait_accepted(1)
            assert stage.channel.health().startswith("polling")
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING and "409" in record.message]
    assert len(warnings) == 1, "the same trouble is logged once"


async def test_after_a_good_poll_trouble_is_met_with_fresh_patience() -> None:
    clock = HastyClock()
    async with FakeTelegram() as fake:
        passing = asyncio.Event()
        passing.set()
        fake.fail("getUpdates", status=500, times=3)
        fake.fail("getUpdates", gate=passing)
        fake.fail("getUpdates", status=500)
        async with open_stage(telegram=fake, clock=clock, poll_seconds=0):
            await fake.wait_called("getUpdates", 6)
            assert [seconds for seconds in clock.slept if seconds >= FIRST_PAUSE] == [
                *(0.5, 1, 2),
                0.5,  # the empty answer came at once
                0.5,
            ]


@pytest.mark.promise("P-telegram-stays")
async def test_a_webhook_is_removed_once_and_what_waited_for_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeTelegram() as fake:
        fake.world.webhook = "https://elsewhere.example/hook"
        await fake.world.say("hello")
        async with open_stage(telegram=fake, clock=HastyClock()) as stage:
            assert [inbound.text for inbound in await stage.gateway.wait_accepted(1)] == ["hello"]
        (call,) = fake.called("deleteWebhook")
        assert not call.get("drop_pending_updates")
    assert "removed the bot's webhook" in caplog.text


async def test_a_webhook_that_somebody_sets_again_is_left_and_shown() -> None:
    clock = HastyClock()
    async with FakeTelegram() as fake:
        fake.world.webhook = "https://elsewhere.example/hook"
        async with open_stage(telegram=fake, clock=clock) as stage:
            await fake.wait_called("deleteWebhook")
            await fake.wait_called("getUpdates", 2)
            fake.world.webhook = "https://elsewhere.example/hook"
            await fake.world.say("hello")
            await eventually(lambda: stage.channel.health().startswith(WEBHOOK))
            await eventually(lambda: 60.0 in clock.slept)
            assert len(fake.called("deleteWebhook")) == 1
            fake.world.webhook = ""
            await stage.gateway.wait_accepted(1)


async def test_a_token_that_is_revoked_in_mid_run_ends_the_channel_and_tells_the_operator() -> None:
    desk = Desk()
    async with open_stage(running=False, alerts=desk) as stage:
        running = asyncio.create_task(stage.channel.run(stage.gateway))
        await stage.telegram.world.say("hello")
        await stage.gateway.wait_accepted(1)
        stage.telegram.token = "42:another"
        await stage.telegram.world.say("unheard")
        async with asyncio.timeout(10):
            await running
        assert stage.channel.health() == REFUSED
        assert "then restart" in desk.told[TOKEN_ALERT]
        with pytest.raises(DeliveryError):
            await stage.deliver("an answer that is late")
        assert len(stage.gateway.accepted) == 1


@pytest.mark.promise("P-telegram-stays")
@pytest.mark.parametrize("status", [401, 404])
async def test_a_refused_token_ends_the_channel_and_nothing_else(status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with open_stage(running=False) as stage:
        stage.telegram.fail("*", status=status, description="Unauthorized", times=99)
        async with asyncio.timeout(20):
            await stage.channel.run(stage.gateway)
        assert stage.channel.health() == REFUSED
        assert stage.telegram.token not in caplog.text
    assert sum(REFUSED in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 502, "description": "Bad Gateway"},
        {"cut": "before"},
        {"cut": "after"},
        {"body": b"<html>"},
        {"body": b'{"ok": true, "result": [{"no": "id"}]}'},
        {"body": b'{"ok": true, "result": 7}'},
        {"status": 429, "retry_after": 1},
    ],
)
@pytest.mark.promise("P-telegram-stays")
async def test_trouble_on_the_way_is_waited_out(fault: dict[str, object]) -> None:
    async with open_stage(running=False, clock=HastyClock()) as stage:
        stage.telegram.fail("getUpdates", **fault)
        polling = asyncio.create_task(stage.channel.run(stage.gateway))
        await stage.telegram.world.say("hello")
        assert [inbound.text for inbound in await stage.gateway.wait_accepted(1)] == ["hello"]
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling


async def test_a_server_that_is_down_is_asked_less_and_less_often() -> None:
    clock = HastyClock()
    async with AsyncExitStack() as up:
        telegram = await up.enter_async_context(FakeTelegram())
        async with open_stage(clock=clock, telegram=telegram) as stage:
            await telegram.wait_called("getMe")  # or it would be asked for again and again as well, with its own pauses
            await telegram.wait_called("getUpdates", 2)
            await up.aclose()
            clock.slept.clear()
            await eventually(lambda: 30.0 in clock.slept)
            assert stage.channel.health().startswith("no connection: ClientConnectorError")
            assert "next try in" in stage.channel.health()
            assert min(clock.slept) >= 0.5, "never more than two polls a second"
            assert clock.slept == sorted(clock.slept)


async def test_group_messages_wait_until_the_bot_knows_its_name() -> None:
    async with open_stage(running=False) as stage:
        gate = asyncio.Event()
        stage.telegram.fail("getMe", gate=gate)
        await stage.telegram.world.say("@claw_bot hello", chat=-100)
        polling = asyncio.create_task(stage.channel.run(stage.gateway))
        await stage.telegram.wait_called("getMe")
        await stage.telegram.wait_called("getUpdates")
        assert stage.gateway.begun == []
        gate.set()
        assert [inbound.text for inbound in await stage.gateway.wait_accepted(1)] == ["hello"]
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
