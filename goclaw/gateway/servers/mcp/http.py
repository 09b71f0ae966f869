"""Streamable HTTP: the library's sessions behind our listener, on a port of their own.

`/mcp` speaks the protocol. `/mcp/monitor` reports changes to programs that speak no MCP, as server-sent events
`{"resource": …, "event": "created"|"updated"|"deleted"}`: it names resources that the user of the token may read,
without their content. Both need an access token. The library speaks ASGI (asgi.readthedocs.io, version 3).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Any

from aiohttp import web
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from starlette.requests import Request

from goclaw.common.auth.tokens import Tokens
from goclaw.common.config.listening import is_loopback
from goclaw.common.config.mcp import McpServerSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background
from goclaw.gateway.servers.event_stream import EventStream, StreamEvent, with_pauses
from goclaw.gateway.servers.http import HEADERS, Endpoint, ListenerLimits, guarded, open_listener, wait_until_lost
from goclaw.gateway.servers.mcp.backend import Change, Changed, Listening, McpBackend, McpPart, ServerNotification
from goclaw.gateway.servers.mcp.guard import Answering, ClientRequest, RequestGuard
from goclaw.gateway.servers.mcp.offer import ClientCall, Context, McpExport, open_offer
from goclaw.gateway.servers.mcp.watching import Hub

log = logging.getLogger(__name__)


PATH = "/mcp"
SESSION = "mcp-session-id"
"""The header in which older clients name their session."""
MAX_SESSIONS = 64
IDLE_SECONDS = 30 * 60.0
"""Seconds after which an idle session of an older client is closed; the client opens a new one then."""
CONNECTIONS = 160
LIMITS = ListenerLimits(
    body_bytes=4 << 20,  # a file that is written with a call
    field_bytes=16_384,
    connections=CONNECTIONS,
    per_caller=CONNECTIONS * 4 // 5,
    for_probes=0,
)
GRACE_SECONDS = 3.0
"""Seconds that running calls get at shutdown."""

MONITOR = "/mcp/monitor"
Message = dict[str, Any]
Application = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
CALLER = "goclaw.caller"
"""Key in the scope of a request: its `ClientRequest`."""


def who(ctx: Context) -> ClientCall:
    """Return the user of a request's token, which the guard has identified.

    Raises:
        MCPError: the request came in another way, without a user.
    """
    request = ctx.request
    caller = request.scope.get(CALLER) if isinstance(request, Request) else None
    if not isinstance(request, Request) or not isinstance(caller, ClientRequest):
        raise MCPError(INVALID_REQUEST, "nobody asks")
    return ClientCall(caller.actor, f"{caller.actor.key} {request.headers.get(SESSION, '')}", caller.gone)


@asynccontextmanager
async def open_mcp_http(backend: McpBackend, tokens: Tokens) -> AsyncIterator[Listening]:
    """Serve clients while the block runs.

    Raises:
        StateError: the port is taken or may not be used.
    """
    settings = backend.settings
    place = Endpoint(
        "the MCP listener",
        "mcp.server.port",
        settings.host,
        settings.port,
        names=settings.names,
        origins=frozenset(settings.origins),
    )
    async with open_offer(backend, who) as offer:
        guard = RequestGuard(tokens, backend.environment.clock, backend.environment.audit)
        sessions = StreamableHTTPSessionManager(
            offer.server,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=LIMITS.body_bytes,
            max_sessions=MAX_SESSIONS,
        )
        application = guarded(place, LIMITS)
        application.router.add_route("*", PATH, guard.protect(answer_by(sessions.handle_request)))
        application.router.add_get(MONITOR, guard.protect(Monitor(offer.hub, backend.environment.clock).answer))
        ready = asyncio.Event()
        async with (
            background(_run(sessions, ready), "sessions of MCP clients"),
            background(guard.end_revoked(), "MCP clients that may stay"),
            open_listener(place, application, LIMITS) as port,
        ):
            await ready.wait()
            if warning := warning_of(settings):
                log.warning("%s", warning)
            try:
                yield Listening(port)
            finally:
                await _wind_down(guard, offer)


async def _run(sessions: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
    # In a task of its own: the library's task group begins and ends in one task.
    async with sessions.run():
        ready.set()
        await asyncio.get_running_loop().create_future()


async def _wind_down(guard: RequestGuard, offer: McpExport) -> None:
    """Let running calls end for a while, then disconnect all clients."""
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await offer.idle()
    except TimeoutError:
        log.warning("calls of MCP clients were cut off at the end")
    guard.end()


def warning_of(settings: McpServerSettings) -> str:
    """Return a warning about the listener's settings, for the operator; empty: none."""
    if is_loopback(settings.host):
        return ""
    return "other machines reach the MCP listener without encryption: put a reverse proxy with TLS in front of it"


SERVER = McpPart("mcp", open_mcp_http)


def answer_by(application: Application) -> Answering:
    """Return a function that answers requests by an ASGI application."""

    async def answer(request: ClientRequest) -> web.StreamResponse:
        # The listener bounds its size and its time.
        exchange = _Exchange(request, await request.request.read())
        await application(_scope_of(request), exchange.receive, exchange.send)
        if request.response is not None:
            return request.response
        if request.request.transport is None or request.request.transport.is_closing():
            return web.Response()  # the library does not answer a caller who is gone
        raise RuntimeError("the MCP library gave no answer")

    return answer


def _scope_of(client: ClientRequest) -> Message:
    request, url = client.request, client.request.rel_url
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": request.scheme,
        "path": url.path,
        "raw_path": url.raw_path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
        "client": (request.remote or "", 0),
        "server": None,
        CALLER: client,
        # The library separates the sessions of its older protocol by this: each belongs to the user that opened it.
        "user": AuthenticatedUser(AccessToken(token="", client_id=client.name, scopes=[], subject=client.token.user)),
    }


class _Exchange:
    """A request and its answer as ASGI messages."""

    def __init__(self, client: ClientRequest, body: bytes) -> None:
        self._client = client
        self._body: bytes | None = body

    async def receive(self) -> Message:
        """Return the whole body first; then wait until the caller is gone."""
        if self._body is None:
            await wait_until_lost(self._client.request)
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        """Send the head or a part of the answer."""
        if message["type"] == "http.response.start":
            headers = {name.decode("latin-1").title(): value.decode("latin-1") for name, value in message["headers"]}
            headers.pop("Server", None)
            await self._client.begin_response(message["status"], headers)
            return
        response = self._client.response
        if message["type"] != "http.response.body" or response is None:
            raise RuntimeError(f"{message['type']} is no part of an answer")
        if body := message.get("body", b""):
            await response.write(body)
        if not message.get("more_body", False):
            await response.write_eof()


class Monitor:
    """The handler of `/mcp/monitor`."""

    def __init__(self, hub: Hub, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock

    async def answer(self, caller: ClientRequest) -> web.StreamResponse:
        """Answer with one stream of events, which ends when the client goes."""
        stream = EventStream(caller.request, {})
        try:
            async with (
                self._hub.listening(caller.actor) as waiting,
                aclosing(_changes(waiting)) as changes,
                aclosing(with_pauses(changes, self._clock)) as pieces,
            ):
                await stream.wait()
                caller.response = stream.response
                async for change in pieces:
                    event = _event_of(change) if change else None
                    await (stream.send([event]) if event else stream.wait())
        except MCPError as error:
            headers = {**HEADERS, "Retry-After": "5"}
            return web.Response(text=error.message, status=HTTPStatus.SERVICE_UNAVAILABLE, headers=headers)
        await stream.response.write_eof()
        return stream.response


async def _changes(waiting: "asyncio.Queue[Change | None]") -> AsyncGenerator[Change, None]:
    while (change := await waiting.get()) is not None:
        yield change


def _event_of(change: Change) -> StreamEvent | None:
    match change:
        case Changed(resource=resource, event=event):
            return StreamEvent("change", {"resource": resource, "event": event})
        case ServerNotification(name=name, payload=payload):
            return StreamEvent("notification", {"name": name, "payload": dict(payload)})
    return None
