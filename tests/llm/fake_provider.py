"""A model server that sends exactly the bytes it is told to, whatever the protocol, and can misbehave at will."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
from aiohttp import web

STREAMS = Path(__file__).parent / "streams"
TYPES = {".sse": "text/event-stream", ".ndjson": "application/x-ndjson", ".json": "application/json"}


@dataclass(frozen=True)
class Reply:
    """What the server does with one request: the pieces are written one by one, then it ends in some way."""

    pieces: Sequence[bytes]
    status: int = 200
    type: str = "text/event-stream"
    headers: Mapping[str, str] = field(default_factory=dict)
    end: Literal["clean", "cut", "hang"] = "clean"


@dataclass(frozen=True)
class Received:
    """A request that came in."""

    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        found = orjson.loads(self.raw)
        assert isinstance(found, dict)
        return found


class FakeProvider:
    """Answers requests with its replies, oldest first; the last one stays."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.left = asyncio.Event()
        """Set when a client closed the connection while the server was hanging."""
        self.streaming = asyncio.Event()
        """Set when all pieces of a reply are out."""
        self.routes: dict[str, Reply | Callable[[Received], Reply]] = {}
        """Replies by path, or what makes one of a request; for side questions such as `/api/show`."""
        self.connections: set[object] = set()
        """Every connection that a request came in on."""
        self.lists = False
        """The replies answer questions by GET, too."""
        self._replies: deque[Reply] = deque()

    def will(self, *replies: Reply) -> None:
        """Answer with these from now on."""
        self._replies = deque(replies)

    @property
    def asked(self) -> list[Received]:
        """The requests that were no side questions."""
        return [received for received in self.received if received.path not in self.routes]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET" and not self.lists and request.path not in self.routes:
            return web.Response(status=404)  # a question about the server, which it does not know
        received = Received(request.path, dict(request.headers), await request.read())
        self.received.append(received)
        self.connections.add(request.transport)
        route = self.routes.get(request.path)
        reply = route(received) if callable(route) else route
        if reply is None:
            reply = self._replies[0] if len(self._replies) == 1 else self._replies.popleft()
        response = web.StreamResponse(status=reply.status, headers={"content-type": reply.type, **reply.headers})
        await response.prepare(request)
        for piece in reply.pieces:
            await response.write(piece)
        if request.path not in self.routes:
            self.streaming.set()
        if reply.end == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif reply.end == "hang":
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response


@asynccontextmanager
async def fake_provider(port: int = 0) -> AsyncIterator[FakeProvider]:
    """Serve on a port of this machine; 0: a free one."""
    fake = FakeProvider()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", fake.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield fake
    finally:
        await runner.cleanup()


def recorded(name: str, end: Literal["clean", "cut", "hang"] = "clean") -> Reply:
    """A stream of tests/llm/streams, line by line."""
    path = STREAMS / name
    return Reply(path.read_bytes().splitlines(keepends=True), type=TYPES[path.suffix], end=end)


def frames(*objects: Any, end: Literal["clean", "cut", "hang"] = "clean") -> Reply:
    """Server-sent events with these JSON objects as data, named after their `type`; bytes go out as they are."""
    return Reply([item if isinstance(item, bytes) else frame(item) for item in objects], end=end)


def frame(item: Any) -> bytes:
    """One server-sent event."""
    name = f"event: {item['type']}\n" if isinstance(item, dict) and "type" in item else ""
    return name.encode() + b"data: " + orjson.dumps(item) + b"\n\n"


def lines(*objects: Any, end: Literal["clean", "cut", "hang"] = "clean") -> Reply:
    """A line of JSON for each of these objects; bytes go out as they are."""
    pieces = [item if isinstance(item, bytes) else orjson.dumps(item) + b"\n" for item in objects]
    return Reply(pieces, type="application/x-ndjson", end=end)


def refusal(status: int, body: Any, **headers: str) -> Reply:
    """An answer that is an error."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply([orjson.dumps(body)], status=status, type="application/json", headers=sent)
