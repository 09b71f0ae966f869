"""Logins of the web page that a person lets in elsewhere: by the code that the page shows, or by a one-time link.

A code is shown to anyone who opens the page, and is worth nothing: the page's own secret, which no other has, is let in
by it. So a person should approve only the code of a page in front of them, and is told which browser it is, and where.
Nothing here is kept over a restart: a page asks for a new code. Of several processes on one store all know the same
codes and links (`shared_web_logins`).
"""

import asyncio
import hmac
import logging
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from goclaw.auth.audit import AuditEntry
from goclaw.auth.pairing import ALPHABET, CODE_SECONDS, LENGTH, TRIES
from goclaw.auth.tokens import MARK, TOKEN_BYTES, digest_of
from goclaw.core.clock import Clock
from goclaw.core.container import daemon_command
from goclaw.core.events import Actor
from goclaw.core.records import BoundedDict, record
from goclaw.core.supervise import ends_within

log = logging.getLogger(__name__)

REQUEST_SECONDS = 300.0
"""Seconds for which a page's code is good: to fetch a phone and write it there."""
LINK_SECONDS = 60.0
"""Seconds for which a link is good: until a browser has opened it."""
MAX_REMEMBERED = 1_000
"""People who tried wrong codes, that are remembered."""
OFF = (
    f"the web page is off: set `http.web: true` in the configuration and {daemon_command('restart')} (docs/web-page.md)"
)
NO_PERSON = "Pages are let in, or turned away, from a chat or from a terminal on the daemon's own machine."
SOCKET = "socket"
"""The way in of the owner's terminals."""
WITH_TOKEN = ("http", "web")
"""The ways in with a token; a key of users.json may begin with them, as with any word."""


@record
class LoginLimits:
    """The bounds of what strangers may ask; fields for tests."""

    per_address: int = 5
    """Open codes of one network; a further one takes the place of the oldest."""
    in_all: int = 100
    links: int = 100
    told_per_minute: int = 10
    """Requests that are shown to the owner; others wait for their code all the same."""


@record
class LoginRequest:
    """A page that asks to be let in."""

    code: str
    browser: str
    """In words of ours: nothing that the caller wrote."""
    address: str
    is_here: bool
    """Whether the browser runs on the daemon's machine, as far as can be seen."""
    key: str = ""
    """Hash of the page's secret."""

    def __str__(self) -> str:
        return f"{self.browser} at {self.address}"


@record
class LetIn:
    """As whom a page is let in."""

    user: str
    owner: bool
    how: str
    """For the audit log."""


class LoginRefused(Exception):
    """The message says why, for the person who tried."""


class LoginOver(Exception):
    """A page's secret is unknown, used, denied, or too old."""


@dataclass(slots=True, eq=False)
class _Asking:
    request: LoginRequest
    network: str
    until: float
    """Monotonic."""
    let_in: LetIn | None = None
    is_over: bool = False
    """Whether it was denied, used, or forgotten."""
    waiting: asyncio.Future[None] | None = None
    """Ends the wait of the page when something has changed, or when it has come anew."""

    @property
    def is_open(self) -> bool:
        return self.let_in is None and not self.is_over

    def wake(self) -> None:
        if self.waiting and not self.waiting.done():
            self.waiting.set_result(None)


@dataclass(slots=True, eq=False)
class WebLogins:
    """The open codes and links of the daemon."""

    clock: Clock
    audit: Callable[[AuditEntry], None]
    tell: Callable[[LoginRequest], None]
    """Shows the request to the owner."""
    limits: LoginLimits = field(default_factory=LoginLimits)
    address: str = ""
    """Where the page is, since the listener is open."""
    _asking: dict[str, _Asking] = field(default_factory=dict)
    """By the hash of the page's secret, the oldest first."""
    _links: dict[str, tuple[LetIn, float]] = field(default_factory=dict)
    """By the hash of the code: whom it lets in, and until when, monotonic."""
    _told: tuple[int, float] = (0, 0.0)
    """Requests that were shown in this minute, and until when that is, monotonic."""
    _tries: BoundedDict[str, tuple[int, float]] = field(default_factory=lambda: BoundedDict(MAX_REMEMBERED))
    """Wrong codes by person: how many, and until when they count, monotonic."""

    async def ask(self, browser: str, address: str, network: str, *, is_here: bool) -> tuple[str, str]:
        """Return a new code for people and a secret for the page.

        `network`: what counts as one caller.

        Raises:
            LoginRefused: too many pages ask.
        """
        self._forget()
        own = [key for key, each in self._asking.items() if each.network == network]
        for oldest in own[: max(0, len(own) - self.limits.per_address + 1)]:
            self._end(oldest)
        self._check_room(len(self._asking), address)
        request, secret = new_request(browser, address, is_here=is_here)
        until = self.clock.monotonic() + REQUEST_SECONDS
        self._asking[request.key] = _Asking(request, network, until)
        self._tell(request)
        return request.code, secret

    async def wait(self, secret: str, seconds: float) -> LetIn | None:
        """Wait until the page with this secret is let in: once, then the secret is used up. None: not yet.

        Raises:
            LoginOver: it will not be let in.
        """
        self._forget()
        key = digest_of(secret)
        asking = self._asking.get(key)
        if asking is None:
            raise LoginOver
        asking.wake()  # an earlier wait of this page, whose connection may be broken, would take the answer
        waiting = asking.waiting = asyncio.get_running_loop().create_future()
        if asking.is_open:
            left = asking.until - self.clock.monotonic()
            await ends_within(waiting, self.clock, min(left, seconds))
            self._forget()
        if asking.is_over:
            raise LoginOver
        if asking.let_in is None or asking.waiting is not waiting:
            return None
        self._end(key)
        return asking.let_in

    async def find(self, by: Actor, code: str) -> LoginRequest:
        """Return the page that shows this code.

        Raises:
            LoginRefused: no page shows it, too many wrong codes came before, or this person cannot let any in.
        """
        if not is_a_person(by):
            raise LoginRefused(NO_PERSON)
        now, tried = self.clock.monotonic(), plain(code)
        times, until = self._tries.get(by.key, (0, 0.0))
        if until <= now:
            times, until = 0, now + CODE_SECONDS
        if times >= TRIES:
            raise LoginRefused(too_many(until - now))
        self._forget()
        found = None
        for each in self._asking.values():
            shown = plain(each.request.code)
            if hmac.compare_digest(shown.encode(), tried.encode(errors="replace")) and each.is_open:
                found = each.request
        if found is None:
            self._tries[by.key] = (times + 1, until)
            raise self._no_page(by)
        return found

    async def approve(self, by: Actor, request: LoginRequest, *, owner: bool = False) -> None:
        """Let in a page that was found, as the person who says so. `owner`: with the rights of the owner.

        Raises:
            LoginRefused: another person was quicker, or the page is gone meanwhile.
        """
        asking = self._of(request)
        asking.let_in = let_in_by(by, owner=owner)
        asking.wake()
        self._note(by, request, "web.approve", "ok")

    async def deny(self, by: Actor, request: LoginRequest) -> None:
        """Turn away a page that was found.

        Raises:
            LoginRefused: as `approve`.
        """
        asking = self._of(request)
        asking.is_over = True
        asking.wake()
        self._note(by, request, "web.deny", "ok")

    async def link(self, user: str, *, owner: bool) -> str:
        """Return the code of a new link, which lets in one browser as this user. Only the owner may ask for one."""
        self._forget()
        while len(self._links) >= self.limits.links:
            del self._links[next(iter(self._links))]
        code = MARK + secrets.token_urlsafe(TOKEN_BYTES)
        self._links[digest_of(code)] = LetIn(user, owner, "link"), self.clock.monotonic() + LINK_SECONDS
        self._note_link(user, owner=owner)
        return code

    async def look(self, code: str) -> LetIn | None:
        """Return whom a link would let in, which it still does then; None: it is unknown, used or too old."""
        self._forget()
        found = self._links.get(digest_of(code))
        return found[0] if found else None

    async def follow(self, code: str) -> LetIn | None:
        """Return whom a link lets in, and use it up; None: it is unknown, used or too old."""
        self._forget()
        found = self._links.pop(digest_of(code), None)
        return found[0] if found else None

    def wake(self) -> None:
        """End all waits, because the daemon ends."""
        for asking in self._asking.values():
            asking.wake()

    def _tell(self, request: LoginRequest) -> None:
        now = self.clock.monotonic()
        if now >= self._told[1]:
            self._told = 0, now + 60.0
        times, until = self._told
        self._told = times + 1, until
        if times < self.limits.told_per_minute:
            self.tell(request)

    def _of(self, request: LoginRequest) -> _Asking:
        return next(each for each in self._asking.values() if each.request is request)

    def _forget(self) -> None:
        """Forget what is over."""
        now = self.clock.monotonic()
        for key in [key for key, each in self._asking.items() if each.until <= now]:
            self._end(key)
        for key in [key for key, (_, until) in self._links.items() if until <= now]:
            del self._links[key]

    def _end(self, key: str) -> None:
        asking = self._asking.pop(key)
        asking.is_over = True
        asking.wake()

    def _check_room(self, asking: int, address: str) -> None:
        """Refuse a further page where so many ask."""
        if asking >= self.limits.in_all:
            log.warning("%d pages ask to be let in, so one at %s gets no code", asking, address)
            raise LoginRefused("too many pages ask to be let in now; try again in some minutes")

    def _no_page(self, by: Actor) -> LoginRefused:
        """Note a wrong code; returns its refusal."""
        self.audit(AuditEntry("web.approve", "code", by, allowed=False, rule="no such code"))
        return LoginRefused("No page shows this code now: it may be over (five minutes), used, or mistyped.")

    def _note_link(self, user: str, *, owner: bool) -> None:
        self.audit(AuditEntry("web.link", user, Actor(user, SOCKET, owner=owner), rule="owner of the state folder"))

    def _note(self, by: Actor, request: LoginRequest, action: Literal["web.approve", "web.deny"], result: str) -> None:
        self.audit(AuditEntry(action, str(request), by, rule="code of the page", result=result))


def new_request(browser: str, address: str, *, is_here: bool) -> tuple[LoginRequest, str]:
    """Return the request of a page, with a new code, and the page's new secret."""
    code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    secret = MARK + secrets.token_urlsafe(TOKEN_BYTES)
    return LoginRequest(f"{code[:4]}-{code[4:]}", browser, address, is_here, digest_of(secret)), secret


def let_in_by(person: Actor, *, owner: bool) -> LetIn:
    """Return as whom a page is let in by a person."""
    return LetIn(person.key, owner, f"code, approved by {person.key} via {person.entry}")


def too_many(seconds: float) -> str:
    """Return the refusal of a person whose next code is looked at after so many seconds."""
    return f"Too many wrong codes. Try again in {max(1, math.ceil(seconds / 60))} min."


def is_a_person(actor: Actor) -> bool:
    """Whether an actor writes in a chat of its own or at the owner's terminal.

    What came in by a token lets in nothing: a token that was stolen would outlive its end in the devices that it made.
    """
    own_channel = actor.entry == actor.key.partition(":")[0] and actor.entry not in WITH_TOKEN
    return bool(actor.key) and not actor.behalf and (own_channel or (actor.entry == SOCKET and actor.owner))


def is_code(text: str) -> bool:
    """Whether a text has the form of a page's code, which no question's id has."""
    found = plain(text)
    return len(found) == LENGTH and set(found) <= set(ALPHABET)


def plain(code: str) -> str:
    """Return a code without what people write into it."""
    return code.strip().upper().replace("-", "").replace(" ", "")
