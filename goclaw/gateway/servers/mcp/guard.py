"""Authentication and limits of MCP over HTTP: an access token is required, foreign pages are refused, sizes bounded.

All before a body is read, by the same rules as for terminals (`servers.http`, `servers.admission`), on the
library's kind of application (ASGI). A token only identifies its user; users.json has the rights. Connections of a
removed token are cut within two seconds.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Token, Tokens
from goclaw.common.config.listening import is_loopback
from goclaw.common.config.mcp import McpServerSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask, printable
from goclaw.gateway.servers.admission import Admission, NotAdmitted, token_in
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import HEADERS, MAX_LOGGED, names_us
from goclaw.gateway.servers.mcp.backend import ENTRY

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Seconds between two checks whether connected clients may stay."""
ACTOR = "goclaw.actor"
"""Key in the scope of a request: the actor that it is made for."""
GONE = "goclaw.gone"
"""Key in the scope of a request: an event set when it has ended. The library does not cancel calls of older clients."""
_LENGTH = re.compile(rb"[0-9]{1,15}")


@record
class GuardLimits:
    """The bounds of one caller; fields for tests."""

    body_bytes: int = 4 << 20
    """Includes a file that is written with a call."""
    body_seconds: float = 10.0
    per_token: int = 32
    """Requests at once; one of a client's stays open for notifications."""
    in_all: int = 128


class _Refused(Exception):
    """A request that is refused."""

    def __init__(self, status: HTTPStatus, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.headers = dict(headers or {})


class RequestGuard:
    """An ASGI application that checks requests before the wrapped one."""

    def __init__(
        self,
        inner: ASGIApp,
        settings: McpServerSettings,
        tokens: Tokens,
        clock: Clock,
        audit: Callable[[AuditEntry], None],
        caps: GuardLimits | None = None,
    ) -> None:
        self._inner = inner
        self._settings = settings
        self._tokens = tokens
        self._clock = clock
        self._caps = caps or GuardLimits()
        self._admission = Admission(tokens, clock, audit, ENTRY)
        self._names = settings.names
        self._open: Counter[str] = Counter()
        self._requests: dict[asyncio.Task[Any], tuple[str, Token]] = {}
        self._cut: set[asyncio.Task[Any]] = set()
        self._ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        try:
            name, token = await self._admit(scope)
            with self._count(name):
                status = await self._serve(scope, receive, send, name, token)
        except _Refused as refusal:
            await _refuse(send, refusal)
            status = refusal.status
        _log_access(scope, status)

    def end(self) -> None:
        """Refuse new requests, and cut connected clients off."""
        self._ended = True
        for task in self._requests:
            self._cut.add(task)
            task.cancel()

    async def look_after(self) -> None:
        """Cut clients off that may not stay any more, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for task, (name, token) in list(self._requests.items()):
                if reason := self._tokens.objection(name, token):
                    log.info("disconnecting an MCP client of %s: %s", token.user, reason)
                    self._cut.add(task)
                    task.cancel()

    async def _admit(self, scope: Scope) -> tuple[str, Token]:
        """Return the name of the token that the request shows, and the token. The body is not read yet."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        named = _values(headers, b"host")
        if len(named) != 1 or not names_us(named[0], self._settings.host, self._names):
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST)
        if any(origin.lower() not in self._settings.origins for origin in _values(headers, b"origin")):
            raise _Refused(HTTPStatus.FORBIDDEN)
        if scope["query_string"]:
            raise _Refused(HTTPStatus.BAD_REQUEST)  # a token in it would be in logs and histories
        shown, address = token_in(_values(headers, b"authorization")), (scope.get("client") or ("",))[0]
        try:
            name, token = await self._admission.admit(shown, network_of(address))
        except NotAdmitted as refusal:
            raise _Refused(refusal.status, refusal.headers) from None
        for length in _values(headers, b"content-length"):
            if not _LENGTH.fullmatch(length.encode()) or int(length) > self._caps.body_bytes:
                raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        return name, token

    async def _serve(self, scope: Scope, receive: Receive, send: Send, name: str, token: Token) -> int:
        """Pass the request on as its user's, while its token is valid."""
        scope[ACTOR] = Actor(token.user, ENTRY, name=token.user)
        scope[GONE] = asyncio.Event()
        # The library separates the sessions of its older protocol by this: each belongs to the user that opened it.
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=name, scopes=[], subject=token.user))
        answer = _Answer(send)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- whatever awaits is one
        self._requests[task] = (name, token)
        try:
            await self._inner(scope, _Body(receive, self._caps), answer)
        except asyncio.CancelledError:
            if task not in self._cut:
                raise
            task.uncancel()
            await answer.end(HTTPStatus.UNAUTHORIZED)
        except TimeoutError:
            await answer.end(HTTPStatus.REQUEST_TIMEOUT)
        finally:
            scope[GONE].set()
            self._requests.pop(task, None)
            self._cut.discard(task)
        return answer.status

    @contextmanager
    def _count(self, name: str) -> Iterator[None]:
        if self._ended or self._open[name] >= self._caps.per_token or self._open.total() >= self._caps.in_all:
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "5"})
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


class _Body:
    """A request's body with a time limit."""

    def __init__(self, receive: Receive, caps: GuardLimits) -> None:
        self._receive = receive
        self._until = asyncio.get_running_loop().time() + caps.body_seconds
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        # The event loop's own time, which the server uses for all connections.
        async with asyncio.timeout_at(self._until):
            message = await self._receive()
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message


class _Answer:
    """A response in progress, without the headers that name a program."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self._over = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            ours = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}
            given = [each for each in message.get("headers", ()) if each[0].lower() not in (*ours, b"server")]
            message = {**message, "headers": [*given, *ours.items()]}
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._over = True
        await self._send(message)

    async def end(self, status: HTTPStatus) -> None:
        """End the response; with this status if none was sent yet."""
        if not self.status:
            await self({"type": "http.response.start", "status": status.value, "headers": [(b"content-length", b"0")]})
        if not self._over:
            await self({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, refusal: _Refused) -> None:
    """Refuse without a body: nothing of the request is echoed."""
    headers = {"Content-Length": "0", "Connection": "close", **HEADERS, **refusal.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status.value, "headers": raw})
    await send({"type": "http.response.body", "body": b""})


def _values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in headers if each.lower() == name]


def _log_access(scope: Scope, status: int) -> None:
    path = " ".join(mask(printable(str(scope["path"])[:MAX_LOGGED])).split())
    log.info("%s %s from %s: %d", scope["method"], path, (scope.get("client") or ("",))[0], status)


def warning_of(settings: McpServerSettings) -> str:
    """Return a warning about the listener's settings, for the operator; empty: none."""
    if is_loopback(settings.host):
        return ""
    return "other machines reach the MCP listener without encryption: put a reverse proxy with TLS in front of it"
