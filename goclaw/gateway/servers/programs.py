"""Programs that call with an access token, on any protocol: who they are, whether they may stay, and their bounds.

Used by the rooms `openai`, `api` and `web`, each giving refusals (`NotAdmitted`) the shape of its protocol. A
device of the web page is a program, too: it shows its token as a cookie.
"""

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, Protocol

from aiohttp import hdrs, web

from goclaw.common.auth.access import Access, own_session
from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Token
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.gateway.servers.admission import Admission, NotAdmitted, shown_token
from goclaw.gateway.servers.connections import count_one, network_of
from goclaw.gateway.servers.terminals import REMOTE_ENTRY

MINUTE = 60.0
DEVICE_ENTRY = "web"
"""The way in of devices, as `Actor.entry` names it."""


class Cookies(Protocol):
    """The cookies of the web page (`servers.web.cookies`)."""

    def secret_in(self, request: web.Request) -> str:
        """Return the secret in a request's cookie; empty: it has none."""

    def check(self, request: web.Request, secret: str) -> None:
        """Raise NotAdmitted (403) if the request does not come from our own page."""


@record
class Program:
    """The program that sent a request, as the user of its token."""

    name: str
    """The token's name."""
    token: Token
    actor: Actor


@record
class ProgramLimits:
    """The limits of one token."""

    at_once: int = 16
    """Requests at work at the same time."""
    per_minute: int | None = None
    """Requests in a minute; None: any number."""


@dataclass(eq=False)
class Programs:
    """Admission of programs on one way in."""

    admission: Admission
    access: Access
    audit: Callable[[AuditEntry], None]
    clock: Clock
    limits: ProgramLimits = field(default_factory=ProgramLimits)
    right: Literal["session.read", "session.write"] = "session.write"
    """The right to their own session without which users may not come in."""
    cookies: Cookies | None = None
    """Where a cookie counts as a token does; None: it does not."""

    def __post_init__(self) -> None:
        self._at_work, self._in_minute = Counter[str](), Counter[str]()
        self._minute = 0.0

    async def admit(self, request: web.Request) -> Program:
        """Return the program that sends a request.

        Raises:
            NotAdmitted: 401, 403 if its user has no rights or another page caused it, or 429 after too many failures
                or requests.
        """
        secret, is_device = shown_token(request), False
        if self.cookies and hdrs.AUTHORIZATION not in request.headers and (found := self.cookies.secret_in(request)):
            self.cookies.check(request, found)
            secret, is_device = found, True
        name, token = await self.admission.admit(secret, network_of(request.remote or ""), device=is_device)
        program = Program(name, token, actor_of(token))
        if rule := self.objection(program):
            entry = AuditEntry("client.attach", name, program.actor, request.remote or "", allowed=False, rule=rule)
            self.audit(entry)
            raise NotAdmitted(HTTPStatus.FORBIDDEN, {}, f"the user of this token may not do this: {rule}")
        self._count_in_minute(program)
        return program

    def objection(self, program: Program) -> str:
        """Return why a program may not stay; empty: it may."""
        if said := self.admission.tokens.objection(program.name, program.token):
            return said
        return self.missing_right(program.actor)

    def missing_right(self, actor: Actor) -> str:
        """Return why a user may not come in; empty: they may."""
        return self.access.missing(actor, self.right, self.home(actor))

    def home(self, actor: Actor) -> str:
        """Return the actor's own session."""
        return self.access.session_for(actor, own_session(actor.key))

    @contextmanager
    def count(self, program: Program) -> Iterator[None]:
        """Count a request of the program until the block ends. Raises NotAdmitted: 429, too many are at work."""
        if self._at_work[program.name] >= self.limits.at_once:
            words = f"{self.limits.at_once} requests with this token are already running"
            raise NotAdmitted(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"}, words)
        with count_one(self._at_work, program.name):
            yield

    def _count_in_minute(self, program: Program) -> None:
        if self.limits.per_minute is None:
            return
        now = self.clock.monotonic()
        if now >= self._minute + MINUTE:
            self._minute = now
            self._in_minute.clear()
        self._in_minute[program.name] += 1
        if self._in_minute[program.name] > self.limits.per_minute:
            again = {"Retry-After": str(int(self._minute + MINUTE - now) + 1)}
            words = f"a token may make {self.limits.per_minute} requests per minute"
            raise NotAdmitted(HTTPStatus.TOO_MANY_REQUESTS, again, words)


def actor_of(token: Token) -> Actor:
    """Return the actor that a token stands for: its user; the owner only for a device that the owner let in."""
    entry = DEVICE_ENTRY if token.device else REMOTE_ENTRY
    return Actor(token.user, entry, owner=bool(token.device) and token.owner, name=token.user)


def digits_of(user: str, session: str, key: str) -> str:
    """Return 32 hex digits for a request: the same for the same `key` of the user, any others without a key.

    An `Inbound` with an id made of them is known to the journal when it is sent again, also after a restart.
    """
    named = f"{user}\n{session}\n{key}" if key else uuid.uuid4().hex
    return hashlib.sha256(named.encode(errors="replace")).hexdigest()[:32]
