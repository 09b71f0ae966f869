"""The paths of the web page: `/`, its files, its requests before it is logged in, and its WebSocket."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from goclaw.channels.base import Handler, PathRule
from goclaw.common.config.listening import WEB as PREFIX
from goclaw.common.core.events import Actor
from goclaw.common.core.plugins import load_large
from goclaw.common.core.supervise import background, ends_within
from goclaw.errors import AccessDenied, ConfigError, StateError
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.api.problems import refusal_response, respond
from goclaw.gateway.servers.programs import ProgramLimits, Programs
from goclaw.gateway.servers.routes import RoutePart, RoutePorts
from goclaw.gateway.servers.web.assets import ASSETS
from goclaw.gateway.servers.web.cookies import DeviceCookies
from goclaw.gateway.servers.web.devices import Devices
from goclaw.gateway.servers.web.login import MAX_BODY, Logins

if TYPE_CHECKING:
    from goclaw.gateway.servers.web.live import LivePages

LIVE = "goclaw.gateway.servers.web.live:LivePages"
LIMITS = ProgramLimits(at_once=32, per_minute=600)
PATIENCE_SECONDS = 0.25
"""Seconds that the page waits for its messages; later ones come by the WebSocket."""


def _routes(ports: RoutePorts) -> Sequence[tuple[str, str, Handler]]:
    if ports.web is None or not isinstance(cookies := ports.web.cookies, DeviceCookies):
        raise ConfigError("the web page needs `http.web: true`")
    programs = Programs(ports.admission, ports.access, ports.audit, ports.clock, LIMITS, "session.read", cookies)
    page = _Page(ports, programs, cookies)
    logins = Logins(ports, cookies, programs, ports.web.logins)
    return [
        ("GET", "/", page.index),
        ("POST", f"{PREFIX}login", partial(respond, logins.login)),
        ("POST", f"{PREFIX}login/code", partial(respond, logins.code)),
        ("POST", f"{PREFIX}login/link", partial(respond, logins.link)),
        ("POST", f"{PREFIX}login/wait", partial(respond, logins.wait)),
        ("GET", f"{PREFIX}me", partial(respond, logins.me)),
        ("POST", f"{PREFIX}logout", partial(respond, logins.logout)),
        ("GET", f"{PREFIX}ws", page.receive),
        ("GET", f"{PREFIX}{{file:.+}}", ASSETS.file),
    ]


class _Page:
    """The page itself, and its WebSocket. The renderer takes megabytes: the first page loads it.

    For a browser that is logged in the page has its user and the last messages inside, as data: so it has something to
    read before it has asked for anything. A browser that came by a link of another page shows no cookie here
    (`SameSite=Strict`), and asks `/web/me` as one does that is not logged in.
    """

    def __init__(self, ports: RoutePorts, programs: Programs, cookies: DeviceCookies) -> None:
        self._ports = ports
        self._programs = programs
        self._cookies = cookies
        self._devices = Devices(ports, cookies, programs)
        self._loading = asyncio.Lock()
        self._pages: LivePages | None = None

    async def index(self, request: web.Request) -> web.StreamResponse:
        """Answer `GET /`."""
        secret = self._cookies.secret_in(request)
        if not secret:
            return await ASSETS.index(request)
        try:
            program = await self._programs.admit(request)
        except NotAdmitted:
            return await ASSETS.index(request)  # `/web/me` says why
        here = {**self._devices.me(program, secret), "rows": await self._rows(program.actor)}
        return ASSETS.filled_index(orjson.dumps(here))

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Serve a page's connection."""
        return await (await self._load_once()).receive(request)

    async def _rows(self, actor: Actor) -> Sequence[Any]:
        """Return the last messages; none if that takes long or cannot be done, which the WebSocket explains."""
        try:
            async with background(self._newest(actor), "the messages of a page") as making:
                in_time = await ends_within(making, self._ports.clock, PATIENCE_SECONDS)
                return making.result() if in_time else ()
        except (AccessDenied, StateError):
            return ()

    async def _newest(self, actor: Actor) -> Sequence[Any]:
        return await (await self._load_once()).newest(actor)

    async def _load_once(self) -> "LivePages":
        async with self._loading:
            if self._pages is None:
                await asyncio.to_thread(load_large, LIVE, type)
                from goclaw.gateway.servers.web.live import LivePages

                self._pages = LivePages(self._ports, self._programs, self._cookies)
        return self._pages


WEB = RoutePart(_routes, (PathRule(PREFIX, MAX_BODY, refusal_response),))
