"""Brave Search: `GET /res/v1/web/search` (api-dashboard.search.brave.com, "Web Search API")."""

from collections.abc import Sequence

import aiohttp

from goclaw.config.web_tools import WebSearchSettings
from goclaw.websearch.asking import ProviderClient, hits_of, key_of
from goclaw.websearch.base import Hit, SearchPart, SearchProvider

URL = "https://api.search.brave.com/res/v1/web/search"
MAX_HITS = 20
"""Results of one request."""


class Brave:
    """A `SearchProvider`."""

    def __init__(self, asking: ProviderClient) -> None:
        self._asking = asking

    async def search(self, query: str, count: int) -> Sequence[Hit]:
        """See `base.SearchProvider`."""
        answer = await self._asking.json({"q": query, "count": str(min(count, MAX_HITS))})
        web = answer.get("web")
        return hits_of(web.get("results") if isinstance(web, dict) else None, "title", "url", "description")


def _open(settings: WebSearchSettings, http: aiohttp.ClientSession) -> SearchProvider:
    key = key_of(settings, "BRAVE_API_KEY")
    headers = {"X-Subscription-Token": key, "Accept": "application/json"}
    return Brave(ProviderClient("brave", http, settings.url or URL, headers))


SEARCH = SearchPart("brave", _open)
