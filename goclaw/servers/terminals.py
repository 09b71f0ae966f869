"""The two ways in for terminals: TCP with an access token, and the Unix socket in the state folder.

A client over TCP acts as the user of its token, whose rights are looked up in users.json at every use. `servers.http`
has checked Host, Origin and sizes. The token comes in the header `Authorization` only: addresses end up in logs and
histories, so one with a query is refused. A client on the socket must have the daemon's own uid, as the kernel reports
it, and acts as the owner; `servers.socket_file` has the file. `servers.serving` handles both connections from there.
"""

import logging
import os
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import web

from goclaw.auth.access import own_session
from goclaw.auth.audit import AuditEntry
from goclaw.auth.tokens import Token, Tokens
from goclaw.auth.users import login_name
from goclaw.core.clock import Clock
from goclaw.core.events import Actor
from goclaw.core.records import BoundedDict, record
from goclaw.core.wire import PATH
from goclaw.servers.connections import network_of
from goclaw.servers.serving import Peer, Serving, ServingGateway

log = logging.getLogger(__name__)


REMOTE_ENTRY = "http"
"""The way in, as `Actor.entry` names it."""
BEARER = re.compile(r"Bearer ([A-Za-z0-9._~+/=-]{1,200})", re.ASCII)
CHALLENGE = {"WWW-Authenticate": "Bearer"}


@record
class TerminalLimits:
    """The limits of one caller; fields for tests."""

    per_token: int = 8
    """Connections at once: a person's terminals, not a program that forgets to close them."""
    per_address: int = 32
    in_all: int = 64
    """Fewer than the listener has, so that probes and the webhook still come in."""
    failures: int = 10
    """Failed attempts of an address per minute; further ones are refused with 429.

    A valid token comes in all the same: 256 bits are not guessed, and behind a proxy all callers have one address,
    where any of them could otherwise lock out the rest.
    """
    window_seconds: float = 60.0
    addresses: int = 1_000
    """Addresses that are remembered because of their failures."""


@dataclass(slots=True)
class _Failed:
    times: int
    until: float


class Failures:
    """Addresses without a valid token, the latest last."""

    def __init__(self, bounds: TerminalLimits, clock: Clock) -> None:
        self._bounds = bounds
        self._clock = clock
        self._failed: BoundedDict[str, _Failed] = BoundedDict(bounds.addresses)

    def wait(self, address: str) -> float:
        """Return the seconds for which an address with too many failures has to wait; 0 for any other."""
        failed = self._failed.get(address)
        if failed is None or failed.times < self._bounds.failures:
            return 0.0
        return max(0.0, failed.until - self._clock.monotonic())

    def note(self, address: str) -> tuple[int, float]:
        """Count one more failure: return how many there were, and for how many seconds they count."""
        now = self._clock.monotonic()
        failed = self._failed.get(address)
        if failed is None or failed.until <= now:
            failed = _Failed(0, now + self._bounds.window_seconds)
        failed.times += 1
        self._failed[address] = failed
        return failed.times, failed.until - now


class RemoteTerminals:
    """Admission of remote clients. The listener calls `receive`."""

    def __init__(
        self,
        gateway: ServingGateway,
        tokens: Tokens,
        clock: Clock,
        audit: Callable[[AuditEntry], None],
        greeting: Callable[[], str],
        bounds: TerminalLimits | None = None,
    ) -> None:
        self._serving = Serving(gateway, clock, greeting)
        self._tokens = tokens
        self._audit = audit
        self._bounds = bounds or TerminalLimits()
        self._failures = Failures(self._bounds, clock)
        self._open: Counter[str] = Counter()
        self._ended = False

    async def receive(self, request: web.Request) -> web.StreamResponse:
        """Serve a client's connection, from its handshake to its last frame."""
        address = network_of(request.remote or "")
        if request.query_string:
            return web.Response(status=HTTPStatus.BAD_REQUEST, reason="No Query Here")
        name = await self._tokens.find_new(shown_token(request))
        token = self._tokens.get(name)
        if token is None:
            return self._refuse(address)
        if not web.WebSocketResponse().can_prepare(request):
            return web.Response(status=HTTPStatus.UPGRADE_REQUIRED, headers={"Upgrade": "websocket"})
        with self._counted(f"token {name}", f"address {address}") as has_room:
            if not has_room or self._ended:
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "5"})
            return await self._serve(request, name, token, address)

    async def end(self) -> None:
        """Refuse new clients, and close all connections because the daemon ends."""
        self._ended = True
        await self._serving.end()

    async def _serve(self, request: web.Request, name: str, token: Token, address: str) -> web.StreamResponse:
        actor = Actor(token.user, REMOTE_ENTRY, name=token.user)
        log.info("a client came in as %s from %s with the token %s", token.user, address, name)
        self._audit(AuditEntry("client.attach", name, actor, address, rule=f"token {name}"))
        visitor = Peer(lambda _: actor, lambda: self._tokens.objection(name, token), own_session(actor.key))
        return await self._serving.serve(request, visitor)

    def _refuse(self, address: str) -> web.StreamResponse:
        times, seconds = self._failures.note(address)
        if times in (1, self._bounds.failures + 1):
            # Not each: a million attempts write no million lines.
            log.warning("somebody at %s has no valid access token (try %d in a minute)", address, times)
            self._audit(
                AuditEntry(
                    "client.attach", address, Actor("", REMOTE_ENTRY), allowed=False, rule="no valid access token"
                )
            )
        if times > self._bounds.failures:
            headers = {"Retry-After": str(int(seconds) + 1)}
            return web.Response(status=HTTPStatus.TOO_MANY_REQUESTS, headers=headers)
        return web.Response(status=HTTPStatus.UNAUTHORIZED, headers=CHALLENGE)

    @contextmanager
    def _counted(self, token: str, address: str) -> Iterator[bool]:
        """Yield whether there is room for one more connection, which is counted until the block ends."""
        bounds, both = self._bounds, (token, address)
        if (
            self._open.total() >= 2 * bounds.in_all
            or self._open[token] >= bounds.per_token
            or self._open[address] >= bounds.per_address
        ):
            yield False
            return
        self._open.update(both)
        try:
            yield True
        finally:
            self._open.subtract(both)
            for each in both:
                if not self._open[each]:
                    del self._open[each]


def shown_token(request: web.Request) -> str:
    """Return the token that a request shows; empty without one, or with more than one."""
    shown = request.headers.getall("Authorization", [])
    found = BEARER.fullmatch(shown[0]) if len(shown) == 1 else None
    return found[1] if found else ""


def owner_key(session: str) -> str:
    """Return the owner's actor key: `tui:<name>` of that session, or of his login in a session of another channel."""
    return session if session.startswith("tui:") else f"tui:{login_name()}"


@asynccontextmanager
async def serve_owner(
    listening: socket.socket, gateway: ServingGateway, clock: Clock, greeting: Callable[[], str]
) -> AsyncIterator[Serving]:
    """Serve the owner's terminals, who come to `listening`, while the block runs."""
    serving = Serving(gateway, clock, greeting)

    async def serve(request: web.Request) -> web.WebSocketResponse:
        if _peer_uid(request) != os.getuid():
            raise web.HTTPForbidden(text="this socket belongs to another user")
        return await serving.serve(request, Peer(_owner, _always_welcome))

    async def end(_: web.Application) -> None:
        await serving.end()

    application = web.Application()
    application.router.add_get(PATH, serve)
    application.on_shutdown.append(end)
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield serving
    finally:
        await runner.cleanup()


def _owner(session: str) -> Actor:
    return Actor(owner_key(session), "socket", owner=True, name=login_name())


def _peer_uid(request: web.Request) -> int:
    """Return the uid of the process at the other end, from the kernel (unix(7), SO_PEERCRED)."""
    transport = request.transport
    if transport is None:
        return -1
    peer: socket.socket = transport.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _always_welcome() -> str:
    """Return no objection: the owner's rights may change, but not the access to the own machine."""
    return ""
