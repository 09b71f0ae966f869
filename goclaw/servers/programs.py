"""Programs that call with an access token, on any protocol: who they are, whether they may stay, and their bounds.

Used by the rooms `openai` and `api`, each of which gives refusals (`NotAdmitted`) the shape of its protocol.
"""

import hashlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Literal

from aiohttp import web

from goclaw.auth.access import Access, own_session
from goclaw.auth.audit import AuditEntry
from goclaw.auth.tokens import Token
from goclaw.core.clock import Clock
from goclaw.core.events import Actor
from goclaw.core.records import record
from goclaw.servers.admission import Admission, NotAdmitted, shown_token
from goclaw.servers.connections import network_of
from goclaw.servers.terminals import REMOTE_ENTRY

MINUTE = 60.0


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


class Programs:
    """Admission of programs on one way in."""

    def __init__(
        self,
        admission: Admission,
        access: Access,
        audit: Callable[[AuditEntry], None],
        clock: Clock,
        limits: ProgramLimits | None = None,
        right: Literal["session.read", "session.write"] = "session.write",
    ) -> None:
        """`right`: the right to their own session without which users may not come in."""
        self._admission = admission
        self._access = access
        self._audit = audit
        self._clock = clock
        self._limits = limits or ProgramLimits()
        self._right = right
        self._at_work: Counter[str] = Counter()
        self._minute = 0.0
        self._in_minute: Counter[str] = Counter()

    async def admit(self, request: web.Request) -> Program:
        """Return the program that sends a request.

        Raises:
            NotAdmitted: 401, 403 if its user has no rights, or 429 after too many failures or requests.
        """
        name, token = await self._admission.admit(shown_token(request), network_of(request.remote or ""))
        program = Program(name, token, Actor(token.user, REMOTE_ENTRY, name=token.user))
        if rule := self.objection(program):
            entry = AuditEntry("client.attach", name, program.actor, request.remote or "", allowed=False, rule=rule)
            self._audit(entry)
            raise NotAdmitted(HTTPStatus.FORBIDDEN, {}, f"the user of this token may not do this: {rule}")
        self._count_in_minute(program)
        return program

    def objection(self, program: Program) -> str:
        """Return why a program may not stay; empty: it may."""
        if said := self._admission.tokens.objection(program.name, program.token):
            return said
        decision = self._access.authorize(program.actor, self._right, self.home(program.actor))
        return "" if decision.allowed else decision.rule

    def home(self, actor: Actor) -> str:
        """Return the actor's own session."""
        return self._access.session_for(actor, own_session(actor.key))

    @contextmanager
    def counted(self, program: Program) -> Iterator[None]:
        """Count a request of the program until the block ends. Raises NotAdmitted: 429, too many are at work."""
        if self._at_work[program.name] >= self._limits.at_once:
            words = f"{self._limits.at_once} requests with this token are at work already"
            raise NotAdmitted(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"}, words)
        self._at_work[program.name] += 1
        try:
            yield
        finally:
            self._at_work[program.name] -= 1
            if not self._at_work[program.name]:
                del self._at_work[program.name]

    def _count_in_minute(self, program: Program) -> None:
        if self._limits.per_minute is None:
            return
        now = self._clock.monotonic()
        if now >= self._minute + MINUTE:
            self._minute = now
            self._in_minute.clear()
        self._in_minute[program.name] += 1
        if self._in_minute[program.name] > self._limits.per_minute:
            again = {"Retry-After": str(int(self._minute + MINUTE - now) + 1)}
            words = f"a token has {self._limits.per_minute} requests in a minute"
            raise NotAdmitted(HTTPStatus.TOO_MANY_REQUESTS, again, words)


def digits_of(user: str, session: str, key: str) -> str:
    """Return 32 hex digits for a request: the same for the same `key` of the user, any others without a key.

    An `Inbound` whose id is made of them is known to the journal when it is sent again, also after a restart.
    """
    named = f"{user}\n{session}\n{key}" if key else uuid.uuid4().hex
    return hashlib.sha256(named.encode(errors="replace")).hexdigest()[:32]
