"""Ollama's and OpenAI's embeddings on loopback, as their references describe them, strict about what they are sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from goclaw.common.config.schema import Config
from tests.http_server import serve

KEY = "canary-embedding-key-0815"


def vector(text: str) -> list[float]:
    """What the fake model makes of a text: its length, and how many blanks it has."""
    return [float(len(text)), -float(text.count(" ")), 0.5]


@dataclass
class FakeEmbeddings:
    """What it was asked, and how it answers."""

    url: str = ""
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of Ollama, by name: `digest`, `capabilities`."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    """The header `Authorization` of each request, whole."""
    status: int = 200
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def config(self, embedder: str, **provider: Any) -> Config:
        """A configuration with this server as the one that `embedder` names."""
        kind = embedder.partition(":")[0]
        path = "" if kind == "ollama" else "/v1"
        settings = {kind: {"base_url": f"{self.url}{path}"} | provider}
        return Config.model_validate({"providers": settings, "memory": {"embedder": embedder}})

    async def tags(self, request: web.Request) -> web.Response:
        """`/api/tags`."""
        return web.json_response({"models": [{"name": name, **model} for name, model in self.models.items()]})

    async def show(self, request: web.Request) -> web.Response:
        """`/api/show` of a server that says nothing of abilities."""
        return web.json_response({})

    async def embed(self, request: web.Request) -> web.Response:
        """`/api/embed`."""
        texts = await self._taken(request, {"model", "input", "truncate"})
        return self._trouble() or web.json_response({"embeddings": [vector(text) for text in texts]})

    async def embeddings(self, request: web.Request) -> web.Response:
        """`/v1/embeddings`; the rows come in another order."""
        texts = await self._taken(request, {"model", "input"})
        rows = [{"object": "embedding", "index": i, "embedding": vector(text)} for i, text in enumerate(texts)]
        return self._trouble() or web.json_response({"object": "list", "data": rows[::-1]})

    async def _taken(self, request: web.Request, keys: set[str]) -> list[str]:
        body = await request.json()
        assert body.keys() == keys and all(isinstance(text, str) and text.strip() for text in body["input"])
        self.asked.append(body)
        self.keys.append(request.headers.get("Authorization", ""))
        return list(body["input"])

    def _trouble(self) -> web.Response | None:
        if self.status == 200 and self.body is None:
            return None
        return web.Response(status=self.status, text=self.body or "", headers=self.headers)


@asynccontextmanager
async def fake_embeddings() -> AsyncIterator[FakeEmbeddings]:
    """The server, while the block runs."""
    fake = FakeEmbeddings()
    routes = [
        web.get("/api/tags", fake.tags),
        web.post("/api/show", fake.show),
        web.post("/api/embed", fake.embed),
        web.post("/v1/embeddings", fake.embeddings),
    ]
    async with serve(*routes) as fake.url:
        yield fake
