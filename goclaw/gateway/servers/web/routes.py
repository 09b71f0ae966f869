"""The paths of the web page: `/`, its files, and its requests before it is logged in."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web

from goclaw.channels.base import Handler, PathRule
from goclaw.common.config.listening import WEB as PREFIX
from goclaw.common.core.events import Actor
from goclaw.common.core.plugins import load_large
from goclaw.errors import ConfigError
from goclaw.gateway.servers.api.problems import refusal_response
from goclaw.gateway.servers.programs import ProgramLimits, Programs
from goclaw.gateway.servers.routes import RoutePart, RoutePorts
from goclaw.gateway.servers.web.assets import ASSETS
from goclaw.gateway.servers.web.cookies import DeviceCookies
from goclaw.gateway.servers.web.entrance import Entrance
from goclaw.gateway.servers.web.login import MAX_BODY, Logins

if TYPE_CHECKING:
    from goclaw.gateway.servers.web.live import LivePages, PageVisitor

LIVE = "goclaw.gateway.servers.web.live:LivePages"
LIMITS = ProgramLimits(at_once=32, per_minute=600)


def _routes(ports: RoutePorts) -> Sequence[tuple[str, str, Handler]]:
    if ports.web is None or not isinstance(cookies := ports.web.cookies, DeviceCookies):
        raise ConfigError("the web page needs `http.web: true`")
    programs = Programs(ports.admission, ports.access, ports.audit, ports.clock, LIMITS, "session.read", cookies)
    live = _Live(ports, programs, cookies)
    logins = Logins(ports, cookies, programs, ports.web.logins)
    return [
        ("GET", "/", Entrance(ports, cookies, programs, live.newest).index),
        ("POST", f"{PREFIX}login", logins.login),
        ("POST", f"{PREFIX}login/code", logins.code),
        ("POST", f"{PREFIX}login/link", logins.link),
        ("POST", f"{PREFIX}login/wait", logins.wait),
        ("GET", f"{PREFIX}me", logins.me),
        ("POST", f"{PREFIX}logout", logins.logout),
        ("GET", f"{PREFIX}ws", live.receive),
        ("GET", f"{PREFIX}{{file:.+}}", ASSETS.file),
    ]


class _Live:
    """The WebSocket, and the page's proof before it. The renderer takes megabytes: the first page loads it."""

    def __init__(self, ports: RoutePorts, programs: Programs, cookies: DeviceCookies) -> None:
        self._ports = ports
        self._programs = programs
        self._cookies = cookies
        self._loading = asyncio.Lock()
        self._pages: LivePages | None = None

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Serve a page's connection."""
        return await (await self._load_once()).receive(request)

    async def newest(self, actor: Actor) -> list[dict[str, Any]]:
        """Return the last rows of an actor's own session."""
        return await (await self._load_once()).newest(actor)

    async def _load_once(self) -> "LivePages":
        async with self._loading:
            if self._pages is None:
                self._pages = await self._load()
        return self._pages

    async def _load(self) -> "LivePages":
        await asyncio.to_thread(load_large, LIVE, type)
        from goclaw.gateway.servers.web.live import LivePages

        ports = self._ports
        return LivePages(ports.gateway, ports.clock, ports.audit, self._visitor, self._cookies.is_own_origin)

    async def _visitor(self, request: web.Request) -> "PageVisitor":
        """Return who a page's WebSocket belongs to; raises NotAdmitted."""
        from goclaw.gateway.servers.web.live import PageVisitor

        program = await self._programs.admit(request)
        return PageVisitor(program.name, program.actor, partial(self._programs.objection, program))


WEB = RoutePart(_routes, (PathRule(PREFIX, MAX_BODY, refusal_response),))
