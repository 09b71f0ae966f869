"""A daemon that Telegram calls: killed, ended and started again, it loses nothing and says nothing twice."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.daemon import Installation, installation
from tests.acceptance.model import EchoModel
from tests.acceptance.waiting import eventually, never
from tests.fake_telegram.server import FakeTelegram
from tests.lanes import repeats
from tests.ports import free_port

pytestmark = [pytest.mark.slow]

ANN, BEA = 5, 6
KILLS = repeats(4, 16)
QUIET_SECONDS = 0.7


@dataclass
class Place:
    """An installation that Telegram calls."""

    home: Installation
    port: int

    async def get(self, path: str) -> tuple[int, str]:
        """What the listener answers."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.port}{path}") as response:
            return response.status, await response.text()


@asynccontextmanager
async def called(folder: Path, telegram: FakeTelegram, model: EchoModel) -> AsyncIterator[Place]:
    port = free_port()
    async with installation(folder, telegram, model.url, forks=True, http={"port": port}) as home:
        home.config["telegram"] |= {"mode": "webhook", "webhook": {"url": f"http://127.0.0.1:{port}/hook"}}
        home.write_config()
        home.write_users({"telegram:5": {"name": "Ann"}, "telegram:6": {"name": "Bea"}})
        yield Place(home, port)


def has_confirmed(telegram: FakeTelegram, count: int) -> bool:
    return len(telegram.world.confirmed) >= count


def texts(telegram: FakeTelegram, chat: int) -> list[str]:
    return [sent.text for sent in telegram.sent(chat)]


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.timeout(150)
@pytest.mark.promise("P-answered-once")
async def test_kills_while_telegram_calls_lose_nothing_and_double_nothing(
    folder: Path, telegram: FakeTelegram, model: EchoModel
) -> None:
    async with called(folder, telegram, model) as place:
        home, number = place.home, 0
        await home.start()
        telegram.caller.lost_answers = 3
        for kill in range(KILLS):
            for chat in (ANN, BEA):
                for _ in range(2):
                    number += 1
                    await telegram.world.say(f"m{number} plain", user=chat)
            # At another moment each time: before a call is answered, after it, in the midst of the turns.
            confirmed = len(telegram.world.confirmed) + kill % 4
            await eventually(partial(has_confirmed, telegram, confirmed))
            await home.kill()
            await home.start()
        await eventually(lambda: len(telegram.world.confirmed) == number)
        await eventually(lambda: not home.read("SELECT id FROM inbox WHERE state != 'done'"))
        await eventually(lambda: not home.read("SELECT id FROM deliveries WHERE state != 'sent'"))
        said = [text for chat in (ANN, BEA) for text in texts(telegram, chat)]
        for asked in range(1, number + 1):
            unmarked = [text for text in said if text == f"answer m{asked} (end)"]
            assert len(unmarked) <= 1, "twice, and the second does not say so"
            assert any(text.endswith(f"answer m{asked} (end)") for text in said), f"m{asked} was lost"
        assert home.read("SELECT count(*) FROM inbox") == [(number,)]
        assert home.integrity() == "ok"
        assert await home.stop() == 0


async def test_what_comes_while_the_daemon_is_away_is_answered_when_it_is_back(
    folder: Path, telegram: FakeTelegram, model: EchoModel
) -> None:
    async with called(folder, telegram, model) as place:
        await place.home.start()
        await telegram.wait_called("setWebhook")
        assert await place.home.stop() == 0
        await telegram.world.say("m1 plain", user=ANN)
        await eventually(lambda: telegram.caller.posts)
        await place.home.start()
        await eventually(lambda: texts(telegram, ANN))
        await never(lambda: texts(telegram, ANN)[1:], QUIET_SECONDS)
        assert texts(telegram, ANN) == ["answer m1 (end)"]
        assert await place.home.stop() == 0


async def test_health_is_told_over_http_and_by_the_command_line(
    folder: Path, telegram: FakeTelegram, model: EchoModel
) -> None:
    async with called(folder, telegram, model) as place:
        await place.home.start()
        await telegram.wait_called("setWebhook")
        assert await place.get("/healthz") == (200, '{"status": "ok"}')
        status, body = await place.get("/readyz")
        assert status == 200 and json.loads(body)["ready"] is True
        assert json.loads(body)["channels"]["telegram"] in ("webhook", "connecting")
        ran = await place.home.run("status", "--json")
        health = json.loads(ran.out)["health"]
        assert health["ready"] is True and health["alerts"] == {} and health["turns"] == 0
        assert "Event loop" in health["vitals"]
        assert f"HTTP: 127.0.0.1 port {place.port}" in (await place.home.run("status")).out
        # The secret is nowhere but in its file.
        secret = (place.home.state / "secrets" / "telegram__webhook__secret").read_text()
        shown = (await place.home.run("config", "show")).out
        logs = "".join(path.read_text() for path in (place.home.state / "logs").iterdir() if path.is_file())
        assert secret not in shown + ran.out + body + logs + place.home.output
        assert await place.home.stop() == 0


async def test_going_back_to_polling_takes_the_webhook_away(
    folder: Path, telegram: FakeTelegram, model: EchoModel
) -> None:
    async with called(folder, telegram, model) as place:
        await place.home.start()
        await telegram.wait_called("setWebhook")
        assert await place.home.stop() == 0
        place.home.config["telegram"]["mode"] = "polling"
        place.home.write_config()
        await place.home.start()
        await telegram.world.say("m1 plain", user=ANN)
        await eventually(lambda: texts(telegram, ANN) == ["answer m1 (end)"])
        assert telegram.world.webhook == ""
        assert await place.home.stop() == 0
