"""The two ways in for terminals: TCP with an access token, and the Unix socket in the state folder.

A client over TCP acts as the user of its token; the user's rights are looked up in users.json at every use.
`servers.http` has checked Host, Origin and sizes, `servers.admission` the token: an address with a query, which may
hold one, is refused. A client on the socket must have the daemon's own uid, as the kernel reports it, and acts as the
owner; `servers.socket_file` has the file. `servers.serving` handles both connections from there.
"""

import logging
import os
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus

from aiohttp import web

from goclaw.common.auth.access import own_session
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Token
from goclaw.common.auth.users import login_name
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.wire import LINK_PATH, PATH
from goclaw.errors import StateError
from goclaw.gateway.servers.admission import Admission, NotAdmitted, shown_token
from goclaw.gateway.servers.connections import count_one, network_of
from goclaw.gateway.servers.serving import Peer, Serving, ServingGateway

log = logging.getLogger(__name__)


REMOTE_ENTRY = "http"
"""The way in, as `Actor.entry` names it."""


@record
class TerminalLimits:
    """The limits of one caller; fields for tests."""

    per_token: int = 8
    """Connections at once: a person's terminals, not a program that forgets to close them."""
    per_address: int = 32
    in_all: int = 64
    """Fewer than the listener has, so that probes and the webhook still come in."""


class ConnectionPlaces:
    """The places for connections of one way in, by token and by address."""

    def __init__(self, bounds: TerminalLimits) -> None:
        self._bounds = bounds
        self._open: Counter[str] = Counter()

    @contextmanager
    def reserve(self, token: str, address: str) -> Iterator[bool]:
        """Yield whether there is room for one more connection, which is counted until the block ends."""
        bounds = self._bounds
        if (
            self._open.total() >= 2 * bounds.in_all
            or self._open[token] >= bounds.per_token
            or self._open[address] >= bounds.per_address
        ):
            yield False
            return
        with count_one(self._open, token, address):
            yield True


class RemoteTerminals:
    """Admission of remote clients. The listener calls `receive`."""

    def __init__(
        self,
        gateway: ServingGateway,
        admission: Admission,
        clock: Clock,
        audit: Callable[[AuditEntry], None],
        greeting: Callable[[], str],
        bounds: TerminalLimits | None = None,
    ) -> None:
        self._serving = Serving(gateway, clock, greeting)
        self._admission = admission
        self._audit = audit
        self._places = ConnectionPlaces(bounds or TerminalLimits())
        self._ended = False

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Serve a client's connection, from its handshake to its last frame."""
        address = network_of(request.remote or "")
        if request.query_string:
            return web.Response(status=HTTPStatus.BAD_REQUEST, reason="No Query Here")
        try:
            name, token = await self._admission.admit(shown_token(request), address)
        except NotAdmitted as refusal:
            return refusal.response()
        if not web.WebSocketResponse().can_prepare(request):
            return web.Response(status=HTTPStatus.UPGRADE_REQUIRED, headers={"Upgrade": "websocket"})
        with self._places.reserve(f"token {name}", f"address {address}") as has_room:
            if not has_room or self._ended:
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "5"})
            return await self._serve(request, name, token, address)

    async def end(self) -> None:
        """Refuse new clients, and close all connections because the daemon ends."""
        self._ended = True
        await self._serving.end()

    async def _serve(self, request: web.Request, name: str, token: Token, address: str) -> web.StreamResponse:
        actor = Actor(token.user, REMOTE_ENTRY, name=token.user)
        log.info("a client connected as %s from %s with the token %s", token.user, address, name)
        self._audit(AuditEntry("client.attach", name, actor, address, rule=f"token {name}"))
        visitor = Peer(lambda _: actor, lambda: self._admission.tokens.objection(name, token), own_session(actor.key))
        return await self._serving.serve(request, visitor)


def owner_key(session: str) -> str:
    """Return the owner's actor key: `tui:<name>` of that session, or of his login in a session of another channel."""
    return session if session.startswith("tui:") else f"tui:{login_name()}"


@asynccontextmanager
async def serve_owner(
    listening: socket.socket,
    gateway: ServingGateway,
    clock: Clock,
    greeting: Callable[[], str],
    link: Callable[[str], Awaitable[str]] | None = None,
) -> AsyncIterator[Serving]:
    """Serve the owner's terminals, who come to `listening`, while the block runs. `link`: see `open_socket`."""
    serving = Serving(gateway, clock, greeting)

    async def serve(request: web.Request) -> web.WebSocketResponse:
        _demand_owner(request)
        # No objection: the owner's rights may change, but not the access to the own machine.
        return await serving.serve(request, Peer(_owner, lambda: ""))

    async def make_link(request: web.Request) -> web.Response:
        _demand_owner(request)
        try:
            url = await link(request.query.get("user", "")) if link else ""
        except StateError as error:
            return web.Response(text=str(error), status=HTTPStatus.CONFLICT)
        return web.Response(text=url)

    application = web.Application()
    application.router.add_get(PATH, serve)
    application.router.add_post(LINK_PATH, make_link)
    application.on_shutdown.append(lambda _: serving.end())
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield serving
    finally:
        await runner.cleanup()


def _owner(session: str) -> Actor:
    return Actor(owner_key(session), "socket", owner=True, name=login_name())


def _demand_owner(request: web.Request) -> None:
    """Refuse another user's process: the kernel knows the uid of the one at the other end (unix(7), SO_PEERCRED)."""
    if request.transport is not None:
        peer: socket.socket = request.transport.get_extra_info("socket")
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] == os.getuid():
            return
    raise web.HTTPForbidden(text="this socket belongs to another user")
