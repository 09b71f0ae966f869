"""Telegram's side of a webhook, as the fake plays it: in order per chat, again until it is taken."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from tests.fake_telegram.server import FakeTelegram
from tests.http_server import serve


class Hook:
    """Takes calls, and answers with what `answers` says, then with 200."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[int] = []
        self.taken: list[int] = []
        self.secrets: list[str | None] = []

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.secrets.append(request.headers.get("X-Telegram-Bot-Api-Secret-Token"))
        self.taken.append((await request.json())["update_id"])
        return web.Response(status=self.answers.pop(0) if self.answers else 200)


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as fake:
        yield fake


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()
    async with serve(web.post("/hook", made.take)) as address:
        made.url = f"{address}/hook"
        yield made


async def call(telegram: FakeTelegram, method: str, **parameters: object) -> dict[str, object]:
    async with (
        ClientSession() as session,
        session.post(f"{telegram.base_url}/bot{telegram.token}/{method}", json=parameters) as response,
    ):
        answer: dict[str, object] = await response.json()
        return answer


async def test_updates_are_posted_with_the_secret_in_order_until_they_are_taken(
    telegram: FakeTelegram, hook: Hook
) -> None:
    hook.answers = [500, 403]
    said = [(await telegram.world.say(text))["update_id"] for text in ("one", "two")]
    assert (await call(telegram, "setWebhook", url=hook.url, secret_token="abc"))["ok"]
    await telegram.wait_for(lambda: len(telegram.world.confirmed) == 2 or None)
    assert hook.taken == [said[0], said[0], said[0], said[1]]
    assert set(hook.secrets) == {"abc"}


async def test_one_chat_does_not_hold_up_another(telegram: FakeTelegram, hook: Hook) -> None:
    hook.answers = [500] * 1
    await telegram.world.say("one", user=5)
    await telegram.world.say("two", user=6)
    await call(telegram, "setWebhook", url=hook.url)
    await telegram.wait_for(lambda: len(telegram.world.confirmed) == 2 or None)
    assert len(hook.taken) == 3


async def test_an_answer_that_got_lost_brings_the_update_again(telegram: FakeTelegram, hook: Hook) -> None:
    telegram.caller.lost_answers = 1
    await call(telegram, "setWebhook", url=hook.url)
    said = await telegram.world.say("one")
    await telegram.wait_for(lambda: telegram.world.confirmed or None)
    assert hook.taken == [said["update_id"]] * 2


async def test_how_the_calls_fare_can_be_asked(telegram: FakeTelegram, hook: Hook) -> None:
    hook.answers = [500] * 1_000
    await call(telegram, "setWebhook", url=hook.url, allowed_updates=["message"], max_connections=7)
    await telegram.world.say("one")
    async with asyncio.timeout(10):
        await telegram.wait_for(lambda: telegram.world.webhook_error or None)
    found = (await call(telegram, "getWebhookInfo"))["result"]
    assert isinstance(found, dict)
    assert (found["url"], found["pending_update_count"], found["max_connections"]) == (hook.url, 1, 7)
    assert found["last_error_message"] == "Wrong response from the webhook: 500"
