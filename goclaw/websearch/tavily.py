"""Tavily: `POST /search` (docs.tavily.com, "Tavily Search")."""

from collections.abc import Sequence

import aiohttp

from goclaw.config.web_tools import WebSearchSettings
from goclaw.websearch.asking import ProviderClient, hits_of, key_of
from goclaw.websearch.base import Hit, SearchPart, SearchProvider

URL = "https://api.tavily.com/search"
MAX_HITS = 20
"""Results of one request."""


class Tavily:
    """A `SearchProvider`."""

    def __init__(self, asking: ProviderClient) -> None:
        self._asking = asking

    async def search(self, query: str, count: int) -> Sequence[Hit]:
        """See `base.SearchProvider`."""
        answer = await self._asking.json(body={"query": query, "max_results": min(count, MAX_HITS)})
        return hits_of(answer.get("results"), "title", "url", "content")


def _open(settings: WebSearchSettings, http: aiohttp.ClientSession) -> SearchProvider:
    headers = {"Authorization": f"Bearer {key_of(settings, 'TAVILY_API_KEY')}"}
    return Tavily(ProviderClient("tavily", http, settings.url or URL, headers))


SEARCH = SearchPart("tavily", _open)
