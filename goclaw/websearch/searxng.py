"""SearXNG, which can be self-hosted: `GET /search?format=json` (docs.searxng.org, "Search API")."""

from collections.abc import Sequence

import aiohttp

from goclaw.config.web_tools import WebSearchSettings
from goclaw.errors import ConfigError
from goclaw.websearch.asking import ProviderClient, hits_of
from goclaw.websearch.base import Hit, SearchPart, SearchProvider


class SearxNG:
    """A `SearchProvider` on one server."""

    def __init__(self, asking: ProviderClient) -> None:
        self._asking = asking

    async def search(self, query: str, count: int) -> Sequence[Hit]:
        """See `base.SearchProvider`. The server decides how many it gives."""
        answer = await self._asking.json({"q": query, "format": "json"})
        return hits_of(answer.get("results"), "title", "url", "content")


def _open(settings: WebSearchSettings, http: aiohttp.ClientSession) -> SearchProvider:
    if settings.url is None:
        raise ConfigError("searxng needs an address: set tools.web_search.url (http://host:port)")
    url = settings.url if settings.url.endswith("/search") else f"{settings.url}/search"
    headers = {"Authorization": f"Bearer {settings.api_key.get_secret_value()}"} if settings.api_key else {}
    return SearxNG(ProviderClient("searxng", http, url, headers, "its settings.yml needs `json` in search.formats"))


SEARCH = SearchPart("searxng", _open)
