"""DuckDuckGo's page for browsers without scripts, which needs no key. It is made for people: it may change, or ask
whether a person is there.
"""

import asyncio
from collections.abc import Sequence
from html.parser import HTMLParser

import aiohttp
from yarl import URL

from goclaw import __version__
from goclaw.config.web_tools import WebSearchSettings
from goclaw.errors import ToolError
from goclaw.websearch.asking import ProviderClient
from goclaw.websearch.base import Hit, SearchPart, SearchProvider

ADDRESS = "https://html.duckduckgo.com/html/"
_TITLE, _SNIPPET, _ADVERTISEMENT = "result__a", "result__snippet", "result--ad"
_NOTHING, _DOUBTS = "no-results", "anomaly"
"""Classes of the page: what it marks with them."""
_MAX_HITS = 100
"""Results of a page that are looked at; it has about thirty."""


class DuckDuckGo:
    """A `SearchProvider`."""

    def __init__(self, asking: ProviderClient) -> None:
        self._asking = asking

    async def search(self, query: str, count: int) -> Sequence[Hit]:
        """See `base.SearchProvider`. Advertisements are left out."""
        content = await self._asking.ask({"q": query})
        page = await asyncio.to_thread(_read, content.decode(errors="replace"))
        if page.hits or page.empty:
            return page.hits
        if page.doubts:
            raise ToolError("duckduckgo asks whether a person is there; try later, or take another provider")
        raise ToolError("duckduckgo answered with something else than results; take another provider")


class _Page(HTMLParser):
    """The results of a page, whatever else it holds."""

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
            if self._url and not self._advertisement and len(self.hits) < _MAX_HITS:
                self.hits.append(Hit(text, self._url, ""))
        elif self.hits and self.hits[-1].url == self._url:
            self.hits[-1] = Hit(self.hits[-1].title, self._url, text)
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._text.append(data)


def _read(text: str) -> _Page:
    page = _Page()
    page.feed(text)
    return page


def _target(href: str) -> str:
    """Return the final target of a link; empty: DuckDuckGo itself, as for advertisements."""
    try:
        url = URL(f"https:{href}" if href.startswith("//") else href)
        target = url.query.get("uddg", "") if "duckduckgo.com" in (url.host or "") else href
    except ValueError:
        return ""
    return target


def _open(settings: WebSearchSettings, http: aiohttp.ClientSession) -> SearchProvider:
    headers = {"User-Agent": f"GoClaw/{__version__}", "Accept": "text/html"}
    refused = "it may not want programs; take another provider"
    return DuckDuckGo(ProviderClient("duckduckgo", http, settings.url or ADDRESS, headers, refused))


SEARCH = SearchPart("duckduckgo", _open)
