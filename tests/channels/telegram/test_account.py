"""The bot while no daemon runs: who it is, and who sends it the code."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from goclaw.channels.base import Account, AccountPart
from goclaw.common.config.schema import Config
from goclaw.common.core.catalog import ACCOUNTS
from goclaw.common.core.events import Actor
from goclaw.common.core.plugins import load
from goclaw.common.net import open_client
from goclaw.errors import ChannelError, ConfigError
from tests.channels.telegram.support import HastyClock
from tests.fake_telegram.server import FakeTelegram

CODE = "48219037"
PART = load(ACCOUNTS["telegram"], AccountPart)


@asynccontextmanager
async def account_at(telegram: FakeTelegram, **settings: Any) -> AsyncIterator[Account]:
    values = {"token": telegram.token, "base_url": telegram.base_url, "poll_seconds": 5, **settings}
    async with open_client() as http:
        yield PART.open(Config.model_validate({"telegram": values}), http, HastyClock())


@asynccontextmanager
async def meeting(telegram: FakeTelegram) -> AsyncIterator[asyncio.Task[Actor]]:
    """Somebody waits for the code; whoever is not met by the end is waited for no longer."""
    async with account_at(telegram) as account, asyncio.timeout(20):
        task = asyncio.create_task(account.meet(CODE))
        await telegram.wait_called("getUpdates")
        yield task
        task.cancel()


async def looked_again(telegram: FakeTelegram, task: asyncio.Task[Actor]) -> None:
    """Return when what was said so far has been looked at."""
    await telegram.wait_called("getUpdates", len(telegram.called("getUpdates")) + 2)
    assert not task.done()


def pending(telegram: FakeTelegram) -> list[str]:
    return [update["message"].get("text", "") for update in telegram.world.updates]


async def test_the_bot_says_its_name() -> None:
    async with FakeTelegram() as telegram, account_at(telegram) as account:
        assert await account.name() == "@claw_bot"


async def test_whoever_sends_the_code_alone_is_met_and_told_so() -> None:
    async with FakeTelegram() as telegram, meeting(telegram) as met:
        await telegram.world.say(CODE, user=7, name="Ann")
        assert await met == Actor("telegram:7", "telegram", name="Ann")
        assert "code is correct" in telegram.sent(7)[0].text
        assert pending(telegram) == [], "the daemon need not answer the code"


async def test_what_others_wrote_stays_for_the_daemon() -> None:
    async with FakeTelegram() as telegram:
        await telegram.world.say("before", user=8)
        async with meeting(telegram) as met:
            await telegram.world.say(CODE, user=7)
            await met
        assert pending(telegram) == ["before", CODE] and telegram.world.confirmed == []
        assert all("offset" not in call for call in telegram.called("getUpdates"))


async def test_what_comes_after_the_code_stays_too() -> None:
    async with FakeTelegram() as telegram:
        await telegram.world.say(CODE, user=7)
        await telegram.world.say("after", user=8)
        async with meeting(telegram) as met:
            await met
        assert pending(telegram) == ["after"]


@pytest.mark.parametrize(
    "message",
    [
        {"text": "48219038"},
        {"text": f"the code is {CODE}"},
        {"text": CODE, "chat": -100},
        {"text": f"@claw_bot {CODE}", "chat": -100},
        {"text": CODE, "photo": b"picture"},
        {"text": CODE, "forward_origin": {"type": "hidden_user", "sender_user_name": "Bob", "date": 1}},
        {"text": CODE, "sender_chat": {"id": -5, "type": "channel", "title": "News"}},
        {"text": CODE, "from": {"id": 9, "is_bot": True, "first_name": "Bot"}},
    ],
    ids=["wrong", "among words", "group", "mention", "caption", "forwarded", "channel", "bot"],
)
async def test_nothing_else_is_the_code(message: dict[str, Any]) -> None:
    async with FakeTelegram() as telegram, meeting(telegram) as met:
        await telegram.world.say(**message)
        await looked_again(telegram, met)
        assert len(telegram.world.updates) == 1 and telegram.world.sent() == []


async def test_a_refused_token_and_a_missing_one_are_said_in_words() -> None:
    async with FakeTelegram() as telegram:
        wrong = "43:AAwrong-token-of-somebody-else-entirely"
        async with account_at(telegram, token=wrong) as account:
            with pytest.raises(ChannelError, match="refuses this token") as caught:
                await account.name()
            assert wrong not in str(caught.value)
        with pytest.raises(ConfigError, match=r"set telegram\.token"):
            async with account_at(telegram, token=None):
                pass


async def test_a_server_that_is_away_is_said_in_words() -> None:
    telegram = FakeTelegram(port=9)
    async with account_at(telegram) as account:
        with pytest.raises(ChannelError, match="cannot be reached"):
            await account.name()


async def test_another_poller_ends_the_waiting_with_what_helps() -> None:
    async with FakeTelegram() as telegram:
        telegram.fail("getUpdates", status=409, description="Conflict: terminated by other getUpdates request")
        async with meeting(telegram) as met:
            with pytest.raises(ChannelError, match="`goclaw stop`"):
                await met


async def test_a_broken_network_is_waited_out() -> None:
    async with FakeTelegram() as telegram:
        telegram.fail("getUpdates", cut="before", times=2)
        telegram.fail("getUpdates", status=429, retry_after=1)
        async with meeting(telegram) as met:
            await telegram.world.say(CODE, user=7)
            assert (await met).key == "telegram:7"


async def test_where_the_code_cannot_be_seen_that_is_said() -> None:
    async with FakeTelegram() as telegram:
        for number in range(100):
            await telegram.world.say(f"m{number}", user=8)
        async with meeting(telegram) as met:
            with pytest.raises(ChannelError, match="goclaw logs"):
                await met
        assert len(telegram.world.updates) == 100
