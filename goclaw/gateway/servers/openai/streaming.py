"""Answers as streams of server-sent events."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from aiohttp import web

from goclaw.common.core.clock import Clock
from goclaw.gateway.servers.event_stream import EventStream, StreamEvent, with_pauses
from goclaw.gateway.servers.openai.asking import Answered
from goclaw.gateway.servers.openai.errors import ApiError
from goclaw.gateway.servers.openai.reading import Delta


class Form(Protocol):
    """The form of an answer in one of the protocols."""

    def whole(self, text: str, end: Answered) -> Any:
        """Return the body of an answer that is not streamed."""
        ...

    def start(self) -> Sequence[StreamEvent]:
        """Return the first events of a stream."""
        ...

    def piece(self, delta: Delta) -> Sequence[StreamEvent]:
        """Return the events for a piece of the answer."""
        ...

    def end(self, end: Answered) -> Sequence[StreamEvent]:
        """Return the last events."""
        ...

    def fail(self, error: ApiError) -> Sequence[StreamEvent]:
        """Return the last events of an answer that fails in the middle."""
        ...


async def stream(
    response: EventStream, form: Form, pieces: AsyncGenerator[Delta | Answered, None], clock: Clock
) -> web.StreamResponse:
    """Send an answer piece by piece.

    Raises:
        ApiError: it was refused before anything was sent.
    """
    has_begun = False
    try:
        async with aclosing(with_pauses(pieces, clock)) as paced:
            async for piece in paced:
                if piece is None:
                    await response.wait()
                    continue
                if not has_begun:
                    has_begun = True
                    await response.send(form.start())
                await response.send(form.end(piece) if isinstance(piece, Answered) else form.piece(piece))
    except ApiError as error:
        if not response.response.prepared:
            raise
        await response.send([*(() if has_begun else form.start()), *form.fail(error)])
    await response.response.write_eof()
    return response.response
