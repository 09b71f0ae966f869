"""A service calls the daemon, which is killed behind its answer: the task is done once, and so is its result's POST."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tests.acceptance.daemon import Installation
from tests.acceptance.waiting import eventually
from tests.fake_telegram.server import FakeTelegram
from tests.http_server import serve
from tests.ports import free_port

pytestmark = [pytest.mark.slow]

ANN = 5
SECRET = "0123456789abcdef0123456789abcdef"


@asynccontextmanager
async def service_that_is_told(heard: list[str]) -> AsyncIterator[str]:
    """A URL for results."""

    async def take(request: web.Request) -> web.StreamResponse:
        heard.append((await request.json())["text"])
        return web.Response(status=204)

    async with serve(web.post("/told", take)) as address:
        yield f"{address}/told"


@pytest.mark.timeout(120)
@pytest.mark.promise("P-webhook-once")
async def test_a_call_that_was_answered_is_done_once_over_a_kill(home: Installation, telegram: FakeTelegram) -> None:
    heard: list[str] = []
    async with service_that_is_told(heard) as url:
        port, base = free_port(), {"secret": SECRET, "user": "telegram:5"}
        home.config["http"] = {"port": port}
        home.config["notify"] = {"ops": {"url": url, "private": True}}
        home.config["webhooks"] = {
            "task": {**base, "task": "m1 plain"},
            "told": {**base, "message": "Build {{ body.n }} failed.", "to": "notify:ops"},
        }
        home.write_config()
        telegram.world.meet(ANN)
        await home.start(telegram)
        headers = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "1"}

        async def call(name: str, body: object) -> int:
            async with aiohttp.ClientSession(headers=headers) as http:
                async with http.post(f"http://127.0.0.1:{port}/hooks/{name}", json=body) as answer:
                    return answer.status

        assert await call("nothing", {}) == 404
        assert await call("told", {"n": 7}) == 202
        assert await call("task", {}) == 202
        await home.kill()
        await home.start(telegram)
        assert await call("task", {}) == 200
        await eventually(lambda: [sent.text for sent in telegram.sent(ANN)] == ["answer m1 (end)"])
        await eventually(lambda: set(heard) == {"Build 7 failed."})

        (home.folder / "body.json").write_text(json.dumps({"n": 8}))
        ran = await home.run("webhook", "test", "told", str(home.folder / "body.json"))
        assert ran.code == 0 and "Build 8 failed." in ran.out and '202 {"status": "accepted"}' in ran.out
        await eventually(lambda: "Build 8 failed." in heard)
        assert SECRET not in home.output and url not in home.output
        assert await home.stop() == 0
