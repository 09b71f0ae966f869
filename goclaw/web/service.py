"""The implementation of `web.base`, within the limits of the configuration. Opened at the first use."""

import asyncio

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.errors import ToolError
from goclaw.net import UrlGuard
from goclaw.redact import mask_known
from goclaw.web.base import Page
from goclaw.web.cache import PageCache
from goclaw.web.decoding import decoded, is_page
from goclaw.web.fetching import Fetched, fetch
from goclaw.web.markdown import Converter
from goclaw.websearch.base import Hits
from goclaw.websearch.open import search


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
        text = await asyncio.to_thread(decoded, body, fetched.charset, page=page, cut=fetched.cut)
        if raw or not page:
            return Page(fetched.url, fetched.status, fetched.kind, "", text, fetched.cut)
        made = await self._converter.convert(text, fetched.url)
        return Page(fetched.url, fetched.status, fetched.kind, made.title, made.text, fetched.cut or made.cut)
