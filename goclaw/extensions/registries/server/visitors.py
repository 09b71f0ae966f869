"""Callers of the registry and their rights: any valid token reads; admins and publishers also publish.

A token identifies its user (`auth.tokens`), users.json and `registry_server.publishers` have the rights, at
every request. The rules are those of terminals over TCP (`servers.admission`). A refusal is an HTTP status and a text
as JSON, which holds nothing of the request.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from aiohttp import web

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Tokens
from goclaw.common.auth.users import Users
from goclaw.common.config.policies import ADMIN
from goclaw.common.config.registries import RegistryServerSettings
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.gateway.servers.admission import Admission, FailureLimits, Failures, NotAdmitted, shown_token
from goclaw.gateway.servers.connections import network_of
from goclaw.gateway.servers.http import HEADERS

_WORDS: Mapping[int, str] = {
    HTTPStatus.FORBIDDEN: "web pages may not call this registry",
    HTTPStatus.NOT_FOUND: "this address does not exist",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address does not accept this method",
    HTTPStatus.REQUEST_TIMEOUT: "the entry did not arrive in time",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the entry is too large",
    HTTPStatus.MISDIRECTED_REQUEST: "this registry does not answer to this host name (`registry_server.hosts`)",
}
"""The texts of the listener's own refusals."""


class RequestRefused(Exception):
    """A refused request. The message is for the people who sent it."""

    def __init__(self, status: HTTPStatus, words: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.headers = headers or {}

    def response(self) -> web.Response:
        """Return the response."""
        return web.json_response({"error": str(self)}, status=self.status, headers={**HEADERS, **self.headers})


def refused(refusal: web.HTTPException) -> web.Response:
    """Return the same for a refusal of the listener."""
    words = _WORDS.get(refusal.status, "this request cannot be answered")
    allow = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else {}
    return RequestRefused(HTTPStatus(refusal.status), words, allow).response()


ENTRY = "registry"
"""The way in, as `Actor.entry` names it."""


@record
class RegistryUser:
    """The user of a token."""

    token: str
    """The token's name."""
    user: str
    """The key in users.json."""
    address: str
    is_admin: bool
    publishes: str
    """The rule by which the user publishes; empty: not at all."""

    @property
    def actor(self) -> Actor:
        """Return the actor for the audit log."""
        return Actor(self.user, ENTRY, name=self.user)


class Visitors:
    """Authentication of callers."""

    def __init__(
        self,
        settings: RegistryServerSettings,
        users: Users,
        tokens: Tokens,
        clock: Clock,
        audit: Callable[[AuditEntry], None],
    ) -> None:
        self._settings = settings
        self._users = users
        self._admission = Admission(tokens, clock, audit, ENTRY)
        self._refused = Failures(FailureLimits(), clock)
        """Addresses whose changes were refused, each with its user: behind a proxy all callers have one address."""

    async def reader(self, request: web.Request) -> None:
        """Check that the caller may read. Raises `RequestRefused` without a valid token."""
        if not self._settings.open or "Authorization" in request.headers:
            await self.identify(request)

    async def identify(self, request: web.Request) -> RegistryUser:
        """Return the caller. Raises `RequestRefused` if the user is not listed in users.json."""
        address = network_of(request.remote or "")
        try:
            name, token = await self._admission.admit(shown_token(request), address)
        except NotAdmitted as refusal:
            raise RequestRefused(refusal.status, str(refusal), refusal.headers) from None
        user = self._users.get(token.user)
        if user is None:
            raise RequestRefused(HTTPStatus.FORBIDDEN, "the user of this token is no longer in users.json")
        rule = ""
        if ADMIN in user.roles:
            rule = f"users.json {user.key} role {ADMIN}"
        elif user.key in self._settings.publishers:
            rule = "registry_server.publishers"
        return RegistryUser(name, user.key, address, ADMIN in user.roles, rule)

    def may_change(self, visitor: RegistryUser) -> None:
        """Check that not too many of the caller's changes were refused lately. Raises `RequestRefused`."""
        if seconds := self._refused.wait(f"{visitor.address} {visitor.user}"):
            words = "too many refused changes from here; wait a minute"
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, words, {"Retry-After": str(int(seconds) + 1)})

    def count_refusal(self, visitor: RegistryUser) -> None:
        """Count a change that was refused."""
        self._refused.note(f"{visitor.address} {visitor.user}")
