"""The HTTP listener: `/healthz`, `/readyz`, and the routes that channels add through `Routes`.

`listener` checks every request. The two pages reveal no secret.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

from aiohttp import web

from goclaw.channels.base import Routes
from goclaw.config.listening import PROBES, hosts
from goclaw.config.schema import Config
from goclaw.health.readiness import Readiness
from goclaw.servers.listener import HEADERS, Endpoint, ListenerLimits, guarded, open_listener


class HttpServer:
    """The listener's own pages. Made by `open_http`."""

    def __init__(self, readiness: Callable[[], Awaitable[Readiness]]) -> None:
        self._readiness = readiness
        self.port = 0
        """The port in use."""

    def add_to(self, application: web.Application, routes: Routes) -> None:
        """Add our own pages and the others'."""
        for path, page in zip(PROBES, (self.health, self.ready), strict=True):
            application.router.add_get(path, page)
        for method, path, handler in routes.added:
            application.router.add_route(method, path, handler)

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
        origins=frozenset(config.http.origins),
        quiet=PROBES,
    )
    server, application = HttpServer(readiness), guarded(place, caps)
    server.add_to(application, routes)
    async with open_listener(place, application, caps) as server.port:
        yield server
