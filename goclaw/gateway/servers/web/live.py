"""The web page's WebSocket: the frames of terminals, with HTML for each text that is Markdown.

A page shows its cookie in the handshake, and its own origin: a cookie alone is sent for other pages, too.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import hdrs, web

from goclaw.common.auth.access import own_session
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor, MessageStored
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.common.core.wire import SERVER_FRAME, Older
from goclaw.gateway.servers.admission import NotAdmitted
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import ENDING
from goclaw.gateway.servers.serving import Peer, Serving, ServingGateway
from goclaw.gateway.servers.terminals import ConnectionPlaces, TerminalLimits
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


@record
class PageVisitor:
    """A browser that is logged in."""

    device: str
    """The name of its token."""
    actor: Actor
    objection: Callable[[], str]
    """Returns why it may not stay; empty: it may."""


class LivePages:
    """Admission of web pages. The listener calls `receive`."""

    def __init__(
        self,
        gateway: ServingGateway,
        clock: Clock,
        audit: Callable[[AuditEntry], None],
        admit: Callable[[web.Request], Awaitable[PageVisitor]],
        is_own_origin: Callable[[web.Request], bool],
    ) -> None:
        """`admit`: returns the visitor by the request's cookie, or raises NotAdmitted; `is_own_origin`: whether the
        request has an `Origin`, and that is the address under which the page was loaded."""
        self._gateway = gateway
        self._known = HtmlCache()
        self._serving = Serving(gateway, clock, str, lambda missed: PageFrames(missed, self._known).text)
        self._audit = audit
        self._admit = admit
        self._is_own_origin = is_own_origin
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
        if not self._is_own_origin(request):
            return web.Response(status=HTTPStatus.FORBIDDEN)
        try:
            visitor = await self._admit(request)
        except NotAdmitted as refusal:
            return refusal.response()
        if not web.WebSocketResponse().can_prepare(request):
            return web.Response(status=HTTPStatus.UPGRADE_REQUIRED, headers={"Upgrade": "websocket"})
        person = visitor.actor.key
        with (
            self._places.reserve(f"token {visitor.device}", f"address {address}") as has_room,
            self._persons.reserve(f"person {person}", "") as has_room_for_person,
        ):
            if not (has_room and has_room_for_person) or self._ended:
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "5"})
            return await self._serve(request, visitor, address)

    async def end(self) -> None:
        """Refuse new pages, and close all connections because the daemon ends."""
        self._ended = True
        await self._serving.end()

    async def _serve(self, request: web.Request, visitor: PageVisitor, address: str) -> web.StreamResponse:
        actor = visitor.actor
        log.info("a page connected as %s from %s with the device %s", actor.key, address, visitor.device)
        self._audit(AuditEntry("client.attach", visitor.device, actor, address, rule=f"token {visitor.device}"))
        peer = Peer(lambda _: actor, visitor.objection, own_session(actor.key), MAX_ROWS)
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
