"""Who may call over MCP: an access token is required, requests at once are bounded, revoked tokens end what is open.

The listener checks the rest (`servers.http`). A token only identifies its user; users.json has the rights.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from goclaw.channels.base import Handler
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Token, Tokens
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.gateway.servers.admission import Admission, NotAdmitted, shown_token
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import HEADERS
from goclaw.gateway.servers.mcp.backend import ENTRY

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Seconds between two checks whether connected clients may stay."""


@record
class GuardLimits:
    """The bounds on requests at the same time; fields for tests."""

    per_token: int = 32
    """One of a client's stays open for notifications."""
    in_all: int = 128


class ClientRequest:
    """A request of an MCP client, while it is answered."""

    def __init__(self, request: web.Request, name: str, token: Token) -> None:
        self.request = request
        self.name = name
        """The token's name."""
        self.token = token
        self.actor = Actor(token.user, ENTRY, name=token.user)
        self.gone = asyncio.Event()
        """Set when the request has ended. The library does not cancel calls of older clients."""
        self.limit = asyncio.timeout(None)
        self.response: web.StreamResponse | None = None
        """The answer, once it has begun."""

    async def begin_response(self, status: int, headers: dict[str, str]) -> web.StreamResponse:
        """Send the head of the answer, without the headers that name a program."""
        self.response = web.StreamResponse(status=status, headers={**headers, **HEADERS})
        await self.response.prepare(self.request)
        return self.response

    def cut(self) -> None:
        """End the request now."""
        if not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time())


Answering = Callable[[ClientRequest], Awaitable[web.StreamResponse]]


class RequestGuard:
    """The check of every request before the library sees it."""

    def __init__(
        self, tokens: Tokens, clock: Clock, audit: Callable[[AuditEntry], None], limits: GuardLimits | None = None
    ) -> None:
        self._tokens = tokens
        self._clock = clock
        self._limits = limits or GuardLimits()
        self._admission = Admission(tokens, clock, audit, ENTRY)
        self._open: set[ClientRequest] = set()
        self._ended = False

    @property
    def at_work(self) -> int:
        """The number of requests that are being answered."""
        return len(self._open)

    def protect(self, answer: Answering) -> Handler:
        """Return a handler that passes permitted requests on to `answer`."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.query_string:  # a token in it would be in logs and histories
                return web.Response(status=HTTPStatus.BAD_REQUEST, headers=HEADERS)
            try:
                name, token = await self._admission.admit(shown_token(request), network_of(request.remote or ""))
            except NotAdmitted as refusal:
                return web.Response(status=refusal.status, headers={**HEADERS, **refusal.headers})
            at_once = Counter(each.name for each in self._open)
            if self._ended or at_once[name] >= self._limits.per_token or at_once.total() >= self._limits.in_all:
                return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={**HEADERS, "Retry-After": "5"})
            return await self._serve(ClientRequest(request, name, token), answer)

        return handle

    def end(self) -> None:
        """Refuse new requests, and cut connected clients off."""
        self._ended = True
        for each in self._open:
            each.cut()

    async def end_revoked(self) -> None:
        """Cut clients off whose token is no longer valid, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for each in list(self._open):
                if reason := self._tokens.objection(each.name, each.token):
                    log.info("disconnecting an MCP client of %s: %s", each.token.user, reason)
                    each.cut()

    async def _serve(self, request: ClientRequest, answer: Answering) -> web.StreamResponse:
        self._open.add(request)
        try:
            async with request.limit:
                return await answer(request)
        except TimeoutError:
            if not request.limit.expired():
                raise
            if request.response is None:
                return web.Response(status=HTTPStatus.UNAUTHORIZED, headers=HEADERS)
            await request.response.write_eof()
            return request.response
        finally:
            request.gone.set()
            self._open.discard(request)
