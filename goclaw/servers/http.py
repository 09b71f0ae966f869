"""The HTTP listener: `/healthz`, `/readyz`, and what channels put on it through `Routes`. It knows none of them.

Everything is bounded before a handler sees it: head, body, time, connections. Whoever names another host, or comes
from a web page that is not allowed, is refused: a page that somebody opens must not reach a daemon that listens on
that person's own machine. Who is calling is for each handler to find out; the two pages above tell no secret.
"""

import asyncio
import ipaddress
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus

from aiohttp import web

from goclaw.channels.base import Handler, Routes
from goclaw.config.listening import PROBES, hosts, is_loopback
from goclaw.config.schema import Config
from goclaw.errors import StateError
from goclaw.health.readiness import Readiness
from goclaw.records import record
from goclaw.redact import mask, printable

log = logging.getLogger(__name__)

NAME = "GoClaw"
"""All that an answer says of the server; versions are for those who look for known holes."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
SHUTDOWN_SECONDS = 5.0
"""What a request gets to end when the daemon does; its caller sends it again otherwise."""
LONGEST_LOGGED = 200
"""Characters of a path in the log: strangers choose it."""


@record
class Caps:
    """The bounds of one caller; fields for tests."""

    head_seconds: float = 15.0
    """Until a request's head is there, also for a connection that is kept open: slow callers hold nothing."""
    body_seconds: float = 10.0
    body_bytes: int = 1_048_576
    field_bytes: int = 4_096
    """Of one header's value, and of the request line."""
    fields: int = 64
    connections: int = 100


class HttpServer:
    """Serves requests. Made by `open_http`."""

    def __init__(self, config: Config, readiness: Callable[[], Awaitable[Readiness]], caps: Caps) -> None:
        self._host = config.http.host
        self._names = hosts(config)
        self._origins = frozenset(config.http.origins)
        self._readiness = readiness
        self._caps = caps
        self.port = 0
        """The one that it listens on."""

    def application(self, routes: Routes) -> web.Application:
        """Our own pages and the others'."""
        application = web.Application(middlewares=[self.guard], client_max_size=self._caps.body_bytes)
        application.on_response_prepare.append(_unnamed)
        for path, page in zip(PROBES, (self.health, self.ready), strict=True):
            application.router.add_get(path, page)
        for method, path, handler in routes.added:
            application.router.add_route(method, path, handler)
        return application

    async def health(self, _: web.Request) -> web.StreamResponse:
        """`/healthz`: that this is answered says that the event loop lives."""
        return web.json_response({"status": "ok"}, headers=HEADERS)

    async def ready(self, _: web.Request) -> web.StreamResponse:
        """`/readyz`: whether messages are taken now."""
        found = await self._readiness()
        status = HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return web.json_response(found.public(), status=status, headers=HEADERS)

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What holds for every request. Refusals have no body: nothing of the request comes back."""
        try:
            self._admit(request)
            with self._body_in_time(request):
                response = await handler(request)
        except web.HTTPException as refusal:
            allow = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else None
            response = web.Response(status=refusal.status, headers=allow)
        _log_access(request, response)
        return response

    def _admit(self, request: web.Request) -> None:
        """Raises HTTPException for a request that may not come in."""
        named = request.headers.getall("Host", [])
        if len(named) != 1 or not names_us(named[0], self._host, self._names):
            raise web.HTTPMisdirectedRequest
        if any(origin.lower() not in self._origins for origin in request.headers.getall("Origin", [])):
            raise web.HTTPForbidden
        if (request.content_length or 0) > self._caps.body_bytes:
            raise web.HTTPRequestEntityTooLarge(self._caps.body_bytes)

    @contextmanager
    def _body_in_time(self, request: web.Request) -> Iterator[None]:
        """Whoever reads a body that does not end in time gets an HTTPRequestTimeout."""
        if not request.body_exists:
            yield
            return

        def give_up() -> None:
            if not request.content.is_eof():
                request.content.set_exception(web.HTTPRequestTimeout())

        # The event loop's own time, as for all that aiohttp does about connections.
        timer = asyncio.get_running_loop().call_later(self._caps.body_seconds, give_up)
        try:
            yield
        finally:
            timer.cancel()


class _Connection(web.RequestHandler):
    """aiohttp's, but what it cannot read is answered without words, and logged without a stack."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            log.error("answering %s %s failed", request.method, _shown(request.path), exc_info=exc)
        else:
            log.debug("a request that is none: %s", message)
        if request.writer.output_size > 0:
            raise ConnectionError("half an answer is out already")
        response = web.Response(status=status, headers={"Server": NAME})
        response.force_close()
        return response


class _Full(asyncio.Protocol):
    """For a caller too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        log.debug("too many connections; one was closed")
        transport.close()


@asynccontextmanager
async def open_http(
    config: Config, routes: Routes, readiness: Callable[[], Awaitable[Readiness]], caps: Caps | None = None
) -> AsyncIterator[HttpServer]:
    """Listen on `http.host` and `http.port` while the block runs.

    Raises:
        StateError: the port is taken or may not be used.
    """
    caps = caps or Caps()
    server = HttpServer(config, readiness, caps)
    runner = web.AppRunner(server.application(routes), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        listening = await _listen(config, runner, caps)
        server.port = listening.sockets[0].getsockname()[1]
        log.info("listening on %s port %d", config.http.host, server.port)
        try:
            yield server
        finally:
            listening.close()
    finally:
        await runner.cleanup()


async def _listen(config: Config, runner: web.AppRunner, caps: Caps) -> asyncio.Server:
    manager = runner.server
    assert manager is not None  # noqa: S101 - since `setup`
    loop = asyncio.get_running_loop()

    def connection() -> asyncio.Protocol:
        if len(manager.connections) >= caps.connections:
            return _Full()
        return _Connection(
            manager,
            loop=loop,
            keepalive_timeout=caps.head_seconds,
            # A body that nobody wanted is not read to its end.
            lingering_time=0,
            access_log=None,  # type: ignore[arg-type]  # as the library's own documentation does
            max_line_size=caps.field_bytes,
            max_field_size=caps.field_bytes,
            max_headers=caps.fields,
            read_bufsize=65_536,
            # Nothing that calls us compresses, and a small body that unpacks to a large one is an old trick.
            auto_decompress=False,
        )

    host, port = config.http.host, config.http.port
    try:
        return await loop.create_server(connection, host, port, reuse_address=True)
    except OSError as error:
        # asyncio's own text names the address once more; the number of a name that cannot be resolved is negative.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error)
        raise StateError(
            f"the HTTP listener cannot have {host} port {port} ({reason}): choose another `http.port`, "
            "or end the program that has it"
        ) from error


async def _unnamed(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = NAME


def names_us(host: str, listens_on: str, names: frozenset[str]) -> bool:
    """Whether a `Host` header means us. A name that somebody else made lead here does not (DNS rebinding)."""
    parts = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", host.lower())
    if parts is None:
        return False
    name = parts[1].strip("[]")
    if is_loopback(name) or name in names or name == listens_on.lower():
        return True
    return not is_loopback(listens_on) and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _log_access(request: web.Request, response: web.StreamResponse) -> None:
    """Without the query, which may hold what is nobody's business; probes come all the time."""
    level = logging.DEBUG if request.path in PROBES else logging.INFO
    log.log(level, "%s %s from %s: %d", request.method, _shown(request.path), request.remote, response.status)


def _shown(path: str) -> str:
    return mask(printable(path[:LONGEST_LOGGED]))
