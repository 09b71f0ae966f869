"""A server at an address (streamable HTTP): the library's transport on a client whose answers have an end.

The address is the operator's word, so the guard for addresses that models choose is not asked. Redirects are followed
within the same origin alone (the library sees to that): headers with secrets go nowhere else.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from goclaw.clock import Clock
from goclaw.config.mcp_servers import McpClientSettings
from goclaw.mcp.base import LinkPorts
from goclaw.mcp.bounds import LONGEST_MESSAGE, UNASKED, Throttle
from goclaw.net import check_reachable

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 300.0
"""How long a stream of events may be silent, at least: the library's own value."""


class TooLong(httpx2.StreamError):
    """A server sent more than anybody reads."""


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer. `events`: it is a stream of messages with an empty line behind each."""

    def __init__(self, inner: httpx2.AsyncByteStream, throttle: Throttle | None) -> None:
        self._inner = inner
        self._throttle = throttle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            if self._throttle and (ends := piece.count(b"\n\n") + piece.count(b"\n\r\n")):
                await self._throttle.take(ends * UNASKED)
                size = 0
            size += len(piece)
            if size > LONGEST_MESSAGE:
                raise TooLong(f"it sent a message of more than {LONGEST_MESSAGE >> 20} MB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._throttle = Throttle(clock)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        body = cast("httpx2.AsyncByteStream", response.stream)
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(body, self._throttle if is_events else None)
        return response


@asynccontextmanager
async def open_address(settings: McpClientSettings, ports: LinkPorts) -> AsyncIterator[TransportStreams]:
    """Talk to the server at the address until the block ends.

    Raises:
        ConfigError: it may not be reached from here (`net.check_reachable`).
    """
    check_reachable(urlsplit(settings.url or "").hostname or "")
    headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
    silence = max(SILENCE_SECONDS, settings.timeout + CONNECT_SECONDS)
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=silence)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout, transport=_Transport(ports.clock)) as client:
        async with streamable_http_client(
            settings.url or "", http_client=client, max_sse_event_size=LONGEST_MESSAGE
        ) as streams:
            yield streams
