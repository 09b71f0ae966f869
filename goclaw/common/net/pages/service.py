"""The implementation of `base.Web`, within the limits of the configuration. Opened at the first use.

HTML becomes Markdown in another process (`markdown_worker`): whatever a page does to the parser, it can be killed
without blocking. Recently fetched pages are kept in memory, bounded in time and bytes, and shared by all persons, as no
request carries personal data.
"""

import asyncio
import json
import sys
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask_known
from goclaw.common.net import UrlGuard
from goclaw.common.net.pages.base import Page
from goclaw.common.net.pages.fetching import Fetched, decode, fetch, is_document, is_page
from goclaw.common.net.search.base import Hits
from goclaw.common.net.search.open import search
from goclaw.errors import ToolError


class WebService:
    """A `Web`. It holds memory only: clients and processes live no longer than the call that needs them."""

    def __init__(self, config: Config, clock: Clock, guard: UrlGuard | None = None) -> None:
        tools = config.tools
        self._fetching = tools.web_fetch
        self._searching = tools.web_search
        self._guard = guard or UrlGuard(allow=tools.network.allow, deny=tools.network.deny)
        self._cache = PageCache(clock, 60 * self._fetching.cache_minutes, int(self._fetching.cache_mb * (1 << 20)))
        self._converter = Converter()

    async def fetch(self, url: str, *, raw: bool) -> Page:
        """See `base.Web`."""
        key = (url.strip().partition("#")[0], raw)
        if kept := self._cache.get(key):
            return kept
        most = int(self._fetching.max_mb * (1 << 20))
        fetched = await fetch(self._guard, url, seconds=self._fetching.timeout, most=most)
        page = await self._page(fetched, raw=raw)
        if 200 <= page.status < 300:
            self._cache.put(key, page)
        return page

    async def search(self, query: str, count: int | None) -> Hits:
        """See `base.Web`."""
        if mask_known(query) != query:
            raise ToolError("refused: the query holds a secret of this installation")
        return await search(self._searching, query, count or self._searching.count)

    async def _page(self, fetched: Fetched, *, raw: bool) -> Page:
        body, page = fetched.body, is_page(fetched.kind, fetched.body)
        if not page and is_document(fetched.url, fetched.kind, body):
            return Page(fetched.url, fetched.status, fetched.kind, "", "", fetched.cut, document=body)
        text = await asyncio.to_thread(decode, body, fetched.charset, page=page, cut=fetched.cut)
        if raw or not page:
            return Page(fetched.url, fetched.status, fetched.kind, "", text, fetched.cut)
        made = await self._converter.convert(text, fetched.url)
        return Page(fetched.url, fetched.status, fetched.kind, made.title, made.text, fetched.cut or made.cut)


CONVERSION_SECONDS = 30.0
"""How long it may take: an ordinary page needs half a second, the largest five, on a busy machine three times that."""
CONVERTED_AT_ONCE = 2
"""Pages at the same time: each may take the worker's memory, and a processor."""
_WORKER = Path(__file__).with_name("markdown_worker.py")
_TOO_MUCH = "the page cannot be made into Markdown: it is too large or too intricate; `raw` gives its source"


@record
class MarkdownPage:
    """A page as Markdown."""

    title: str
    text: str
    cut: bool


class Converter:
    """Makes Markdown, some pages at a time."""

    def __init__(self, seconds: float = CONVERSION_SECONDS) -> None:
        self._seconds = seconds
        self._room = asyncio.Semaphore(CONVERTED_AT_ONCE)

    async def convert(self, html: str, url: str) -> MarkdownPage:
        """Convert a page; `url` is the base of its links.

        Raises:
            ToolError: it takes too long or too much memory.
        """
        try:
            async with self._room, asyncio.timeout(self._seconds):
                answer = await _answer(json.dumps([url]).encode() + b"\n" + html.encode(errors="replace"))
            title, text, cut = await asyncio.to_thread(json.loads, answer)
        except (TimeoutError, ValueError):
            raise ToolError(_TOO_MUCH) from None
        return MarkdownPage(title, text, cut)


async def _answer(given: bytes) -> bytes:
    """Return the worker's answer. It gets nothing of the daemon's environment, and is dead when this returns."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(_WORKER)),
        cwd="/",
        env={},
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        answer, _ = await process.communicate(given)
        return answer
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class PageCache:
    """Keeps pages; the one that was not asked for the longest goes first."""

    def __init__(self, clock: Clock, seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._pages: OrderedDict[Hashable, tuple[Page, float]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> Page | None:
        """Return the page with its age; None: not kept, or too old."""
        found = self._pages.get(key)
        if found is None:
            return None
        page, since = found
        age = self._clock.awake_or_not() - since
        if age >= self._seconds:
            self._drop(key)
            return None
        self._pages.move_to_end(key)
        return replace(page, age=age)

    def put(self, key: Hashable, page: Page) -> None:
        """Keep a page, if there is room for it at all."""
        self._drop(key)
        if not self._seconds or _size(page) > self._most:
            return
        self._pages[key] = (page, self._clock.awake_or_not())
        self._bytes += _size(page)
        while self._bytes > self._most:
            self._drop(next(iter(self._pages)))

    def _drop(self, key: Hashable) -> None:
        if key in self._pages:
            self._bytes -= _size(self._pages.pop(key)[0])


def _size(page: Page) -> int:
    return len(page.document) + sys.getsizeof(page.text) + sys.getsizeof(page.url) + sys.getsizeof(page.title) + 500
