"""HTTP listeners: every request is bounded and checked before a handler sees it; and the daemon's own pages.

Head, body, time and connections are bounded. A request for another host, or from a web page that is not allowed, is
refused: a page open in a browser must not reach services on the same machine. Each handler authenticates its callers.
Used by the daemon and the registry (`registry`). The daemon's listener has `/healthz` and `/readyz`, which reveal no
secret, and the routes that channels add through `Routes`.
"""

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from ipaddress import ip_network
from typing import Any

from aiohttp import web

from goclaw.channels.base import Handler, PathRule, Routes
from goclaw.common.config.listening import PROBES, hosts, is_loopback, pages
from goclaw.common.config.schema import Config
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, printable
from goclaw.common.health.readiness import Readiness
from goclaw.errors import StateError
from goclaw.gateway.servers.connections import ConnectionLimits, Connections, IpNetwork, is_address

log = logging.getLogger(__name__)


SERVER_NAME = "GoClaw"
"""The only server information in an answer; a version would help to find known vulnerabilities."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
SHUTDOWN_SECONDS = 5.0
"""Seconds a request gets to end at shutdown; its caller sends it again otherwise."""
MAX_LOGGED = 200
"""Characters of a path in the log: strangers choose it."""
_REASONS = {
    400: "this request is malformed",
    403: "pages of this origin may not call the API (`http.origins`)",
    405: "this path does not accept this method",
    408: "the body did not arrive in time",
    413: "the body is too large",
    421: "this server does not answer to this host name (`http.hosts`)",
    503: "too many requests at once; try again later",
}
"""Reasons of refusals by their status, for programs."""


@record
class ListenerLimits:
    """The bounds of one caller; fields for tests."""

    head_seconds: float = 15.0
    """Until a request's head is complete, also on a kept-alive connection: slow callers hold nothing."""
    body_seconds: float = 10.0
    body_bytes: int = 1_048_576
    field_bytes: int = 4_096
    """Bytes of one header's value, and of the request line."""
    fields: int = 64
    connections: int = 320
    per_caller: int = 256
    """Connections of one address that wait for a head, and those that are at work."""
    for_probes: int = 8
    """Connections beyond the others, in which only probes are answered."""


@record
class Endpoint:
    """The address and the permitted callers of a listener."""

    name: str
    """The name of the listener, for people."""
    key: str
    """The configuration key of the port."""
    host: str
    port: int
    """The port; 0: a free one."""
    names: frozenset[str] = frozenset()
    """Host names that callers may use, besides this machine's own."""
    origins: frozenset[str] = frozenset()
    """Web pages that may call."""
    probes: tuple[str, ...] = ()
    """Paths whose requests are not logged, and answered although all connections are at work."""
    proxies: tuple[IpNetwork, ...] = ()
    """Networks of proxies that are trusted to say who calls."""
    has_page: bool = False
    """Whether a page of the listener's own may call: one whose origin is the very host that it calls."""


CONNECTIONS = web.AppKey("connections", Connections)
ENDING = web.AppKey("ending", asyncio.Event)
"""Set when the listener ends: answers that take long end then."""


def bare(refusal: web.HTTPException) -> web.Response:
    """Return a refusal without a body: nothing of the request is echoed."""
    return web.Response(status=refusal.status, headers={**HEADERS, **allowed_methods(refusal)})


def allowed_methods(refusal: web.HTTPException) -> dict[str, str]:
    """Return the header with the methods of a path, where a refusal names them."""
    return {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else {}


def explain(refusal: web.HTTPException, unknown_path: str) -> str:
    """Return the reason of a refusal in words; `unknown_path`: that of 404."""
    return {**_REASONS, 404: unknown_path}.get(refusal.status, "this request cannot be answered")


def guarded(
    place: Endpoint,
    caps: ListenerLimits,
    refused: Callable[[web.HTTPException], web.StreamResponse] = bare,
    rules: Sequence[PathRule] = (),
) -> web.Application:
    """Return an application without pages that checks every request.

    `refused` makes the answers to refused ones; `rules` say what differs on some paths.
    """
    limits = ConnectionLimits(caps.connections, caps.per_caller, caps.for_probes)
    connections = Connections(limits, place.proxies)
    guard = _Guard(place, caps, [*rules, PathRule("", caps.body_bytes, refused)], connections)
    application = web.Application(middlewares=[guard.check], client_max_size=caps.body_bytes)
    application[CONNECTIONS] = connections
    application[ENDING] = asyncio.Event()
    application.on_shutdown.append(_end)
    application.on_response_prepare.append(_set_server_name)
    return application


@dataclass(eq=False)
class _Guard:
    """The checks of every request."""

    place: Endpoint
    caps: ListenerLimits
    rules: Sequence[PathRule]
    connections: Connections

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pass a permitted request on, as that of the caller whom a trusted proxy names."""
        probe = request.path in self.place.probes
        # The end as the router sees it: a key in a path may have `/` as `%2F`, and with it the end of another path.
        rules = (rule for rule in self.rules if request.rel_url.raw_path.endswith(rule.suffix))
        rule = next(rule for rule in rules if request.path.startswith(rule.prefix))
        if rule.body_bytes != self.caps.body_bytes:
            request = request.clone(client_max_size=rule.body_bytes)
        if (caller := self.connections.caller_of(request)) != request.remote:
            request = request.clone(remote=caller)
        with self.connections.work(request.protocol, caller, probe=probe) as has_room:
            try:
                if not has_room:
                    raise web.HTTPServiceUnavailable
                self._admit(request, rule.body_bytes)
                with self._body_in_time(request, rule.body_seconds or self.caps.body_seconds):
                    response = await handler(request)
            except web.HTTPException as refusal:
                response = rule.refused(refusal)
        if not has_room:
            response.force_close()
        level = logging.DEBUG if probe or not has_room else logging.INFO
        # Without the query, which may hold private data.
        log.log(level, "%s %s from %s: %d", request.method, _format_path(request.path), request.remote, response.status)
        return response

    def _admit(self, request: web.Request, body_bytes: int) -> None:
        """Raise HTTPException for a request that is refused."""
        named = request.headers.getall("Host", [])
        if len(named) != 1 or not names_us(named[0], self.place.host, self.place.names):
            raise web.HTTPMisdirectedRequest
        # A page may call that is configured, or that is our own and comes from the very host it calls.
        host, origins = named[0].lower(), {each.lower() for each in request.headers.getall("Origin", [])}
        own = (f"http://{host}", f"https://{host}") if self.place.has_page else ()
        if not origins <= {*self.place.origins, *own}:
            raise web.HTTPForbidden
        if (request.content_length or 0) > body_bytes:
            raise web.HTTPRequestEntityTooLarge(body_bytes)

    @contextmanager
    def _body_in_time(self, request: web.Request, seconds: float) -> Iterator[None]:
        """Raise HTTPRequestTimeout for a body that does not end in time."""
        if not request.body_exists:
            yield
            return

        def abort() -> None:
            if not request.content.is_eof():
                request.content.set_exception(web.HTTPRequestTimeout())

        # The event loop's own time, which aiohttp uses for all connections.
        timer = asyncio.get_running_loop().call_later(seconds, abort)
        try:
            yield
        finally:
            timer.cancel()


class _Connection(web.RequestHandler):
    """A connection of aiohttp that is counted, answers unreadable requests without details, and logs no stack."""

    __slots__ = ("_connections", "lost")

    def __init__(self, manager: web.Server, connections: Connections, **options: Any) -> None:
        super().__init__(manager, **options)
        self._connections = connections
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._connections.came(self, str(peer[0]) if peer else "")

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.forget(self)
        self.lost.set()
        super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if isinstance(exc, ConnectionError):
            log.debug(
                "%s %s: the caller disconnected before the end of the answer",
                request.method,
                _format_path(request.path),
            )
        elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("answering %s %s failed", request.method, _format_path(request.path), exc_info=exc)
        else:
            log.debug("a malformed request: %s", message)
        if request.writer.output_size > 0:
            raise ConnectionError("half of an answer has already been sent")
        response = web.Response(status=status, headers={"Server": SERVER_NAME})
        response.force_close()
        return response


async def wait_until_lost(request: web.Request) -> None:
    """Return when the connection of a request is closed. Raises TypeError where no listener of ours has it."""
    if not isinstance(request.protocol, _Connection):
        raise TypeError(f"{type(request.protocol).__name__} is no connection of a listener")
    await request.protocol.lost.wait()


@asynccontextmanager
async def open_listener(place: Endpoint, application: web.Application, caps: ListenerLimits) -> AsyncIterator[int]:
    """Serve an application while the block runs; yields the port.

    Raises:
        StateError: the port is taken or may not be used.
    """
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        listening = await _listen(place, runner, caps, application[CONNECTIONS])
        port: int = listening.sockets[0].getsockname()[1]
        log.info("listening on %s port %d", place.host, port)
        try:
            yield port
        finally:
            listening.close()
    finally:
        await runner.cleanup()


async def _listen(
    place: Endpoint, runner: web.AppRunner, caps: ListenerLimits, connections: Connections
) -> asyncio.Server:
    manager = runner.server
    assert manager is not None  # noqa: S101 - since `setup`
    loop = asyncio.get_running_loop()
    connection = partial(
        _Connection,
        manager,
        connections,
        loop=loop,
        keepalive_timeout=caps.head_seconds,
        # An unused body is not read to its end.
        lingering_time=0,
        access_log=None,
        max_line_size=caps.field_bytes,
        max_field_size=caps.field_bytes,
        max_headers=caps.fields,
        read_bufsize=65_536,
        # Our callers do not compress, and a small body that unpacks to a large one is a known attack.
        auto_decompress=False,
    )
    try:
        return await loop.create_server(connection, place.host, place.port, reuse_address=True)
    except OSError as error:
        # asyncio's own text repeats the address; the number of a name that cannot be resolved is negative.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error)
        raise StateError(
            f"{place.name} cannot listen on {place.host} port {place.port} ({reason}): choose another `{place.key}`, "
            "or stop the program that uses it"
        ) from error


async def _end(application: web.Application) -> None:
    application[ENDING].set()


async def _set_server_name(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SERVER_NAME


def names_us(host: str, listens_on: str, names: frozenset[str]) -> bool:
    """Return whether a `Host` header names this machine. Other names that resolve to it do not (DNS rebinding)."""
    parts = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", host.lower())
    if parts is None:
        return False
    name = parts[1].strip("[]")
    if is_loopback(name) or name in names or name == listens_on.lower():
        return True
    return not is_loopback(listens_on) and is_address(name)


def _format_path(path: str) -> str:
    # On one line, or callers could forge lines of the log.
    return " ".join(mask(printable(path[:MAX_LOGGED])).split())


class HttpServer:
    """The listener's own pages. Made by `open_http`."""

    def __init__(self, readiness: Callable[[], Awaitable[Readiness]]) -> None:
        self._readiness = readiness
        self.port = 0
        """The port in use."""

    async def health(self, _: web.Request) -> web.StreamResponse:
        """Answer `/healthz`: any answer proves that the event loop runs."""
        return web.json_response({"status": "ok"}, headers=HEADERS)

    async def ready(self, _: web.Request) -> web.StreamResponse:
        """Answer `/readyz`: whether messages are accepted now."""
        found = await self._readiness()
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response(found.public(), status=status, headers=HEADERS)


@asynccontextmanager
async def open_http(
    config: Config, routes: Routes, readiness: Callable[[], Awaitable[Readiness]], caps: ListenerLimits | None = None
) -> AsyncIterator[HttpServer]:
    """Listen on `http.host` and `http.port` while the block runs.

    Raises:
        StateError: the port is taken or may not be used.
    """
    caps = caps or ListenerLimits()
    place = Endpoint(
        "the HTTP listener",
        "http.port",
        config.http.host,
        config.http.port,
        names=hosts(config),
        origins=pages(config),
        probes=PROBES,
        proxies=tuple(ip_network(each, strict=False) for each in config.http.trusted_proxies),
        has_page=config.http.web,
    )
    server, application = HttpServer(readiness), guarded(place, caps, rules=routes.rules)
    for path, page in zip(PROBES, (server.health, server.ready), strict=True):
        application.router.add_get(path, page)
    for method, path, handler in routes.added:
        application.router.add_route(method, path, handler)
    async with open_listener(place, application, caps) as server.port:
        yield server
