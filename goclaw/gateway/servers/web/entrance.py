"""The page itself: for a browser that is logged in with who it is and its last messages inside, as data.

So the page has something to read before it has asked for anything. A browser that came by a link of another page shows
no cookie here (`SameSite=Strict`), and asks `/web/me` as one does that is not logged in.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import orjson
from aiohttp import web

from goclaw.common.core.events import Actor
from goclaw.common.core.supervise import background, ends_within
from goclaw.errors import AccessDenied, StateError
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.programs import Programs
from goclaw.gateway.servers.routes import RoutePorts
from goclaw.gateway.servers.web.assets import ASSETS
from goclaw.gateway.servers.web.cookies import DeviceCookies
from goclaw.gateway.servers.web.devices import Devices

PATIENCE_SECONDS = 0.25
"""Seconds that the page waits for its messages; later ones come by the WebSocket."""


class Entrance:
    """The handler of `/`. The listener calls it."""

    def __init__(
        self,
        ports: RoutePorts,
        cookies: DeviceCookies,
        programs: Programs,
        newest: Callable[[Actor], Coroutine[Any, Any, Sequence[Any]]],
    ) -> None:
        """`newest`: returns the last rows of an actor's own session, as frames have them."""
        self._clock = ports.clock
        self._cookies = cookies
        self._programs = programs
        self._newest = newest
        self._devices = Devices(ports, cookies, programs)

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

    async def _rows(self, actor: Actor) -> Sequence[Any]:
        """Return the last messages; none if that takes long or cannot be done, which the WebSocket explains."""
        try:
            async with background(self._newest(actor), "the messages of a page") as making:
                return making.result() if await ends_within(making, self._clock, PATIENCE_SECONDS) else ()
        except (AccessDenied, StateError):
            return ()
