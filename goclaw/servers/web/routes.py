"""The paths of the web page: `/`, its files, and what it asks before it is logged in."""

from collections.abc import Sequence
from functools import partial

from aiohttp import web

from goclaw.channels.base import Handler, PathRule
from goclaw.config.listening import WEB as PREFIX
from goclaw.errors import ConfigError
from goclaw.servers.api.problems import refused
from goclaw.servers.programs import ProgramLimits, Programs
from goclaw.servers.routes import RoutePart, RoutePorts
from goclaw.servers.web.assets import ASSETS
from goclaw.servers.web.cookies import DeviceCookies
from goclaw.servers.web.live import LivePages, PageVisitor
from goclaw.servers.web.login import MAX_BODY, Logins

LIMITS = ProgramLimits(at_once=32, per_minute=600)


def _routes(ports: RoutePorts) -> Sequence[tuple[str, str, Handler]]:
    if ports.logins is None or not isinstance(ports.cookies, DeviceCookies):
        raise ConfigError("the web page needs `http.web: true`")
    programs = Programs(
        ports.admission, ports.access, ports.audit, ports.clock, LIMITS, "session.read", cookies=ports.cookies
    )
    logins = Logins(ports, ports.cookies, programs, ports.logins)
    live = LivePages(ports.gateway, ports.clock, ports.audit, partial(_visitor, programs), ports.cookies.is_own_origin)
    return [
        ("GET", "/", ASSETS.index),
        ("POST", f"{PREFIX}login", logins.login),
        ("POST", f"{PREFIX}login/code", logins.code),
        ("POST", f"{PREFIX}login/wait", logins.wait),
        ("GET", f"{PREFIX}me", logins.me),
        ("POST", f"{PREFIX}logout", logins.logout),
        ("GET", f"{PREFIX}ws", live.receive),
        ("GET", f"{PREFIX}{{file:.+}}", ASSETS.file),
    ]


async def _visitor(programs: Programs, request: web.Request) -> PageVisitor:
    """Return who a page's WebSocket belongs to; raises NotAdmitted."""
    program = await programs.admit(request)
    return PageVisitor(program.name, program.actor, partial(programs.objection, program))


WEB = RoutePart(_routes, (PathRule(PREFIX, MAX_BODY, refused),))
