"""The fake Bot API with a watch on it: when updates were handed out, when answers came, which faults happened."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from benchmarks.figures import Json
from tests.acceptance.books import MARKS
from tests.acceptance.model import END
from tests.fake_telegram import oracle
from tests.fake_telegram.faults import Fault, Faults
from tests.fake_telegram.rules import ApiError
from tests.fake_telegram.server import FakeTelegram

KEPT_CALLS = 2_000
"""Of the calls only the last ones are kept: the fake must not grow, either."""

POLL_PAUSE = 0.45
"""Seconds between two polls in trouble: two a second, and some room for the machine."""


@dataclass
class WatchedFaults(Faults):
    """Notes which fault hit which chat."""

    happened: Counter[str] = field(default_factory=Counter)
    touched: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By chat: when."""
    now: Any = None

    def take(self, method: str, chat: object) -> Fault | None:
        fault = super().take(method, chat)
        if fault:
            what = f"{fault.status or ''}{fault.cut or ''}{'body' if fault.body else ''}{'late' if fault.delay else ''}"
            self.happened[f"{method} {what}"] += 1
            if isinstance(chat, int):
                self.touched[chat].append(self.now())
        return fault


class SoakTelegram(FakeTelegram):
    """Keeps Telegram's flood limits, and notes the times that the figures need."""

    def __init__(self) -> None:
        super().__init__(flood=True)
        self.faults: WatchedFaults = WatchedFaults(now=self.clock.monotonic)
        self.handed: dict[int, float] = {}
        """By update: when the bot had it for the first time."""
        self.answered: dict[str, float] = {}
        """By message: when its whole answer came for the first time, whether it was taken or not."""
        self.polls: list[float] = []
        self.hasty_polls: list[str] = []
        """Polls that came too soon after one that failed."""
        self._failed_poll = 0.0
        self.floods: Counter[str] = Counter()
        """Calls that went past Telegram's limits."""
        self.news: list[Json] = []
        """What people have not looked at yet: messages of the bot."""

    async def _handle(
        self,
        request: web.Request,
        method: oracle.Method,
        parameters: Json,
        uploads: Mapping[str, bytes],
        fault: Fault | None,
    ) -> web.StreamResponse:
        name, now = method.__api_method__, self.clock.monotonic()
        del self.calls[:-KEPT_CALLS]
        if name == "getUpdates":
            self._note_poll(now, failing=fault is not None)
        elif name in ("sendMessage", "editMessageText"):
            self._note_answer(parameters["text"], now)
        try:
            response = await super()._handle(request, method, parameters, uploads, fault)
        except ApiError as error:
            if error.description.startswith("Too Many Requests"):  # an injected one says otherwise
                self.floods[name] += 1
            raise
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            self._note_result(name, response.body)
        return response

    def _note_poll(self, now: float, *, failing: bool) -> None:
        self.polls.append(now)
        if self._failed_poll and now - self._failed_poll < POLL_PAUSE:
            self.hasty_polls.append(f"{now - self._failed_poll:.2f} s after one that failed")
        self._failed_poll = now if failing else 0.0

    def _note_answer(self, text: str, now: float) -> None:
        for mark in MARKS:
            text = text.removeprefix(mark).lstrip()
        if text.startswith("answer ") and text.endswith(END):
            self.answered.setdefault(text.split()[1], now)

    def _note_result(self, name: str, body: bytes) -> None:
        if not body.startswith(b'{"ok": true'):
            return  # a fault's
        if name == "getUpdates":
            for update in orjson.loads(body)["result"]:
                self.handed.setdefault(update["update_id"], self.clock.monotonic())
        elif name == "sendMessage":
            self.news.append(orjson.loads(body).get("result") or {})
