"""Streams of server-sent events (WHATWG HTML, "Server-sent events")."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import orjson
from aiohttp import web

from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import ends_within
from goclaw.gateway.servers.http import HEADERS

QUIET_SECONDS = 10.0
"""Seconds of silence after which a comment is sent: proxies give up on silent connections."""
MEDIA_TYPE = "text/event-stream"

PieceT = TypeVar("PieceT")


class StreamEvent(NamedTuple):
    """One event of a stream."""

    name: str
    """Empty: none."""
    data: Any
    """JSON data; a text is sent as it is."""
    id: str = ""
    """The place to go on after; empty: none."""


class EventStream:
    """The stream of one answer. Its head goes out with its first bytes: until then a refusal can have its status."""

    def __init__(self, request: web.Request, headers: dict[str, str]) -> None:
        self._request = request
        # nginx would keep the pieces back.
        head = {**HEADERS, "Content-Type": MEDIA_TYPE, "X-Accel-Buffering": "no", **headers}
        self.response = web.StreamResponse(headers=head)

    async def send(self, events: Sequence[StreamEvent]) -> None:
        """Send events. Raises ConnectionResetError when the program is gone."""
        await self._write(b"".join(_encode(event) for event in events))

    async def wait(self) -> None:
        """Send a comment, which programs skip."""
        await self._write(b": still at work\n\n")

    async def _write(self, data: bytes) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._request)
        if data:
            await self.response.write(data)


def _encode(event: StreamEvent) -> bytes:
    place = b"id: %b\n" % event.id.encode() if event.id else b""
    head = b"event: %b\n" % event.name.encode() if event.name else b""
    data = event.data.encode() if isinstance(event.data, str) else orjson.dumps(event.data)
    return b"%b%bdata: %b\n\n" % (place, head, data)


async def with_pauses(pieces: AsyncIterator[PieceT], clock: Clock) -> AsyncGenerator[PieceT | None, None]:
    """Yield the pieces, and None after each `QUIET_SECONDS` without one. Close it before `pieces`: it reads them."""
    while True:
        step: asyncio.Future[PieceT | None] = asyncio.ensure_future(anext(pieces, None))
        try:
            while not await ends_within(step, clock, QUIET_SECONDS):
                yield None
        finally:
            if not step.done():
                step.cancel()
                with suppress(asyncio.CancelledError):
                    await step
        piece = step.result()
        if piece is None:
            return
        yield piece
