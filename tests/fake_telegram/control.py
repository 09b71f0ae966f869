"""The fake for other processes: everything a test does with methods, over HTTP below `/sim/`.

POST /sim/say      {"text": "hello", "user": 5, "chat": -100, ...}    -> the update
POST /sim/press    {"chat": 5, "message_id": 7, "data": "yes"}        -> the update
POST /sim/meet     {"chat": 5}
POST /sim/fail     {"method": "sendMessage", "status": 429, "retry_after": 2, "times": 1, "cut": "after", ...}
GET  /sim/sent?chat=5        the bot's messages as they stand now (files as their size)
GET  /sim/calls?method=…     every call, with its time
GET  /sim/pending            ids of the updates that the bot has not confirmed
GET  /sim/counts             {"calls": {method: count}, "sent": …, "repeated": …, "pending": …, "confirmed": …}
"""

from collections import Counter
from dataclasses import asdict

from aiohttp import web

from tests.fake_telegram.server import FakeTelegram
from tests.fake_telegram.world import Json


class ControlledTelegram(FakeTelegram):
    """`FakeTelegram` with the `/sim/` routes."""

    def add_routes(self, application: web.Application) -> None:
        router = application.router
        router.add_post("/sim/say", self._say)
        router.add_post("/sim/press", self._press)
        router.add_post("/sim/meet", self._meet)
        router.add_post("/sim/fail", self._fail)
        router.add_get("/sim/sent", self._sent)
        router.add_get("/sim/calls", self._calls)
        router.add_get("/sim/pending", self._pending)
        router.add_get("/sim/counts", self._counts)

    async def _say(self, request: web.Request) -> web.Response:
        return web.json_response(await self.world.say(**await request.json()))

    async def _press(self, request: web.Request) -> web.Response:
        return web.json_response(await self.world.press(**await request.json()))

    async def _meet(self, request: web.Request) -> web.Response:
        self.world.meet(**await request.json())
        return web.json_response({})

    async def _fail(self, request: web.Request) -> web.Response:
        self.fail(**await request.json())
        return web.json_response({})

    async def _sent(self, request: web.Request) -> web.Response:
        chat = request.query.get("chat")
        found = self.sent(None if chat is None else int(chat))
        rows: list[Json] = [asdict(sent) | {"file": None if sent.file is None else len(sent.file)} for sent in found]
        return web.json_response(rows)

    async def _calls(self, request: web.Request) -> web.Response:
        method = request.query.get("method")
        return web.json_response([asdict(call) for call in self.calls if method in (None, call.method)])

    async def _pending(self, request: web.Request) -> web.Response:
        return web.json_response([update["update_id"] for update in self.world.updates])

    async def _counts(self, request: web.Request) -> web.Response:
        counts = {
            "calls": Counter(call.method for call in self.calls),
            "sent": len(self.sent()),
            "repeated": len(self.repeated()),
            "pending": len(self.world.updates),
            "confirmed": len(self.world.confirmed),
        }
        return web.json_response(counts)
