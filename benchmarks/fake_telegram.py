"""A Bot API without checks, and people who write to the bot. Part of `fake_world`.

The strict fake of tests/ validates every call, which would cost more than what is measured here.
"""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiohttp import web

from benchmarks.figures import Json

TOKEN = "42:AAbench-token-of-a-bot-that-does-not-exist"  # noqa: S105 - of a fake
BOT = {"id": 42, "is_bot": True, "first_name": "Claw", "username": "claw_bot"}


REPLY_SECONDS = 120.0
"""After this, what was said last is the reply, whatever it is."""


@dataclass
class Awaited:
    """The reply that a person waits for."""

    text: str
    """What it has in it."""
    reply: asyncio.Future[tuple[float, str]]
    last: str = ""
    """What was said last."""

    def take(self, text: str) -> None:
        """Look at what the bot says."""
        self.last = text
        if self.text in text and not self.reply.done():
            self.reply.set_result((time.monotonic(), text))


@dataclass
class FakeTelegram:
    """Private chats only: a chat's id is its person's."""

    calls: Counter[str] = field(default_factory=Counter)
    first_poll: float | None = None
    """When the first getUpdates arrived, on the machine's monotonic clock."""
    _updates: list[Json] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _answers: dict[int, "Awaited"] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1000 * (int(time.time()) % 1_000_000)))
    """Of updates and messages; others than in the world before, or a gateway would take them for repeated ones."""

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """The Bot API below `/bot<token>/`."""
        router.add_post(f"/bot{TOKEN}/{{method}}", self._call)

    async def say(self, person: int, text: str, awaited: str) -> tuple[float, str]:
        """Write to the bot; wait for a reply with `awaited` in it.

        Returns the seconds from the message to the reply, and what it says.
        """
        answer = self._answers[person] = Awaited(awaited, asyncio.get_running_loop().create_future())
        sender = {"id": person, "is_bot": False, "first_name": "Ann"}
        chat = {"id": person, "type": "private", "first_name": "Ann"}
        number = next(self._ids)
        message = {"message_id": number, "date": int(time.time()), "chat": chat, "from": sender, "text": text}
        began = time.monotonic()
        self._updates.append({"update_id": number, "message": message})
        self._news.set()
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                arrived, reply = await answer.reply
        except TimeoutError:
            return REPLY_SECONDS, answer.last or "(nothing)"
        return arrived - began, reply

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        form = await request.post()
        self.calls[method] += 1
        if method == "getUpdates":
            result: object = await self._poll(int(str(form.get("offset", 0))), float(str(form.get("timeout", 0))))
        elif method == "getMe":
            result = BOT
        elif method in ("sendMessage", "editMessageText"):
            result = self._take(int(str(form["chat_id"])), str(form["text"]))
        else:
            result = True
        return web.Response(body=json.dumps({"ok": True, "result": result}), content_type="application/json")

    async def _poll(self, offset: int, seconds: float) -> list[Json]:
        if self.first_poll is None:
            self.first_poll = time.monotonic()
        self._updates = [update for update in self._updates if update["update_id"] >= offset]
        if not self._updates:
            self._news.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                pass  # a long poll without news ends with an empty list
        return self._updates[:100]

    def _take(self, chat: int, text: str) -> Json:
        if answer := self._answers.get(chat):
            answer.take(text)
        sent_to = {"id": chat, "type": "private"}
        return {"message_id": next(self._ids), "date": int(time.time()), "chat": sent_to, "from": BOT, "text": text}
