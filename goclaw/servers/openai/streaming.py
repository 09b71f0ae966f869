"""Answers as streams of server-sent events (WHATWG HTML, "Server-sent events")."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import orjson
from aiohttp import web

from goclaw.core.clock import Clock
from goclaw.core.supervise import ends_within
from goclaw.servers.http import HEADERS
from goclaw.servers.openai.asking import Answered
from goclaw.servers.openai.errors import ApiError
from goclaw.servers.openai.reading import Delta

QUIET_SECONDS = 10.0
"""Seconds of silence after which a comment is sent: proxies give up on silent connections."""

PieceT = TypeVar("PieceT")

StreamEvent = tuple[str, Any]
"""The name of an event (empty: none) and its JSON data; a text is sent as it is."""


class Form(Protocol):
    """The form of an answer in one of the protocols."""

    def whole(self, text: str, end: Answered) -> Any:
        """Return the body of an answer that is not streamed."""
        ...

    def begin(self) -> Sequence[StreamEvent]:
        """Return the first events of a stream."""
        ...

    def piece(self, delta: Delta) -> Sequence[StreamEvent]:
        """Return the events for a piece of the answer."""
        ...

    def end(self, end: Answered) -> Sequence[StreamEvent]:
        """Return the last events."""
        ...

    def failed(self, error: ApiError) -> Sequence[StreamEvent]:
        """Return the last events of an answer that fails in the middle."""
        ...


class EventStream:
    """The stream of one answer. Its head goes out with its first bytes: until then a refusal can have its status."""

    def __init__(self, request: web.Request, headers: dict[str, str]) -> None:
        self._request = request
        # nginx would keep the pieces back.
        head = {**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no", **headers}
        self.response = web.StreamResponse(headers=head)

    async def send(self, events: Sequence[StreamEvent]) -> None:
        """Send events. Raises ConnectionResetError when the program is gone."""
        await self._write(b"".join(_encoded(name, data) for name, data in events))

    async def wait(self) -> None:
        """Send a comment, which programs skip."""
        await self._write(b": still at work\n\n")

    async def _write(self, data: bytes) -> None:
        if not self.response.prepared:
            await self.response.prepare(self._request)
        if data:
            await self.response.write(data)


def _encoded(name: str, data: Any) -> bytes:
    head = b"event: %b\n" % name.encode() if name else b""
    return b"%bdata: %b\n\n" % (head, data.encode() if isinstance(data, str) else orjson.dumps(data))


async def stream(
    response: EventStream, form: Form, pieces: AsyncGenerator[Delta | Answered, None], clock: Clock
) -> web.StreamResponse:
    """Send an answer piece by piece.

    Raises:
        ApiError: it was refused before anything was sent.
    """
    has_begun = False
    try:
        async for piece in _with_pauses(pieces, clock):
            if piece is None:
                await response.wait()
                continue
            if not has_begun:
                has_begun = True
                await response.send(form.begin())
            await response.send(form.end(piece) if isinstance(piece, Answered) else form.piece(piece))
    except ApiError as error:
        if not response.response.prepared:
            raise
        await response.send([*(() if has_begun else form.begin()), *form.failed(error)])
    await response.response.write_eof()
    return response.response


async def _with_pauses(pieces: AsyncGenerator[PieceT, None], clock: Clock) -> AsyncIterator[PieceT | None]:
    """Yield the pieces, and None whenever none came for a while."""
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
