"""The monitor: changes as server-sent events `{"resource": …, "event": "created"|"updated"|"deleted"}`.

For programs that speak no MCP. It names resources that the user of the token may read, without their content.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import orjson
from mcp.shared.exceptions import MCPError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from goclaw.clock import Clock
from goclaw.events import Actor
from goclaw.servers.mcp.backend import Change, Changed, Told
from goclaw.servers.mcp.guard import ACTOR
from goclaw.servers.mcp.watching import Hub

PATH = "/mcp/monitor"
BEAT_SECONDS = 15.0
"""Seconds between two comments in a silent stream: proxies close silent connections."""


class Monitor:
    """The page."""

    def __init__(self, hub: Hub, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock

    async def page(self, request: Request) -> Response:
        """Return one stream of events, which ends when the client goes."""
        actor: Actor = request.scope[ACTOR]
        stack = contextlib.AsyncExitStack()
        try:
            waiting = await stack.enter_async_context(self._hub.listening(actor))
        except MCPError as error:
            return Response(error.message, status_code=503, headers={"Retry-After": "5"})
        return StreamingResponse(self._events(stack, waiting), media_type="text/event-stream")

    async def _events(
        self, stack: contextlib.AsyncExitStack, waiting: "asyncio.Queue[Change | None]"
    ) -> AsyncIterator[bytes]:
        async with stack:
            yield b": watching\n\n"
            while True:
                try:
                    async with asyncio.timeout(BEAT_SECONDS):
                        change = await waiting.get()
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if change is None:
                    return
                if line := _line(change):
                    yield line


def _line(change: Change) -> bytes:
    match change:
        case Changed(resource=resource, event=event):
            return b"event: change\ndata: " + orjson.dumps({"resource": resource, "event": event}) + b"\n\n"
        case Told(name=name, payload=payload):
            return b"event: notification\ndata: " + orjson.dumps({"name": name, "payload": dict(payload)}) + b"\n\n"
    return b""
