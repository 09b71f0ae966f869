"""The web page's WebSocket: the frames of terminals, with HTML for each text that is Markdown.

A page shows its cookie in the handshake, and its own origin: a cookie alone is sent for other pages, too.
"""

import logging
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import hdrs, web

from goclaw.common.auth.access import own_session
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.core.events import Actor, MessageStored
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import SERVER_FRAME, Older
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import ENDING
from goclaw.gateway.servers.programs import Program, Programs
from goclaw.gateway.servers.routes import RoutePorts
from goclaw.gateway.servers.serving import Peer, Serving
from goclaw.gateway.servers.terminals import ConnectionPlaces, TerminalLimits
from goclaw.gateway.servers.web.cookies import DeviceCookies
from goclaw.gateway.servers.web.presenting import HtmlCache, PageFrames

log = logging.getLogger(__name__)

PERSONS = TerminalLimits(per_token=16, per_address=1_000, in_all=1_000)
"""Connections of one person, who may have many devices: a quarter of all."""
MAX_ROWS = 1_000
"""Rows in one frame: with their HTML they are many times as large as for a terminal. The page asks for 400 at most."""


FIRST_ROWS = 40
"""Rows that stand in the page itself, as many as it asks for otherwise (`connection.js`)."""
FIRST_CHARACTERS = 100_000
"""Characters of them: more would keep the browser from the page."""


class LivePages:
    """Admission of web pages. The listener calls `receive`."""

    def __init__(self, ports: RoutePorts, programs: Programs, cookies: DeviceCookies) -> None:
        self._gateway = ports.gateway
        self._known = HtmlCache()
        self._serving = Serving(ports.gateway, ports.clock, str, lambda missed: PageFrames(missed, self._known).text)
        self._audit = ports.audit
        self._programs = programs
        self._cookies = cookies
        self._places = ConnectionPlaces(TerminalLimits())
        self._persons = ConnectionPlaces(PERSONS)
        self._ended = False

    async def newest(self, actor: Actor) -> list[dict[str, Any]]:
        """Return the last rows of an actor's own session, as frames have them: a screen or two, of a bounded size.

        Raises:
            AccessDenied: the actor may not read there.
        """
        session = self._gateway.session_for(actor, own_session(actor.key))
        rows = await self._gateway.history(session, 0, FIRST_ROWS)
        return await PageFrames((), self._known).rows(rows[_first_of(rows) :])

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Serve a page's connection, from its handshake to its last frame."""
        address = network_of(request.remote or "")
        if request.query_string or hdrs.AUTHORIZATION in request.headers:
            # Only the cookie counts here: what has a token is no page.
            return web.Response(status=HTTPStatus.BAD_REQUEST, reason="Only A Cookie Here")
        if not self._cookies.is_own_origin(request):
            return web.Response(status=HTTPStatus.FORBIDDEN)
        try:
            program = await self._programs.admit(request)
        except NotAdmitted as refusal:
            return refusal.response()
        if not web.WebSocketResponse().can_prepare(request):
            return web.Response(status=HTTPStatus.UPGRADE_REQUIRED, headers={"Upgrade": "websocket"})
        with (
            self._places.reserve(f"token {program.name}", f"address {address}") as has_room,
            self._persons.reserve(f"person {program.actor.key}", "") as has_room_for_person,
        ):
            if not (has_room and has_room_for_person) or self._ended:
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "5"})
            return await self._serve(request, program, address)

    async def end(self) -> None:
        """Refuse new pages, and close all connections because the daemon ends."""
        self._ended = True
        await self._serving.end()

    async def _serve(self, request: web.Request, program: Program, address: str) -> web.StreamResponse:
        actor, device = program.actor, program.name
        log.info("a page connected as %s from %s with the device %s", actor.key, address, device)
        self._audit(AuditEntry("client.attach", device, actor, address, rule=f"token {device}"))
        objection = partial(self._programs.objection, program)
        peer = Peer(lambda _: actor, objection, own_session(actor.key), MAX_ROWS)
        async with background(self._end_with_daemon(request), "end of a page's connection"):
            return await self._serving.serve(request, peer)

    async def _end_with_daemon(self, request: web.Request) -> None:
        await request.app[ENDING].wait()
        await self.end()


def _first_of(rows: Sequence[MessageStored]) -> int:
    """Return the place of the first of the last rows that together fit the limit of a page."""
    size = 0
    for place in range(len(rows) - 1, -1, -1):
        size += len(orjson.dumps(SERVER_FRAME.to_data(Older(0, [rows[place]]))))
        if size > FIRST_CHARACTERS:
            return place + 1
    return 0
