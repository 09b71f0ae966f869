"""Everything that can go wrong with a call of the Bot API, and a fake of it that does so for chosen calls."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from tests.acceptance.waiting import eventually
from tests.fake_telegram import oracle
from tests.fake_telegram.server import FakeTelegram, cut
from tests.fake_telegram.world import Json

QUERY = "press in "
PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(frozen=True)
class TelegramFault:
    """One of them."""

    name: str
    status: int = 200
    body: bytes | None = None
    """None: nothing is answered."""
    landed: bool = False
    """The call has its effect all the same."""
    ending: Literal["answer", "reset", "silence"] = "answer"

    @property
    def is_unsure(self) -> bool:
        """The bot cannot know whether the call had its effect: a message comes once more, marked."""
        return self.ending != "answer" or self.landed or self.body == PAGE


def refused(status: int, words: str, more: str = "") -> TelegramFault:
    """An answer of the Bot API that is none of success."""
    body = f'{{"ok": false, "error_code": {status}, "description": "{words}"{more}}}'
    return TelegramFault(f"{status} {words}", status, body.encode())


FAULTS = (
    TelegramFault("reset before", ending="reset"),
    TelegramFault("reset after", ending="reset", landed=True),
    TelegramFault("silence before", ending="silence"),
    TelegramFault("silence after", ending="silence", landed=True),
    refused(400, "Bad Request: something is odd"),
    refused(401, "Unauthorized"),
    refused(403, "Forbidden: bot was blocked by the user"),
    refused(404, "Not Found"),
    refused(409, "Conflict: terminated by other getUpdates request"),
    refused(420, "FLOOD_WAIT_2"),
    refused(429, "Too Many Requests: retry after 2", ', "parameters": {"retry_after": 2}'),
    refused(500, "Internal Server Error"),
    TelegramFault("502 page", 502, PAGE),
    TelegramFault("malformed JSON", 200, b'{"ok": true, "result": {', landed=True),
    TelegramFault("refused without words", 400, b'{"ok": false}'),
)


@dataclass
class Ordered:
    """A fault that waits for its calls."""

    fault: TelegramFault
    times: int
    met: int = 0
    together: Sequence["Ordered"] = ()
    """It is not answered before each of these has met a call: what this answer changes is not for one chat alone."""


class FaultyTelegram(FakeTelegram):
    """Calls of some methods fail in some chats, or in all (`None`)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ordered: dict[tuple[str, int | None], Ordered] = {}
        self.polls: list[float] = []
        self.silent = asyncio.Event()
        """Set when those who wait for an answer have given up for good."""

    def order(self, method: str, chat: int | None, fault: TelegramFault, times: int) -> Ordered:
        """Let the next calls fail."""
        made = self.ordered[method, chat] = Ordered(fault, times)
        return made

    def _chat_of(self, parameters: Json) -> int | None:
        """The chat that a call is about; of a file, the one where it was shown; of a press, the one in its id."""
        if file := parameters.get("file_id"):
            return next((chat for (chat, _), message in self.world.messages.items() if file in str(message)), None)
        if query := parameters.get("callback_query_id"):
            return int(query.removeprefix(QUERY))
        chat = parameters.get("chat_id")
        return chat if isinstance(chat, int) else None

    async def _handle(
        self, request: web.Request, method: oracle.Method, parameters: Json, uploads: Mapping[str, bytes], *rest: Any
    ) -> web.StreamResponse:
        name, chat = method.__api_method__, self._chat_of(parameters)
        if name == "getUpdates":
            self.polls.append(self.clock.monotonic())
        ordered = self.ordered.get((name, chat)) or self.ordered.get((name, None))
        if ordered is None or ordered.met >= ordered.times:
            return await super()._handle(request, method, parameters, uploads, *rest)
        ordered.met += 1
        await eventually(lambda: all(other.met for other in ordered.together))
        fault = ordered.fault
        if fault.landed:
            await super()._handle(request, method, parameters, uploads, *rest)
        if fault.ending == "reset":
            return cut(request)
        if fault.ending == "silence":
            await self.silent.wait()
        return web.Response(status=fault.status, body=fault.body, content_type="application/json")
