"""The providers of web search, and one request to a provider. Errors never contain a server's text or a key.

SearXNG, which can be self-hosted: `GET /search?format=json` (docs.searxng.org, "Search API"). Brave Search: `GET
/res/v1/web/search` (api-dashboard.search.brave.com, "Web Search API"). Tavily: `POST /search` (docs.tavily.com, "Tavily
Search"). DuckDuckGo: its page for browsers without scripts, which needs no key. It is made for people: it may change,
or ask for proof of a person.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any, Literal

import aiohttp
import orjson
from yarl import URL

from goclaw import __version__
from goclaw.common.config.tools import WebSearchSettings
from goclaw.common.core.records import record
from goclaw.common.core.redact import remember
from goclaw.common.net.client import parse_retry_after, read_whole
from goclaw.common.net.search.base import Hit, SearchPart
from goclaw.errors import ConfigError, ToolError

ANSWER_LIMIT = 2 << 20
"""Bytes of an answer that are read; twenty results have some 50 KB."""
ANSWERED = frozenset({200, 202})
"""DuckDuckGo asks with 202 whether a person is there; what comes is looked at anyway."""
KEY_REFUSED = frozenset({401, 403, 422})
"""Brave says 422 of a key that it does not know (SUBSCRIPTION_TOKEN_INVALID)."""
MAX_PAUSE = 1_000_000
"""Seconds: what a server says beyond it is no time to come back at."""
TOO_MANY = frozenset({429, 432, 433})
"""HTTP 429; Tavily has two more for what a plan allows (its API reference, "Response codes")."""


@record
class ProviderClient:
    """How a provider is asked."""

    name: str
    http: aiohttp.ClientSession
    url: str
    headers: Mapping[str, str]
    refused: str = "check tools.web_search.api_key"
    """The remedy for a refused request."""

    async def ask(
        self, params: Mapping[str, str] | None = None, body: Any = None, *, method: Literal["GET", "POST"] = "GET"
    ) -> bytes:
        """Return the body of the provider's answer.

        Raises:
            ToolError: it did not answer, or not with success.
        """
        try:
            # A redirect would send the key to another server.
            async with self.http.request(
                method, self.url, params=params, json=body, headers=self.headers, allow_redirects=False
            ) as response:
                self._check(response)
                content = await read_whole(response, ANSWER_LIMIT)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolError(f"{self.name} cannot be reached ({type(error).__name__})") from None
        if content is None:
            raise ToolError(f"{self.name} answered with more than {ANSWER_LIMIT >> 20} MB")
        return content

    async def json(self, params: Mapping[str, str] | None = None, body: Any = None) -> dict[str, Any]:
        """Return the JSON object of the answer; with a `body`, by POST."""
        content = await self.ask(params, body, method="GET" if body is None else "POST")
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise ToolError(f"{self.name} did not return results; is tools.web_search.url right?")
        return answer

    def _check(self, response: aiohttp.ClientResponse) -> None:
        status = response.status
        if status in KEY_REFUSED:
            raise ToolError(f"{self.name} refused the search (HTTP {status}); {self.refused}")
        if status in TOO_MANY:
            seconds = parse_retry_after(response.headers)
            when = "later" if seconds is None or seconds > MAX_PAUSE else f"in {seconds:.0f} s"
            raise ToolError(f"{self.name} accepts no more searches now (HTTP {status}); try again {when}")
        if status not in ANSWERED:
            raise ToolError(f"{self.name} answered HTTP {status}")


def key_of(settings: WebSearchSettings, variable: str) -> str:
    """Return the key for the configured provider.

    Raises:
        ConfigError: no key is set.
    """
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    if not key and settings.url is None:  # the variable's key is for the provider itself, not for another server
        key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{variable}: should be one word without line breaks or unusual characters")
    if not key:
        raise ConfigError(f"{settings.provider} needs a key: set tools.web_search.api_key, or {variable}")
    remember(key)
    return key


def hits_of(results: Any, title: str, url: str, snippet: str) -> Sequence[Hit]:
    """Return the hits of an answer's list, by the names of its fields; malformed entries are left out."""
    return [
        Hit(_text(each.get(title)), each[url], _text(each.get(snippet)))
        for each in (results if isinstance(results, list) else ())
        if isinstance(each, dict) and isinstance(each.get(url), str)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


async def _search_searxng(
    settings: WebSearchSettings, http: aiohttp.ClientSession, query: str, _: int
) -> Sequence[Hit]:
    """The server decides how many it gives."""
    if settings.url is None:
        raise ConfigError("searxng needs an address: set tools.web_search.url (http://host:port)")
    url = settings.url if settings.url.endswith("/search") else f"{settings.url}/search"
    headers = {"Authorization": f"Bearer {settings.api_key.get_secret_value()}"} if settings.api_key else {}
    client = ProviderClient("searxng", http, url, headers, "its settings.yml needs `json` in search.formats")
    answer = await client.json({"q": query, "format": "json"})
    return hits_of(answer.get("results"), "title", "url", "content")


SEARXNG = SearchPart("searxng", _search_searxng)


BRAVE_URL = "https://api.search.brave.com/res/v1/web/search"
BRAVE_HITS = 20
"""Results of one request."""


async def _search_brave(
    settings: WebSearchSettings, http: aiohttp.ClientSession, query: str, count: int
) -> Sequence[Hit]:
    headers = {"X-Subscription-Token": key_of(settings, "BRAVE_API_KEY"), "Accept": "application/json"}
    client = ProviderClient("brave", http, settings.url or BRAVE_URL, headers)
    web = (await client.json({"q": query, "count": str(min(count, BRAVE_HITS))})).get("web")
    return hits_of(web.get("results") if isinstance(web, dict) else None, "title", "url", "description")


BRAVE = SearchPart("brave", _search_brave)


TAVILY_URL = "https://api.tavily.com/search"
TAVILY_HITS = 20
"""Results of one request."""


async def _search_tavily(
    settings: WebSearchSettings, http: aiohttp.ClientSession, query: str, count: int
) -> Sequence[Hit]:
    headers = {"Authorization": f"Bearer {key_of(settings, 'TAVILY_API_KEY')}"}
    client = ProviderClient("tavily", http, settings.url or TAVILY_URL, headers)
    answer = await client.json(body={"query": query, "max_results": min(count, TAVILY_HITS)})
    return hits_of(answer.get("results"), "title", "url", "content")


TAVILY = SearchPart("tavily", _search_tavily)


DUCKDUCKGO_URL = "https://html.duckduckgo.com/html/"
_TITLE, _SNIPPET, _ADVERTISEMENT = "result__a", "result__snippet", "result--ad"
_NOTHING, _DOUBTS = "no-results", "anomaly"
"""Classes of the page: what it marks with them."""
_DUCKDUCKGO_HITS = 100
"""Results of a page that are looked at; it has about thirty."""


async def _search_duckduckgo(
    settings: WebSearchSettings, http: aiohttp.ClientSession, query: str, _: int
) -> Sequence[Hit]:
    headers = {"User-Agent": f"GoClaw/{__version__}", "Accept": "text/html"}
    refused = "it may block programs; use another provider"
    client = ProviderClient("duckduckgo", http, settings.url or DUCKDUCKGO_URL, headers, refused)
    page, content = _Page(), await client.ask({"q": query})
    await asyncio.to_thread(page.feed, content.decode(errors="replace"))
    if page.hits or page.empty:
        return page.hits
    if page.doubts:
        raise ToolError("duckduckgo shows a captcha; try later, or use another provider")
    raise ToolError("duckduckgo did not return results; use another provider")


DUCKDUCKGO = SearchPart("duckduckgo", _search_duckduckgo)


class _Page(HTMLParser):
    """The results of a page, whatever else it holds; advertisements are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.hits: list[Hit] = []
        self.empty = self.doubts = False
        self._advertisement = False
        self._inside: str | None = None
        self._url = ""
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        classes = given.get("class", "").split()
        self.empty |= _NOTHING in classes
        self.doubts |= any(name.startswith(_DOUBTS) for name in classes)
        if "result" in classes:
            self._advertisement = _ADVERTISEMENT in classes
        if _TITLE in classes and tag == "a":
            self._inside, self._url, self._text = _TITLE, _target(given.get("href", "")), []
        elif _SNIPPET in classes:
            self._inside, self._text = _SNIPPET, []

    def handle_endtag(self, tag: str) -> None:
        # Words of the query are bold: only what ends the whole counts.
        if self._inside is None or tag not in ("a", "div", "td", "h2"):
            return
        text = "".join(self._text)
        if self._inside == _TITLE:
            if self._url and not self._advertisement and len(self.hits) < _DUCKDUCKGO_HITS:
                self.hits.append(Hit(text, self._url, ""))
        elif self.hits and self.hits[-1].url == self._url:
            self.hits[-1] = Hit(self.hits[-1].title, self._url, text)
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._text.append(data)


def _target(href: str) -> str:
    """Return the final target of a link; empty: DuckDuckGo itself, as for advertisements."""
    try:
        url = URL(f"https:{href}" if href.startswith("//") else href)
        target = url.query.get("uddg", "") if "duckduckgo.com" in (url.host or "") else href
    except ValueError:
        return ""
    return target
