"""Admission by access token: one rule for terminals over TCP, programs, MCP clients and the registry.

The token comes in the header `Authorization` only: addresses end up in logs and histories. It identifies a user of
users.json; the user's rights are looked up at every use. An address that shows invalid tokens too often has to wait.
"""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.tokens import Token, Tokens
from goclaw.common.core.clock import Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import BoundedDict, record

log = logging.getLogger(__name__)

BEARER = re.compile(r"(?i:Bearer) +([A-Za-z0-9._~+/=-]{1,200})", re.ASCII)
"""The scheme has no case (RFC 9110, 11.1)."""
CHALLENGE = {"WWW-Authenticate": "Bearer"}
WORDS = "a valid access token is required, as `Authorization: Bearer TOKEN` (`goclaw token add` creates one)"


@record
class FailureLimits:
    """The limits of callers without a valid token; fields for tests."""

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

    def __init__(self, limits: FailureLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._failed: BoundedDict[str, _Failed] = BoundedDict(limits.addresses)

    def wait(self, address: str) -> float:
        """Return the seconds for which an address with too many failures has to wait; 0 for any other."""
        failed = self._failed.get(address)
        if failed is None or failed.times < self._limits.failures:
            return 0.0
        return max(0.0, failed.until - self._clock.monotonic())

    def note(self, address: str) -> tuple[int, float]:
        """Count one more failure: return how many there were, and for how many seconds they count."""
        now = self._clock.monotonic()
        failed = self._failed.get(address)
        if failed is None or failed.until <= now:
            failed = _Failed(0, now + self._limits.window_seconds)
        failed.times += 1
        self._failed[address] = failed
        return failed.times, failed.until - now


class NotAdmitted(Exception):
    """A caller without a valid token. The message is for the caller."""

    def __init__(self, status: HTTPStatus, headers: Mapping[str, str], words: str) -> None:
        super().__init__(words)
        self.status = status
        self.headers = headers

    def response(self) -> web.Response:
        """Return the answer without a body."""
        return web.Response(status=self.status, headers=self.headers)


@dataclass(eq=False)
class Admission:
    """The check of the callers of one way in."""

    tokens: Tokens
    clock: Clock
    audit: Callable[[AuditEntry], None]
    entry: str
    """The way in, as `Actor.entry` names it."""
    limits: FailureLimits = field(default_factory=FailureLimits)

    def __post_init__(self) -> None:
        self._failures = Failures(self.limits, self.clock)
        self._without_token = Failures(self.limits, self.clock)

    async def admit(self, secret: str, address: str, *, device: bool = False) -> tuple[str, Token]:
        """Return the name of the token with this secret, and the token.

        `address`: the caller's network (`connections.network_of`). `device`: whether a browser shows it as its cookie;
        only a device's is valid there, and is so nowhere else.

        Raises:
            NotAdmitted: 401, or 429 after too many failures with a token.
        """
        if not secret:  # no guess: it is on record, and has to wait for nothing
            self._record(address, self._without_token.note(address)[0])
            raise NotAdmitted(HTTPStatus.UNAUTHORIZED, CHALLENGE, WORDS)
        name = await self.tokens.find_new(secret)
        token = self.tokens.get(name)
        if token is None or bool(token.device) is not device:
            raise self.refuse(address)
        return name, token

    def refuse(self, address: str, words: str = WORDS) -> NotAdmitted:
        """Count a caller's failed try, and return its refusal: 401 with `words`, or 429 after too many."""
        times, seconds = self._failures.note(address)
        self._record(address, times)
        if times > self.limits.failures:
            again = {"Retry-After": str(int(seconds) + 1)}
            too_many = "too many attempts without a valid access token; wait a minute"
            return NotAdmitted(HTTPStatus.TOO_MANY_REQUESTS, again, too_many)
        return NotAdmitted(HTTPStatus.UNAUTHORIZED, CHALLENGE, words)

    def _record(self, address: str, times: int) -> None:
        """Write a failed try into the log and the audit log: the first, and the one that is too much."""
        if times in (1, self.limits.failures + 1):
            # Not each: a million attempts write no million lines.
            log.warning(
                "a caller at %s (%s) has no valid access token: attempt %d within a minute", address, self.entry, times
            )
            self.audit(
                AuditEntry("client.attach", address, Actor("", self.entry), allowed=False, rule="no valid access token")
            )


def shown_token(request: web.Request) -> str:
    """Return the token that a request shows; empty without one, or with more than one."""
    values = request.headers.getall("Authorization", [])
    found = BEARER.fullmatch(values[0]) if len(values) == 1 else None
    return found[1] if found else ""
