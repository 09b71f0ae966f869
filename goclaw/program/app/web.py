"""The web page's part of the running daemon: its logins, and the links that `goclaw web` asks for."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from goclaw.common.auth.users import login_name
from goclaw.common.auth.web_logins import LoginRequest, WebLogins
from goclaw.common.config.listening import EVERYWHERE, in_url
from goclaw.common.config.schema import Config
from goclaw.common.core.bus import Bus
from goclaw.common.core.container import daemon_command
from goclaw.common.core.supervise import background
from goclaw.common.health.samples import Samples, resident_megabytes
from goclaw.errors import StateError
from goclaw.program.app.parts import App

if TYPE_CHECKING:
    from goclaw.gateway.servers.programs import Cookies

NOT_SERVED = f"the running daemon does not serve the web page yet; {daemon_command('restart')} makes it do so"
NOT_YET = "the daemon has not opened its listener yet; try again in a moment"


def open_logins(app: App) -> WebLogins | None:
    """Return the logins of the web page; None: `http.web` is off."""
    foundation = app.foundation
    if not foundation.config.http.web:
        return None
    return WebLogins(
        foundation.clock,
        foundation.environment.audit,
        partial(_announce, foundation.bus),
        app.sessions.ports.store.settings,
        gateway=foundation.storage.owned.ownership.replica,
        news=foundation.storage.owned.processes,
    )


async def cookies_of(config: Config) -> "Cookies | None":
    """Return the cookies of the web page; their module is loaded only where there is one."""
    if not config.http.web:
        return None
    await asyncio.to_thread(import_module, "goclaw.gateway.servers.web.cookies")
    from goclaw.gateway.servers.web.cookies import DeviceCookies

    return DeviceCookies(config)


@asynccontextmanager
async def taking_samples(app: App) -> AsyncIterator[Samples]:
    """Take samples of the daemon's state, for the page's plots, while the block runs."""
    counts, engine = app.foundation.process.counts, app.engine

    def measure() -> Mapping[str, float]:
        late = counts().get("event_loop_late_ms", 0.0)
        return {"lateness": late, "memory": resident_megabytes(), "turns": engine.busy()}

    samples = Samples(app.foundation.clock, measure)
    async with background(samples.run(), "samples for plots"):
        yield samples


def page_address(config: Config, port: int) -> str:
    """Return where a browser finds the page."""
    host = EVERYWHERE.get(config.http.host, config.http.host)
    return (config.http.public_url or f"http://{in_url(host)}:{port}").rstrip("/")


async def page_link(app: App, logins: WebLogins | None, user: str) -> str:
    """Return a one-time link to the page, for a user; empty: for the owner.

    Raises:
        StateError: there is no page, or no such user.
    """
    if logins is None:
        raise StateError(NOT_SERVED)
    if not logins.address:
        raise StateError(NOT_YET)
    if user and app.foundation.users.get(user) is None:
        raise StateError(f"{user} is not in users.json; run `goclaw users add {user}` first")
    code = await logins.link(user or f"tui:{login_name()}", owner=not user)
    return f"{logins.address}/#link={code}"


def _announce(bus: Bus, request: LoginRequest) -> None:
    """Show the owner, at every terminal, that a page asks to be let in."""
    text = f"A web page asks to sign in: {request}, code {request.code}. `/approve {request.code}` signs it in."
    bus.notice(text, code=request.code)
