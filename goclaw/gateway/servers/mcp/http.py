"""Streamable HTTP: the library's own application with our guard in front, under uvicorn, on a port of its own.

`/mcp` speaks the protocol. `/mcp/monitor` reports changes to programs that speak no MCP, as server-sent events
`{"resource": …, "event": "created"|"updated"|"deleted"}`: it names resources that the user of the token may read,
without their content. Both need an access token.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import uvicorn
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from goclaw.common.auth.tokens import Tokens
from goclaw.common.config.mcp import McpServerSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.supervise import background
from goclaw.errors import StateError
from goclaw.gateway.servers.connections import ConnectionLimits, Connections
from goclaw.gateway.servers.mcp.backend import Change, Changed, Listening, McpBackend, McpPart, ServerNotification
from goclaw.gateway.servers.mcp.guard import ACTOR, GONE, GuardLimits, RequestGuard, warning_of
from goclaw.gateway.servers.mcp.offer import ClientCall, Context, McpExport, open_offer
from goclaw.gateway.servers.mcp.watching import Hub

log = logging.getLogger(__name__)


PATH = "/mcp"
SESSION = "mcp-session-id"
"""The header in which older clients name their session."""
MAX_SESSIONS = 64
IDLE_SECONDS = 30 * 60.0
"""Seconds after which an idle session of an older client is closed; the client opens a new one then."""
HEAD_SECONDS = 15.0
"""Seconds for a request's head."""
CONNECTIONS = 160
LIMITS = ConnectionLimits(in_all=CONNECTIONS - 1, per_caller=CONNECTIONS * 4 // 5, for_probes=0)
"""One below the number from which the library turns requests away."""
GRACE_SECONDS = 3.0
"""Seconds that running calls get at shutdown."""

MONITOR = "/mcp/monitor"
BEAT_SECONDS = 15.0
"""Seconds between two comments in a silent stream: proxies close silent connections."""


def who(ctx: Context) -> ClientCall:
    """Return the user of a request's token, which the guard has put into its scope.

    Raises:
        MCPError: the request came in another way, without a user.
    """
    request = ctx.request
    actor = request.scope.get(ACTOR) if isinstance(request, Request) else None
    if not isinstance(request, Request) or not isinstance(actor, Actor):
        raise MCPError(INVALID_REQUEST, "nobody asks")
    return ClientCall(actor, f"{actor.key} {request.headers.get(SESSION, '')}", request.scope[GONE])


def application(offer: McpExport, backend: McpBackend) -> ASGIApp:
    """Return the library's application, and the monitor."""
    monitor = Monitor(offer.hub, backend.clock)
    return offer.server.streamable_http_app(
        streamable_http_path=PATH,
        host="",  # the guard checks Host and Origin
        max_request_body_size=GuardLimits().body_bytes,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        custom_starlette_routes=[Route(MONITOR, monitor.page, methods=["GET"])],
    )


@asynccontextmanager
async def open_mcp_http(backend: McpBackend, tokens: Tokens) -> AsyncIterator[Listening]:
    """Serve clients while the block runs.

    Raises:
        StateError: the port is taken or may not be used.
    """
    settings = backend.config.mcp.server
    listening = await asyncio.to_thread(_listen, settings)
    with contextlib.closing(listening):
        port = listening.getsockname()[1]
        async with open_offer(backend, who) as offer:
            guard = RequestGuard(application(offer, backend), settings, tokens, backend.clock, backend.audit)
            server = _Server(_settings_of(guard))
            async with (
                background(guard.look_after(), "MCP clients that may stay"),
                background(_serve(server, listening), "MCP listener"),
            ):
                log.info("listening for MCP clients on %s port %d", settings.host, port)
                if warning := warning_of(settings):
                    log.warning("%s", warning)
                try:
                    yield Listening(port)
                finally:
                    await _wind_down(server, guard, offer)


async def _serve(server: "_Server", listening: socket.socket) -> None:
    try:
        await server.serve(sockets=[listening])
    finally:
        server.over.set()


async def _wind_down(server: "_Server", guard: RequestGuard, offer: McpExport) -> None:
    """Let running calls end for a while, then disconnect all clients."""
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await offer.idle()
    except TimeoutError:
        log.warning("calls of MCP clients were cut off at the end")
    guard.end()
    server.should_exit = True
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await server.over.wait()
    except TimeoutError:
        server.force_exit = True


def _settings_of(guard: RequestGuard) -> uvicorn.Config:
    return uvicorn.Config(
        guard,
        http=partial(_Connection, Connections(LIMITS)),  # type: ignore[arg-type]  # a class is asked for, and called
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=int(HEAD_SECONDS),
        timeout_graceful_shutdown=int(GRACE_SECONDS),
    )


class _Server(uvicorn.Server):
    """The library's server without its signal handlers: signals are the daemon's."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.over = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(H11Protocol):
    """The library's connection, counted, with a time limit for silent callers."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._connections = connections
        self._work = contextlib.ExitStack()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the library's own
        super().connection_made(transport)
        self._connections.came(self, self._address)
        self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    @property
    def _asked(self) -> bool:
        return self.cycle is not None

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def handle_events(self) -> None:
        """Count the connection as one that works from the moment it has a whole head."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            # `limit_concurrency` says how many may work.
            self._work.enter_context(self._connections.work(self, self._address, probe=True))

    def on_response_complete(self) -> None:
        """Let the connection wait again."""
        self._work.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        self._work.close()
        self._connections.left(self)
        super().connection_lost(exc)

    def _give_up(self) -> None:
        if not self._asked:
            self.transport.close()


def _listen(settings: McpServerSettings) -> socket.socket:
    """Return a listening socket. Blocks: a name has to be resolved."""
    host, port = settings.host, settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=family, backlog=100)
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error)
        raise StateError(
            f"the MCP listener cannot use {host} port {port} ({reason}): choose another `mcp.server.port`, or stop the "
            "program that uses it"
        ) from error


SERVER = McpPart("mcp", open_mcp_http)


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
        case ServerNotification(name=name, payload=payload):
            return b"event: notification\ndata: " + orjson.dumps({"name": name, "payload": dict(payload)}) + b"\n\n"
    return b""
