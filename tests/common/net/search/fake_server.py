"""The four providers' interfaces on loopback, as their references describe them; what they say next is set by tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from goclaw.common.config.tools import WebSearchSettings
from tests.http_server import serve

FOUND = [
    {"title": "Example Domain", "url": "https://example.com/", "text": "For <strong>use</strong> in &quot;docs&quot;"},
    {"title": "Other", "url": "https://other.example/a?b=1&c=2", "text": "Second"},
    {"title": "Third", "url": "https://third.example/", "text": ""},
]
KEY = "canary-search-key-0815"
DUCK_RESULT = """
<div class="result results_links results_links_deep web-result {more}"><div class="links_main result__body">
<h2 class="result__title"><a rel="nofollow" class="result__a" href="{href}">{title}</a></h2>
<a class="result__url" href="{href}">example.com</a>
<a class="result__snippet" href="{href}">{text}</a></div></div>
"""


@dataclass
class FakeSearch:
    """Answers like one of the providers."""

    name: str
    url: str = ""
    status: int = 200
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    found: list[dict[str, str]] = field(default_factory=lambda: list(FOUND))
    heard: list[dict[str, Any]] = field(default_factory=list)

    def settings(self, **others: Any) -> WebSearchSettings:
        key = {} if self.name in ("searxng", "duckduckgo") else {"api_key": KEY}
        return WebSearchSettings.model_validate({"provider": self.name, "url": self.url, **key, **others})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        given = await request.json() if request.can_read_body else {}
        self.heard.append(
            {"method": request.method, "path": request.path, "headers": dict(request.headers), **request.query, **given}
        )
        if self.body is not None or self.status != 200:
            return web.Response(text=self.body or "", status=self.status, headers=self.headers)
        if self.name == "duckduckgo":
            return web.Response(text=self._page(), content_type="text/html")
        return web.json_response(self._json())

    def _json(self) -> dict[str, Any]:
        snippet = "description" if self.name == "brave" else "content"
        results = [{"title": each["title"], "url": each["url"], snippet: each["text"]} for each in self.found]
        if self.name == "brave":
            return {"type": "search", "web": {"type": "search", "results": results}}
        return {"query": "q", "results": results, "answers": [], "response_time": 0.5}

    def _page(self) -> str:
        if not self.found:
            return "<html><div class='no-results'>No results.</div></html>"
        advertisement = DUCK_RESULT.format(
            more="result--ad", href="https://duckduckgo.com/y.js?ad_domain=x", title="Buy!", text="Now"
        )
        results = [
            DUCK_RESULT.format(
                more="",
                href=f"//duckduckgo.com/l/?uddg={quoted(each['url'])}&amp;rut=abc",
                title=each["title"],
                text=each["text"].replace("strong", "b"),
            )
            for each in self.found
        ]
        return f"<!DOCTYPE html><html><body>{advertisement}{''.join(results)}</body></html>"


def quoted(url: str) -> str:
    return "".join(char if char.isalnum() else f"%{ord(char):02X}" for char in url)


@asynccontextmanager
async def fake_search(name: str) -> AsyncIterator[FakeSearch]:
    """The server, while the block runs."""
    fake = FakeSearch(name)
    async with serve(web.route("*", "/{path:.*}", fake.answer)) as fake.url:
        yield fake
