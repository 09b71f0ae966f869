"""A registry on the loopback that does what it is told: also what no registry should."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from goclaw.common.config.registries import RegistrySettings
from goclaw.common.core.clock import SteppedClock
from goclaw.common.net import open_client
from goclaw.extensions.registries.base import digest
from goclaw.extensions.registries.catalog_store import FILE, CatalogStore, TakenOver
from goclaw.extensions.registries.client import RegistryClient
from goclaw.extensions.registries.syncing import sync

TOKEN = "a-token-for-this-registry-0001"


def toolset(name: str = "data-tools", version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    """A document."""
    tool = {"name": "echo", "description": "Say it again.", "input_schema": {"type": "object"}}
    return {"kind": "toolset", "name": name, "version": version, "tools": [tool], **more}


def item(document: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A document as it is listed."""
    return {"document": document, "sha256": digest(document), "published_at": 1.0, "latest": False, "via": [], **more}


@dataclass
class FakeRegistry:
    """What it lists, what it does instead of answering, and what it was asked."""

    items: list[Any] = field(default_factory=list)
    id: str = "fake"
    page_size: int = 100
    etag: str = ""
    instead: list[web.Response | bytes | asyncio.Event] = field(default_factory=list)
    """Answers that come first, one for each request: a response, a body, or nothing until the event."""
    down: bool = False
    """It answers nothing but that it is out of order."""
    asked: list[web.Request] = field(default_factory=list)
    put: list[Any] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def settings(self, **more: Any) -> RegistrySettings:
        """What the configuration says of it."""
        return RegistrySettings.model_validate({"url": self.url, "auth": TOKEN, "timeout": 5, **more})

    def pages(self) -> list[str]:
        """The cursors that it was asked for."""
        return [request.query.get("cursor", "") for request in self.asked]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if self.instead:
            match self.instead.pop(0):
                case asyncio.Event() as event:
                    await event.wait()
                    return web.Response(status=500)
                case bytes() as body:
                    return web.Response(body=body)
                case web.Response() as response:
                    return response
        if self.down:
            return web.Response(status=503)
        if request.method != "GET":
            self.put.append(await request.json() if request.can_read_body else None)
            return web.json_response({}, status=201)
        if self.etag and request.headers.get("If-None-Match") == self.etag:
            return web.Response(status=304)
        start = int(request.query.get("cursor") or 0)
        found = self.items[start : start + self.page_size]
        more = start + self.page_size < len(self.items)
        page = {"registry": {"id": self.id, "name": "Fake"}, "entries": found}
        page |= {"next_cursor": str(start + self.page_size)} if more else {}
        return web.json_response(page, headers={"ETag": self.etag} if self.etag else {})

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=4 << 20)
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", self.port)
            await site.start()
            self.port = runner.addresses[0][1]
            yield
        finally:
            await runner.cleanup()


@asynccontextmanager
async def fake_registry(*documents: Mapping[str, Any], **more: Any) -> AsyncIterator[FakeRegistry]:
    """One that lists these documents."""
    made = FakeRegistry([item(document) for document in documents], **more)
    async with made.listening():
        yield made


class HastyClock(SteppedClock):
    """Whoever waits has waited; how long is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


@dataclass
class Asking:
    """A gateway's end of it."""

    registry: FakeRegistry
    http: aiohttp.ClientSession
    clock: HastyClock
    state: Path

    @property
    def shelf(self) -> CatalogStore:
        return CatalogStore(self.state / FILE)

    def client(self, **settings: Any) -> RegistryClient:
        return RegistryClient("corp", self.registry.settings(**settings), self.http, self.clock)

    async def sync(self, **settings: Any) -> TakenOver:
        return await sync("corp", self.registry.settings(**settings), self.shelf, self.http, self.clock)

    def kept(self) -> list[str]:
        """What is on the shelf of it."""
        return [f"{each.entry.name} {each.entry.version}" for each in self.shelf.entries("corp")]


@asynccontextmanager
async def asking(folder: Path, registry: FakeRegistry) -> AsyncIterator[Asking]:
    """A gateway that has its state in this folder."""
    async with open_client() as http:
        yield Asking(registry, http, HastyClock(), folder)
