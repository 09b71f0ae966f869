"""A server at an address (streamable HTTP): the library's transport on a client with bounded answers.

An address from the operator is called as it is; one from a registry is checked by the guard for addresses when the
connection is made. Redirects are followed within the same origin alone (the library does that): headers with secrets go
nowhere else.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

import httpcore2
import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from goclaw.clock import Clock
from goclaw.config.mcp_servers import McpClientSettings
from goclaw.mcp.base import LinkEnvironment
from goclaw.mcp.limits import MAX_MESSAGE, UNASKED, Throttle
from goclaw.net import UrlGuard, check_reachable

CONNECT_SECONDS = 15.0
CONNECTIONS = 100
"""Simultaneous connections to one server: the library's own value."""
SILENCE_SECONDS = 300.0
"""Seconds that a stream of events may be silent, at least: the library's own value."""


class ResponseTooLarge(httpx2.StreamError):
    """A server's answer exceeds the bound."""


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer. `events`: it is a stream of messages, each followed by an empty line."""

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
            if size > MAX_MESSAGE:
                raise ResponseTooLarge(f"it sent a message of more than {MAX_MESSAGE >> 20} MB")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Guarded(httpcore2.AnyIOBackend):
    """A backend that connects to the addresses that the guard has checked, without a second lookup of the name."""

    def __init__(self, guard: UrlGuard) -> None:
        super().__init__()
        self._guard = guard

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failed: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in await self._guard.addresses(host, port):
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                failed = error
        raise failed


class _Transport(httpx2.AsyncHTTPTransport):
    def __init__(self, clock: Clock, guard: UrlGuard | None) -> None:
        super().__init__()
        self._throttle = Throttle(clock)
        if guard:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=httpx2.create_ssl_context(),
                max_connections=CONNECTIONS,
                network_backend=_Guarded(guard),
            )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        body = cast("httpx2.AsyncByteStream", response.stream)
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(body, self._throttle if is_events else None)
        return response


@asynccontextmanager
async def open_address(settings: McpClientSettings, environment: LinkEnvironment) -> AsyncIterator[TransportStreams]:
    """Connect to the server at the address until the block ends.

    Raises:
        ConfigError: it may not be reached from here (`net.check_reachable`).
    """
    check_reachable(urlsplit(settings.url or "").hostname or "")
    headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
    silence = max(SILENCE_SECONDS, settings.timeout + CONNECT_SECONDS)
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=silence)
    async with httpx2.AsyncClient(
        headers=headers, timeout=timeout, transport=_Transport(environment.clock, environment.guard)
    ) as client:
        async with streamable_http_client(
            settings.url or "", http_client=client, max_sse_event_size=MAX_MESSAGE
        ) as streams:
            yield streams
