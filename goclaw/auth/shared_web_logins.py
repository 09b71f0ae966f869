"""Logins of the web page where several processes share a store: a code or link of one works at each of them.

A page that asks, the answer to it, a link and a wrong try are a fact of the store each. What lets a browser in is
deleted by the one process that uses it: the deletion succeeds once. An answer is a row of its own, of which the first
counts, so that a page that is gone meanwhile does not come back. Times are the store's clock's.
"""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from goclaw.auth.pairing import count_try
from goclaw.auth.tokens import MARK, TOKEN_BYTES, digest_of
from goclaw.auth.web_logins import (
    LINK_SECONDS,
    NO_PERSON,
    REQUEST_SECONDS,
    LetIn,
    LoginOver,
    LoginRefused,
    LoginRequest,
    WebLogins,
    is_a_person,
    let_in_by,
    new_request,
    plain,
    too_many,
)
from goclaw.config.state import SharedFacts
from goclaw.core.clock import APART_SECONDS
from goclaw.core.events import Actor
from goclaw.core.supervise import ends_within
from goclaw.errors import StateError

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


@dataclass(slots=True, eq=False)
class _Wait:
    """A page that waits at this process."""

    news: asyncio.Future[None]
    since: float
    """Epoch seconds: tells it from others of the page at this process."""
    is_told: bool = False
    """Whether this process has heard its own word of it: other waits that it hears of from here on are later."""
    is_old: bool = False
    """Whether the page waits elsewhere, or anew: the answer is not for this wait."""

    def wake(self) -> None:
        if not self.news.done():
            self.news.set_result(None)


@dataclass(slots=True, eq=False, kw_only=True)
class SharedWebLogins(WebLogins):
    """The open codes and links of all processes of a store. All methods that wait raise `StateError` without it."""

    facts: SharedFacts
    gateway: str
    """Name of this process."""
    told: Callable[[str], Awaitable[None]]
    """Tells all processes something (`heard`) that may get lost: then a page has its answer at the end of its wait."""
    _waits: dict[str, _Wait] = field(default_factory=dict)
    """By the hash of the page's secret."""

    async def ask(self, browser: str, address: str, network: str, *, is_here: bool) -> tuple[str, str]:
        pages = await self._pages()
        own = [key for key, page in pages.items() if page["network"] == network]
        for oldest in own[: max(0, len(own) - self.limits.per_address + 1)]:
            await self._use_up(oldest)
            await self._spread(DECIDED, oldest)
            del pages[oldest]
        self._check_room(len(pages), address)
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
        self._tell(request)
        return request.code, secret

    async def wait(self, secret: str, seconds: float) -> LetIn | None:
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
        let_in = let_in_by(by, owner=owner)
        await self._decide(by, request, {"user": let_in.user, "owner": let_in.owner, "how": let_in.how})
        self._note(by, request, "web.approve", "ok")

    async def deny(self, by: Actor, request: LoginRequest) -> None:
        await self._decide(by, request, {"user": ""})
        self._note(by, request, "web.deny", "ok")

    async def link(self, user: str, *, owner: bool) -> str:
        now, links = self.clock.now(), await self.facts.facts(LINKS_FACT)
        oldest_first = sorted(links, key=lambda key: float(links[key]["until"]))
        over = max(0, len(links) - self.limits.links + 1)
        for number, key in enumerate(oldest_first):
            if number < over or not _is_good(links[key], now, LINK_SECONDS):
                await self.facts.unlearn(f"{LINKS_FACT}:{key}")
        code = MARK + secrets.token_urlsafe(TOKEN_BYTES)
        row = {"user": user, "owner": owner, "until": now + LINK_SECONDS}
        await self.facts.learn(f"{LINKS_FACT}:{digest_of(code)}", row)
        self._note_link(user, owner=owner)
        return code

    async def look(self, code: str) -> LetIn | None:
        row = await self.facts.fact(f"{LINKS_FACT}:{digest_of(code)}")
        if row is None or not _is_good(row, self.clock.now(), LINK_SECONDS):
            return None
        return LetIn(row["user"], row["owner"], "link")

    async def follow(self, code: str) -> LetIn | None:
        let_in = await self.look(code)
        # Deleted once, by whichever process is first.
        return let_in if let_in and await self.facts.unlearn(f"{LINKS_FACT}:{digest_of(code)}") else None

    def wake(self) -> None:
        for waiting in self._waits.values():
            waiting.wake()

    def heard(self, words: str) -> None:
        """Take in what a process has told (`told`), this one included; all hear it in one order."""
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

    async def _decide(self, by: Actor, request: LoginRequest, answer: Mapping[str, Any]) -> None:
        until = self.clock.now() + REQUEST_SECONDS
        fact = f"{_page_fact(request.key)}:{ANSWER}"
        if not await self.facts.learn_new(fact, {**answer, "until": until}):
            raise self._no_page(by)
        await self._spread(DECIDED, request.key)

    async def _spread(self, what: str, key: str, since: float = 0.0) -> None:
        with suppress(StateError):  # it may get lost: what is waited for is looked at again
            await self.told(f"{what} {key} {self.gateway} {since!r}")

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
        """Return all pages that ask by the hash of their secret, the oldest first; forget what is over."""
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


def _page_fact(key: str) -> str:
    return f"{PAGES_FACT}:{key}"


def _digest(key: str, code: str) -> str:
    """Return the hash of a page's code that is stored; `key`: the hash of the page's secret, another for each page."""
    return digest_of(f"{key} {plain(code)}")


def _is_good(row: Mapping[str, Any], now: float, seconds: float) -> bool:
    """Whether a row that is good for so many seconds is not over; a later time comes from a clock that was set."""
    return now < float(row["until"]) <= now + seconds + APART_SECONDS
