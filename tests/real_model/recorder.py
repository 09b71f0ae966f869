"""A server on loopback that hands every request on to a model server and keeps both sides, byte by byte."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from tests import http_server
from tests.acceptance.waiting import clock

CHAT = "/v1/chat/completions"
INVALID = range(400, 500)
"""Answers that say that the request was at fault. 503 says that the server is not ready."""
SENT_ON = ("content-type", "authorization", "accept")


@dataclass
class Exchange:
    """One request and what came back."""

    path: str
    request: bytes
    began: float
    status: int = 0
    """0: the server did not answer."""
    type: str = ""
    pieces: list[bytes] = field(default_factory=list)
    ended: bool = False
    """Whether the answer came to its end."""
    first: float = 0.0
    """Seconds until the first piece."""
    seconds: float = 0.0

    @property
    def answer(self) -> bytes:
        """All bytes of the answer."""
        return b"".join(self.pieces)

    @property
    def body(self) -> dict[str, Any]:
        """The request's JSON."""
        found = orjson.loads(self.request)
        assert isinstance(found, dict)
        return found

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The JSON objects of a stream."""
        lines = [line[6:] for line in self.answer.splitlines() if line.startswith(b"data: ")]
        return [orjson.loads(line) for line in lines if line != b"[DONE]"]

    @property
    def text(self) -> str:
        """What the model wrote."""
        choices = [choice for chunk in self.chunks for choice in chunk.get("choices", ())]
        return "".join(choice["delta"].get("content") or "" for choice in choices)

    @property
    def timings(self) -> dict[str, float]:
        """llama.cpp's count of what it read and wrote: `cache_n`, `prompt_n`, `predicted_n`; empty for a cut stream."""
        return next((chunk["timings"] for chunk in reversed(self.chunks) if "timings" in chunk), {})


class Recorder:
    """Made by `recorder`; `exchanges` are all requests, oldest first."""

    def __init__(self, target: str, *, hides_window: bool = False) -> None:
        """`hides_window`: answer nothing but chats, as a server that does not say how much its model reads."""
        self.target = target
        self.hides_window = hides_window
        self.url = ""
        self.exchanges: list[Exchange] = []
        self.began = asyncio.Event()
        """Set when a piece of an answer to a chat came; a test clears it."""

    @property
    def chats(self) -> list[Exchange]:
        """The requests that asked for an answer."""
        return [exchange for exchange in self.exchanges if exchange.path == CHAT]

    @property
    def invalid(self) -> list[Exchange]:
        """The requests for an answer that the server refused as wrong."""
        return [exchange for exchange in self.chats if exchange.status in INVALID]

    def save(self, folder: Path) -> None:
        """Write every exchange into a folder: `001.json`, the request; `001.sse`, the answer as it came."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, exchange in enumerate(self.chats, 1):
            (folder / f"{number:03}.json").write_bytes(exchange.request)
            (folder / f"{number:03}.sse").write_bytes(exchange.answer)

    async def serve(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        """Answer one request with what the target says."""
        exchange = Exchange(request.path, await request.read(), clock.monotonic())
        self.exchanges.append(exchange)
        if self.hides_window and request.path != CHAT:
            return web.Response(status=404)
        headers = {name: request.headers[name] for name in SENT_ON if name in request.headers}
        asked = session.request(request.method, f"{self.target}{request.path}", data=exchange.request, headers=headers)
        try:
            async with asked as answer:
                return await self._pass_on(request, exchange, answer)
        except aiohttp.ClientError:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        finally:
            exchange.seconds = clock.monotonic() - exchange.began

    async def _pass_on(
        self, request: web.Request, exchange: Exchange, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        exchange.status, exchange.type = answer.status, answer.headers.get("content-type", "")
        response = web.StreamResponse(status=answer.status, headers={"content-type": exchange.type})
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            if not exchange.pieces:
                exchange.first = clock.monotonic() - exchange.began
            exchange.pieces.append(piece)
            if exchange.path == CHAT:
                self.began.set()
            await response.write(piece)
        exchange.ended = True
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response


@asynccontextmanager
async def recorder(target: str, *, hides_window: bool = False) -> AsyncIterator[Recorder]:
    """Listen on a free port in front of `target`, an address without a path."""
    made = Recorder(target, hides_window=hides_window)
    # A connection for each request: llama-server closes those that it has kept open, also when one is on its way.
    connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def serve(request: web.Request) -> web.StreamResponse:
            return await made.serve(request, session)

        async with http_server.serve(web.route("*", "/{path:.*}", serve)) as made.url:
            yield made
