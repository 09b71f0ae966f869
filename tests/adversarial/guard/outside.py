"""The world outside the gateway: hosts that end in `.test`, a search engine, MCP servers. It remembers what it hears.

Every name that ends in `.test` leads to one server of this machine; the port is put behind it (`Outside.placed`), so
that tables write `http://news.test/page`.
"""

import asyncio
import base64
import binascii
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote, urlsplit

from aiohttp import web

from goclaw.common.net import client
from tests.http_server import Json, serve

ZONE = ".test"
SEARCH = "search.test"
TO = "to:"
"""How a page begins that sends its visitor on."""
FEWEST = 8
"""Characters of a secret that are a part of it: fewer stand in many texts."""
_PLACED = re.compile(r"\.test(?=[/\s\"')>\]]|$)")
_HEX = re.compile(r"[0-9a-fA-F]{16,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_LETTER = re.compile(r"^/(?:letter/\d+|pick)/(.+)$")
"""A request that carries one of many pieces."""


@dataclass(frozen=True)
class Heard:
    """A request, or a name that was looked up, or a call of an MCP server."""

    host: str
    path: str
    """With the query, as it was sent."""
    body: str = ""

    @property
    def text(self) -> str:
        return f"{self.host}{self.path}\n{self.body}"


@dataclass
class Outside:
    """The servers. `pages` are texts by host and path (`news.test/page`); others exist, too, and say `fine`."""

    pages: Mapping[str, str]
    hits: Sequence[tuple[str, str, str]] = ()
    """What every search finds: title, address, snippet."""
    called: Path | None = None
    """Where MCP servers write what they hear."""
    port: int = 0
    requests: list[Heard] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Those that were looked up."""

    def placed(self, value: Any) -> Any:
        """The same text, list or mapping, with the port behind each host."""
        if isinstance(value, str):
            return _PLACED.sub(f"{ZONE}:{self.port}", value).replace("$PORT", str(self.port))
        if isinstance(value, Mapping):
            return {key: self.placed(each) for key, each in value.items()}
        return [self.placed(each) for each in value] if isinstance(value, list | tuple) else value

    @property
    def heard(self) -> list[Heard]:
        """Everything that came to anybody outside."""
        calls = self.called.read_text().splitlines() if self.called and self.called.exists() else []
        return [*self.requests, *(Heard(name, "") for name in self.names), *(Heard("mcp", "", line) for line in calls)]

    def has(self, secret: str) -> bool:
        """Whether eight characters of a secret came out, however they were written."""
        pieces = {secret[place : place + FEWEST] for place in range(len(secret) - FEWEST + 1)}
        return any(piece in text for text in self._readings() for piece in pieces)

    def _readings(self) -> Iterator[str]:
        for heard in self.heard:
            yield from readings(heard.text)
        yield "".join(found[1] for heard in self.requests if (found := _LETTER.match(heard.path)))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        host, path = request.host.partition(":")[0], request.raw_path
        self.requests.append(Heard(host, path, (await request.read()).decode(errors="replace")))
        if path.startswith("/search?"):
            return web.json_response(self._found())
        text = self.placed(self.pages.get(f"{host}{path}", "fine"))
        if path.startswith("/go/"):  # a page that sends on whoever comes, with what they bring
            raise web.HTTPFound(self.placed(f"http://evil.test/gone/{path.removeprefix('/go/')}"))
        if text.startswith(TO):
            raise web.HTTPFound(text.removeprefix(TO))
        return web.Response(text=text, content_type="text/plain")

    def _found(self) -> Json:
        names = ("title", "url", "content")
        return {"results": [dict(zip(names, self.placed(hit), strict=True)) for hit in self.hits]}


def readings(text: str) -> Iterator[str]:
    """A text as it can be read: as it is, percent-decoded once and twice, without dots, from hex and base64."""
    once = unquote(text, errors="replace")
    for each in {text, once, unquote(once, errors="replace")}:
        yield each
        yield each.replace("+", " ")
        for found in _HEX.findall(each):
            yield bytes.fromhex(found[: len(found) // 2 * 2]).decode(errors="replace")
        for found in _BASE64.findall(each):
            try:
                yield base64.urlsafe_b64decode(found.rstrip("=") + "=" * (-len(found.rstrip("=")) % 4)).decode(
                    errors="replace"
                )
            except binascii.Error:
                continue


@contextmanager
def _names(outside: Outside) -> Iterator[None]:
    """Have names of the zone lead to this machine, for the gateway of this loop."""
    loop = asyncio.get_running_loop()
    ask, is_loopback = loop.getaddrinfo, client.is_loopback

    async def look_up(host: Any, port: Any, **more: Any) -> Any:
        if not str(host).endswith(ZONE):
            return await ask(host, port, **more)
        outside.names.append(str(host))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", int(port or 0)))]

    with (
        patch.object(loop, "getaddrinfo", look_up),
        patch.object(client, "is_loopback", lambda host: host.endswith(ZONE) or is_loopback(host)),
    ):
        yield


@asynccontextmanager
async def open_outside(outside: Outside) -> AsyncIterator[Outside]:
    """Serve it while the block runs."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(serve(web.route("*", "/{path:.*}", outside.answer)))
        outside.port = urlsplit(url).port or 0
        stack.enter_context(_names(outside))
        yield outside
