"""The world around the daemon as one program of its own: Telegram, its people, the model servers.

`python -m benchmarks.fake_world` prints one line of JSON (`url`) and serves until it is ended. People are driven from
inside, so that their clock and Telegram's are one:

POST /sim/model {"deltas": 4, "pieces": [], "think": 0.0, "pause": 0.0, "command": "", "marked": false, "together": 0}
POST /sim/talk  {"people": [1, 2], "messages": 10, "text": "hello", "whole": true}
    each person writes, waits for the reply, writes again; people side by side. `whole`: the reply is the first message
    that has the model's whole answer in it, else the first one. Answers
    {"seconds": wall time, "replies": [seconds, …], "model": [seconds, …], "wrong": [text, …]}
GET  /sim/state {"first_poll": seconds or null, "calls": {method: count}, "most_at_once": model requests}
"""

import asyncio
import json
import sys
import time

import uvloop
from aiohttp import web

from benchmarks.fake_models import FakeModels
from benchmarks.fake_telegram import FakeTelegram
from benchmarks.figures import Json

MAX_BODY = 64 * 1024 * 1024


class World:
    """Both fakes on one port, and the routes that drive them."""

    def __init__(self) -> None:
        self.telegram = FakeTelegram()
        self.models = FakeModels()

    def application(self) -> web.Application:
        """The web application."""
        application = web.Application(client_max_size=MAX_BODY)
        self.telegram.add_routes(application.router)
        self.models.add_routes(application.router)
        application.router.add_post("/sim/model", self._model)
        application.router.add_post("/sim/talk", self._talk)
        application.router.add_get("/sim/state", self._state)
        return application

    async def _model(self, request: web.Request) -> web.Response:
        for name, value in (await request.json()).items():
            setattr(self.models, name, value)
        return web.json_response({})

    async def _talk(self, request: web.Request) -> web.Response:
        wish: Json = await request.json()
        self.models.seconds.clear()
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            talks = [group.create_task(self._converse(person, wish)) for person in wish["people"]]
        seconds = time.monotonic() - began
        replies = [reply for talk in talks for reply in talk.result()]
        answer = {
            "seconds": seconds,
            "replies": [taken for taken, _, _ in replies],
            "model": self.models.seconds,
            "wrong": [text for _, text, expected in replies if text != expected],
        }
        return web.json_response(answer)

    async def _converse(self, person: int, wish: Json) -> list[tuple[float, str, str]]:
        found = []
        for number in range(wish["messages"]):
            mark = f" #{person}-{number}" if self.models.marked else ""
            expected = self.models.text + mark
            awaited = expected if wish["whole"] else ""
            found.append((*await self.telegram.say(person, wish["text"] + mark, awaited), expected))
        return found

    async def _state(self, request: web.Request) -> web.Response:
        state = {"first_poll": self.telegram.first_poll, "calls": self.telegram.calls}
        return web.json_response(state | {"most_at_once": self.models.most_at_once})


async def serve() -> None:
    """Print where the world is, then serve until the process is ended."""
    runner = web.AppRunner(World().application(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{runner.addresses[0][1]}"}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
