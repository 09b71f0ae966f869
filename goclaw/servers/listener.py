"""A listener for HTTP: everything is bounded before a handler sees it, be it head, body, time or connections.

Whoever names another host, or comes from a web page that is not allowed, is refused: a page that somebody opens must
not reach what listens on that person's own machine. Who is calling is for each handler to find out, and what there is
to be had for those who use this: the daemon (`http`) and the registry (`registry`).
"""

import asyncio
import ipaddress
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus

from aiohttp import web

from goclaw.channels.base import Handler
from goclaw.config.listening import is_loopback
from goclaw.errors import StateError
from goclaw.records import record
from goclaw.redact import mask, printable

log = logging.getLogger(__name__)

NAME = "GoClaw"
"""All that an answer says of the server; versions are for those who look for known holes."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
SHUTDOWN_SECONDS = 5.0
"""What a request gets to end when the daemon does; its caller sends it again otherwise."""
MAX_LOGGED = 200
"""Characters of a path in the log: strangers choose it."""


@record
class ListenerLimits:
    """The bounds of one caller; fields for tests."""

    head_seconds: float = 15.0
    """Until a request's head is there, also for a connection that is kept open: slow callers hold nothing."""
    body_seconds: float = 10.0
    body_bytes: int = 1_048_576
    field_bytes: int = 4_096
    """Of one header's value, and of the request line."""
    fields: int = 64
    connections: int = 100


@record
class Endpoint:
    """Where somebody listens, and for whom."""

    name: str
    """What listens, for people."""
    key: str
    """Of the port, in the configuration."""
    host: str
    port: int
    """0: a free one."""
    names: frozenset[str] = frozenset()
    """By which callers may know it, beside this machine's own."""
    origins: frozenset[str] = frozenset()
    """Web pages that may call."""
    quiet: tuple[str, ...] = ()
    """Paths whose requests are no news."""


def bare(refusal: web.HTTPException) -> web.Response:
    """A refusal without a body: nothing of the request comes back."""
    allow = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else None
    return web.Response(status=refusal.status, headers=allow)


def guarded(
    place: Endpoint, caps: ListenerLimits, refused: Callable[[web.HTTPException], web.StreamResponse] = bare
) -> web.Application:
    """An application without pages whose requests are all looked at first; `refused` makes the answers of refusals."""
    guard = _Guard(place, caps, refused)
    application = web.Application(middlewares=[guard.look], client_max_size=caps.body_bytes)
    application.on_response_prepare.append(_unnamed)
    return application


class _Guard:
    """What holds for every request."""

    def __init__(
        self, place: Endpoint, caps: ListenerLimits, refused: Callable[[web.HTTPException], web.StreamResponse]
    ) -> None:
        self._place = place
        self._caps = caps
        self._refused = refused

    @web.middleware
    async def look(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Hand a request on that may come in."""
        try:
            self._admit(request)
            with self._body_in_time(request):
                response = await handler(request)
        except web.HTTPException as refusal:
            response = self._refused(refusal)
        level = logging.DEBUG if request.path in self._place.quiet else logging.INFO
        # Without the query, which may hold what is nobody's business.
        log.log(level, "%s %s from %s: %d", request.method, _shown(request.path), request.remote, response.status)
        return response

    def _admit(self, request: web.Request) -> None:
        """Raises HTTPException for a request that may not come in."""
        named = request.headers.getall("Host", [])
        if len(named) != 1 or not names_us(named[0], self._place.host, self._place.names):
            raise web.HTTPMisdirectedRequest
        if any(origin.lower() not in self._place.origins for origin in request.headers.getall("Origin", [])):
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
async def open_listener(place: Endpoint, application: web.Application, caps: ListenerLimits) -> AsyncIterator[int]:
    """Serve an application while the block runs; yields the port.

    Raises:
        StateError: the port is taken or may not be used.
    """
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        listening = await _listen(place, runner, caps)
        port: int = listening.sockets[0].getsockname()[1]
        log.info("listening on %s port %d", place.host, port)
        try:
            yield port
        finally:
            listening.close()
    finally:
        await runner.cleanup()


async def _listen(place: Endpoint, runner: web.AppRunner, caps: ListenerLimits) -> asyncio.Server:
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

    try:
        return await loop.create_server(connection, place.host, place.port, reuse_address=True)
    except OSError as error:
        # asyncio's own text names the address once more; the number of a name that cannot be resolved is negative.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else str(error)
        raise StateError(
            f"{place.name} cannot have {place.host} port {place.port} ({reason}): choose another `{place.key}`, "
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


def _shown(path: str) -> str:
    # On one line, or strangers write lines of their own into the log.
    return " ".join(mask(printable(path[:MAX_LOGGED])).split())
