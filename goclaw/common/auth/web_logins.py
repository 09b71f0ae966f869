"""Logins of the web page that a person lets in elsewhere: by the code that the page shows, or by a one-time link.

A code is shown to anyone who opens the page, and is worth nothing: the page's own secret, which no other has, is let in
by it. So a person should approve only the code of a page in front of them, and sees which browser it is, and where.

Each page that asks, the answer to it, each link and each wrong try is a stored fact of its own, so a code or link of
one process works at every process of the store. A row that lets a browser in is deleted by the one process that uses
it: the deletion succeeds once. An answer is a row of its own, and the first counts, so that a page that is gone
meanwhile does not come back. Times are the store's clock's.
"""

import asyncio
import hmac
import logging
import math
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from goclaw.common.auth.audit import AuditEntry
from goclaw.common.auth.invitations import ALPHABET, LENGTH
from goclaw.common.auth.pairing import count_try
from goclaw.common.auth.tokens import MARK, TOKEN_BYTES, digest_of
from goclaw.common.config.state import SharedFacts
from goclaw.common.core.clock import APART_SECONDS, Clock
from goclaw.common.core.events import Actor
from goclaw.common.core.records import record
from goclaw.common.core.supervise import ends_within
from goclaw.errors import StateError

log = logging.getLogger(__name__)

REQUEST_SECONDS = 300.0
"""Seconds for which a page's code is good: to fetch a phone and write it there."""
LINK_SECONDS = 60.0
"""Seconds for which a link is good: until a browser has opened it."""
NO_PERSON = "You can approve or refuse pages only in a chat, or in a terminal on the daemon's own machine."
SOCKET = "socket"
"""The way in of the owner's terminals."""
WITH_TOKEN = ("http", "web")
"""The ways in with a token; a key of users.json may begin with them, as with any word."""

PAGES_FACT = "web logins"
"""Name of the stored facts: pages that ask; the hash of the page's secret follows, and `ANSWER` of the answer to it."""
ANSWER = "answer"
LINKS_FACT = "web links"
"""Name of the stored facts: links; the hash of the code follows."""
TRIES_FACT = "web login tries"
"""Name of the stored facts: when each wrong code of a person is over; the person's key and a random number follow."""
KIND = "web-login"
"""Of what processes tell each other: that a page has its answer, or that it waits at another process now."""
DECIDED, WAITS = "decided", "waits"


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
class _Wait:
    """A page that waits at this process."""

    news: asyncio.Future[None]
    since: float
    """Epoch seconds: tells it from others of the page at this process."""
    is_told: bool = False
    """Whether this process has heard its own word of it: other waits that it hears of from here on are later."""
    is_old: bool = False
    """Whether the page now waits elsewhere or again: the answer is not for this wait."""

    def wake(self) -> None:
        if not self.news.done():
            self.news.set_result(None)


class News(Protocol):
    """Messages between the processes of one store; one may get lost."""

    def subscribe(self, kind: str, listener: Callable[[str], None], /) -> None: ...

    async def broadcast(self, kind: str, words: str, /) -> None:
        """Send words to every process, this one included."""
        ...


@dataclass(slots=True, eq=False)
class WebLogins:
    """The open codes and links of a store. All methods that wait raise `StateError` where the store cannot be used."""

    clock: Clock
    audit: Callable[[AuditEntry], None]
    tell: Callable[[LoginRequest], None]
    """Shows the request to the owner."""
    facts: SharedFacts
    gateway: str
    """Name of this process."""
    news: News
    """If a word gets lost, a page has its answer at the end of its wait."""
    limits: LoginLimits = field(default_factory=LoginLimits)
    address: str = ""
    """Where the page is, since the listener is open."""
    _waits: dict[str, _Wait] = field(default_factory=dict)
    """By the hash of the page's secret."""
    _told: tuple[int, float] = (0, 0.0)
    """Requests that were shown in this minute, and until when that is, monotonic."""

    def __post_init__(self) -> None:
        self.news.subscribe(KIND, self.on_message)

    async def ask(self, browser: str, address: str, network: str, *, is_here: bool) -> tuple[str, str]:
        """Return a new code for people and a secret for the page.

        `network`: what counts as one caller.

        Raises:
            LoginRefused: too many pages ask.
        """
        pages = await self._pages()
        own = [key for key, page in pages.items() if page["network"] == network]
        for oldest in own[: max(0, len(own) - self.limits.per_address + 1)]:
            await self._use_up(oldest)
            await self._spread(DECIDED, oldest)
            del pages[oldest]
        if len(pages) >= self.limits.in_all:
            log.warning("%d pages ask to be let in, so one at %s gets no code", len(pages), address)
            raise LoginRefused("too many pages are asking to sign in; try again in a few minutes")
        request, secret = new_request(browser, address, is_here=is_here)
        page = {
            "code": _digest(request.key, request.code),
            "browser": browser,
            "address": address,
            "network": network,
            "here": self.gateway if is_here else "",
            "until": self.clock.now() + REQUEST_SECONDS,
        }
        await self.facts.learn(_page_fact(request.key), page)
        self._publish(request)
        return request.code, secret

    async def wait(self, secret: str, seconds: float) -> LetIn | None:
        """Wait until the page with this secret is let in: once, then the secret is used up. None: not yet.

        Raises:
            LoginOver: it will not be let in.
        """
        key = digest_of(secret)
        until = (await self._page(key))["until"]
        if earlier := self._waits.get(key):
            earlier.is_old = True
            earlier.wake()
        waiting = self._waits[key] = _Wait(asyncio.get_running_loop().create_future(), self.clock.now())
        try:
            if (let_in := await self._answer(key)) is None:
                await self._spread(WAITS, key, waiting.since)
                await ends_within(waiting.news, self.clock, min(until - self.clock.now(), seconds))
                let_in = await self._answer(key)
        finally:
            if self._waits.get(key) is waiting:
                del self._waits[key]
        if let_in is None or waiting.is_old:
            return None
        if not await self._use_up(key):
            raise LoginOver
        return let_in

    async def find(self, by: Actor, code: str) -> LoginRequest:
        """Return the page that shows this code.

        Raises:
            LoginRefused: no page shows it, too many wrong codes came before, or this person cannot let any in.
        """
        if not is_a_person(by):
            raise LoginRefused(NO_PERSON)
        tried, seconds = await count_try(self.facts, f"{TRIES_FACT}:{by.key}", self.clock.now())
        if seconds:
            raise LoginRefused(too_many(seconds))
        found = None
        for key, page in (await self._pages()).items():
            is_open = ANSWER not in page
            if hmac.compare_digest(page["code"], _digest(key, code)) and is_open:
                is_here = page["here"] == self.gateway  # the owner of another machine is not this one's
                found = LoginRequest(code, page["browser"], page["address"], is_here, key)
        if found is None:
            raise self._no_page(by)
        await self.facts.unlearn(tried)
        return found

    async def approve(self, by: Actor, request: LoginRequest, *, owner: bool = False) -> None:
        """Let in a page that was found, as the person who says so. `owner`: with the rights of the owner.

        Raises:
            LoginRefused: another person was quicker, or the page is gone meanwhile.
        """
        let_in = login_as(by, owner=owner)
        await self._decide(by, request, {"user": let_in.user, "owner": let_in.owner, "how": let_in.how})
        self._note(by, request, "web.approve", "ok")

    async def deny(self, by: Actor, request: LoginRequest) -> None:
        """Turn away a page that was found.

        Raises:
            LoginRefused: as `approve`.
        """
        await self._decide(by, request, {"user": ""})
        self._note(by, request, "web.deny", "ok")

    async def link(self, user: str, *, owner: bool) -> str:
        """Return the code of a new link, which lets in one browser as this user. Only the owner may ask for one."""
        now, links = self.clock.now(), await self.facts.facts(LINKS_FACT)
        oldest_first = sorted(links, key=lambda key: float(links[key]["until"]))
        over = max(0, len(links) - self.limits.links + 1)
        for number, key in enumerate(oldest_first):
            if number < over or not _is_good(links[key], now, LINK_SECONDS):
                await self.facts.unlearn(f"{LINKS_FACT}:{key}")
        code = MARK + secrets.token_urlsafe(TOKEN_BYTES)
        row = {"user": user, "owner": owner, "until": now + LINK_SECONDS}
        await self.facts.learn(f"{LINKS_FACT}:{digest_of(code)}", row)
        self.audit(AuditEntry("web.link", user, Actor(user, SOCKET, owner=owner), rule="owner of the state folder"))
        return code

    async def peek(self, code: str) -> LetIn | None:
        """Return whom a link would let in, which it still does then; None: it is unknown, used or too old."""
        row = await self.facts.fact(f"{LINKS_FACT}:{digest_of(code)}")
        if row is None or not _is_good(row, self.clock.now(), LINK_SECONDS):
            return None
        return LetIn(row["user"], row["owner"], "link")

    async def follow(self, code: str) -> LetIn | None:
        """Return whom a link lets in, and use it up; None: it is unknown, used or too old."""
        let_in = await self.peek(code)
        # Deleted once, by whichever process is first.
        return let_in if let_in and await self.facts.unlearn(f"{LINKS_FACT}:{digest_of(code)}") else None

    def wake(self) -> None:
        """End all waits, because the daemon ends."""
        for waiting in self._waits.values():
            waiting.wake()

    def on_message(self, words: str) -> None:
        """Process a message from any process, this one included; all get them in one order."""
        what, key, gateway, *more = words.split(" ")
        if (waiting := self._waits.get(key)) is None:
            return
        if what == WAITS:
            # A wait before it may have a broken connection, and would take the answer. At this process it is known.
            if gateway == self.gateway:
                waiting.is_told = waiting.is_told or float(more[0]) == waiting.since
                return
            if not waiting.is_told:
                return
            waiting.is_old = True
        waiting.wake()

    def _publish(self, request: LoginRequest) -> None:
        now = self.clock.monotonic()
        if now >= self._told[1]:
            self._told = 0, now + 60.0
        times, until = self._told
        self._told = times + 1, until
        if times < self.limits.told_per_minute:
            self.tell(request)

    async def _decide(self, by: Actor, request: LoginRequest, answer: Mapping[str, Any]) -> None:
        until = self.clock.now() + REQUEST_SECONDS
        fact = f"{_page_fact(request.key)}:{ANSWER}"
        if not await self.facts.learn_new(fact, {**answer, "until": until}):
            raise self._no_page(by)
        await self._spread(DECIDED, request.key)

    async def _spread(self, what: str, key: str, since: float = 0.0) -> None:
        with suppress(StateError):  # it may get lost: what is waited for is looked at again
            await self.news.broadcast(KIND, f"{what} {key} {self.gateway} {since!r}")

    async def _page(self, key: str) -> Mapping[str, Any]:
        """Return the page with this hash of its secret, and the answer to it as `ANSWER`.

        Raises:
            LoginOver: it is unknown, or its time is over.
        """
        found = await self.facts.facts(_page_fact(key))
        if "" not in found or not _is_good(found[""], self.clock.now(), REQUEST_SECONDS):
            raise LoginOver
        return {**found[""], **({ANSWER: found[ANSWER]} if ANSWER in found else {})}

    async def _answer(self, key: str) -> LetIn | None:
        """Return as whom a page is let in; None: that is not decided.

        Raises:
            LoginOver: it is not let in.
        """
        answer = (await self._page(key)).get(ANSWER)
        if answer is None:
            return None
        if not answer["user"]:
            raise LoginOver
        return LetIn(answer["user"], answer["owner"], answer["how"])

    async def _pages(self) -> dict[str, Mapping[str, Any]]:
        """Return all pages that ask by the hash of their secret, the oldest first; forget expired ones."""
        now, rows = self.clock.now(), dict(await self.facts.facts(PAGES_FACT))
        for part in [part for part, row in rows.items() if not _is_good(row, now, REQUEST_SECONDS)]:
            await self.facts.unlearn(f"{PAGES_FACT}:{part}")
            del rows[part]
        pages = {part: row for part, row in rows.items() if ":" not in part}
        for key, page in pages.items():
            if (answer := rows.get(f"{key}:{ANSWER}")) is not None:
                page[ANSWER] = answer
        return dict(sorted(pages.items(), key=lambda each: float(each[1]["until"])))

    async def _use_up(self, key: str) -> bool:
        """Forget a page. False: another process has done so."""
        is_first = await self.facts.unlearn(_page_fact(key))
        await self.facts.unlearn(f"{_page_fact(key)}:{ANSWER}")
        return is_first

    def _no_page(self, by: Actor) -> LoginRefused:
        """Note a wrong code; returns its refusal."""
        self.audit(AuditEntry("web.approve", "code", by, allowed=False, rule="no such code"))
        return LoginRefused("No page shows this code: it has expired (after five minutes), was used, or is mistyped.")

    def _note(self, by: Actor, request: LoginRequest, action: Literal["web.approve", "web.deny"], result: str) -> None:
        self.audit(AuditEntry(action, str(request), by, rule="code of the page", result=result))


def new_request(browser: str, address: str, *, is_here: bool) -> tuple[LoginRequest, str]:
    """Return the request of a page, with a new code, and the page's new secret."""
    code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    secret = MARK + secrets.token_urlsafe(TOKEN_BYTES)
    return LoginRequest(f"{code[:4]}-{code[4:]}", browser, address, is_here, digest_of(secret)), secret


def login_as(person: Actor, *, owner: bool) -> LetIn:
    """Return as whom a page is let in by a person."""
    return LetIn(person.key, owner, f"code, approved by {person.key} via {person.entry}")


def too_many(seconds: float) -> str:
    """Return the refusal of a person who may try the next code after so many seconds."""
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


def _page_fact(key: str) -> str:
    return f"{PAGES_FACT}:{key}"


def _digest(key: str, code: str) -> str:
    """Return the hash of a page's code that is stored; `key`: the hash of the page's secret, another for each page."""
    return digest_of(f"{key} {plain(code)}")


def _is_good(row: Mapping[str, Any], now: float, seconds: float) -> bool:
    """Whether a row that is good for so many seconds is not over; a later time comes from a clock that was set."""
    return now < float(row["until"]) <= now + seconds + APART_SECONDS
