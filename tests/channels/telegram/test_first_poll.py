"""The first poll goes out before the daemon's other modules are imported, and the channel takes it over."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from goclaw.channels.base import Channel, ChannelPorts
from goclaw.channels.telegram.first_poll import FirstPoll, start
from goclaw.channels.telegram.poll_lock import BotInUse, only_poller
from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.supervise import background
from tests.channels.support import RecordingGateway, open_state
from tests.channels.telegram.support import PART, HastyClock, eventually
from tests.fake_telegram.server import FakeTelegram


async def no_blob(key: str) -> bytes:
    """No file goes out here."""
    raise KeyError(key)


def config_for(telegram: FakeTelegram, folder: Path, **settings: Any) -> Config:
    """What a daemon with this bot is configured with."""
    values = {"token": telegram.token, "base_url": telegram.base_url, "poll_seconds": 5, **settings}
    return Config.model_validate({"telegram": values, "state_dir": folder})


@asynccontextmanager
async def opened(config: Config, begun: object, clock: Clock | None = None) -> AsyncIterator[Channel]:
    """Open the channel with what was begun for it."""
    async with aiohttp.ClientSession() as session, open_state(config.state_dir) as state:
        ports = ChannelPorts(session, clock or RealClock(), no_blob, state, begun=begun)
        async with PART.open(config, ports) as channel:
            yield channel


@pytest.mark.promise("P-telegram-no-loss")
async def test_what_its_answer_holds_waits_for_the_channel_and_is_asked_for_once(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        said = await telegram.world.say("hello")
        config, gateway = config_for(telegram, tmp_path), RecordingGateway()
        async with start(config) as begun:
            assert isinstance(begun, FirstPoll)
            await begun.answer
            assert telegram.world.confirmed == [], "nothing is acknowledged before it is durable"
            async with opened(config, begun) as channel, background(channel.run(gateway), "channel"):
                assert [inbound.text for inbound in await gateway.wait_accepted(1)] == ["hello"]
                first, second, *_ = await telegram.wait_called("getUpdates", 2)
        assert (first["timeout"], "offset" in first) == (0, False)
        assert (second["timeout"], second["offset"]) == (5, said["update_id"] + 1)


async def test_a_first_poll_that_fails_is_repeated_as_any_other(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        telegram.fail("getUpdates", cut=True)
        await telegram.world.say("hello")
        config, gateway = config_for(telegram, tmp_path), RecordingGateway()
        async with (
            start(config) as begun,
            opened(config, begun, HastyClock()) as channel,
            background(channel.run(gateway), "channel"),
        ):
            assert [inbound.text for inbound in await gateway.wait_accepted(1)] == ["hello"]


async def test_nothing_is_left_of_it_when_the_daemon_does_not_come_to_open_the_channel(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        config = config_for(telegram, tmp_path)
        async with start(config) as begun:
            assert isinstance(begun, FirstPoll)
        assert begun.answer.done()
        assert begun.session.closed
        with only_poller(telegram.token, telegram.base_url, tmp_path):
            pass


async def test_the_bot_is_held_from_the_first_poll_to_the_end_of_the_channel(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        config, gateway = config_for(telegram, tmp_path), RecordingGateway()
        async with start(config) as begun:
            async with opened(config, begun) as channel:
                async with background(channel.run(gateway), "channel"):
                    await telegram.wait_called("getUpdates", 2)
                    with pytest.raises(BotInUse), only_poller(telegram.token, telegram.base_url, tmp_path):
                        pass
                with only_poller(telegram.token, telegram.base_url, tmp_path):
                    pass


async def test_beside_another_poller_it_waits_as_the_channel_does(tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        config, gateway = config_for(telegram, tmp_path), RecordingGateway()
        with only_poller(telegram.token, telegram.base_url, tmp_path):
            async with start(config) as begun:
                assert begun is None
                async with opened(config, begun) as channel, background(channel.run(gateway), "channel"):
                    await eventually(lambda: "another GoClaw" in channel.health())
        assert telegram.called("getUpdates") == []


@pytest.mark.parametrize("settings", [{"token": None}, {"mode": "webhook", "webhook": {"url": "https://bot.example"}}])
async def test_without_a_poll_loop_there_is_no_first_poll(settings: dict[str, Any], tmp_path: Path) -> None:
    async with FakeTelegram() as telegram:
        async with start(config_for(telegram, tmp_path, **settings)) as begun:
            assert begun is None
            await asyncio.sleep(0)
        assert telegram.called("getUpdates") == []
