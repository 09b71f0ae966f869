"""OpenAI's `POST /embeddings`, and every server that speaks it: of `config.servers` or with a `base_url` of its own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp

from goclaw.clock import Clock
from goclaw.config.schema import Config, ProviderSettings
from goclaw.config.servers import SERVERS
from goclaw.embedders.asking import EmbeddingServer, as_bytes
from goclaw.embedders.base import Embedder, EmbedderPart
from goclaw.embedders.texts import in_batches, prefixes, prepared
from goclaw.errors import EmbeddingError
from goclaw.net import open_client
from goclaw.net.openai import place_of

BATCH = 32
"""Texts per request: small enough for a server on this machine; OpenAI takes 2,048."""


class OpenAIEmbedder:
    """An `Embedder` on one server."""

    batch = BATCH

    def __init__(self, name: str, model: str, server: EmbeddingServer, http: aiohttp.ClientSession) -> None:
        self.name = name
        self._model = model
        self._prefixes = prefixes(model)
        self._server = server
        self._http = http

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[bytes]:
        """See `base.Embedder`."""
        before = self._prefixes.query if query else self._prefixes.document
        found: list[bytes] = []
        for batch in in_batches(texts, BATCH):
            body = {"model": self._model, "input": prepared(batch, before)}
            vectors = _in_order(self._server.name, await self._server.ask(self._http, body))
            found += await as_bytes(self._server.name, vectors, len(batch))
        return found


def _in_order(name: str, answer: object) -> Sequence[object]:
    """Return the vectors of an answer; its rows have numbers, and may come in any order."""
    try:
        rows = {row["index"]: row["embedding"] for row in answer["data"]}  # type: ignore[index]  # it is JSON: see below
        return [rows[index] for index in range(len(rows))]
    except (TypeError, LookupError):
        raise EmbeddingError(f"{name} answers, but without vectors; is its base_url right?") from None


@asynccontextmanager
async def open_openai(spec: str, config: Config, clock: Clock) -> AsyncIterator[Embedder]:
    """Open the embedder for `name:model` until the block ends. A key is sent to its own server only.

    Raises:
        ConfigError: the address or the key is missing.
    """
    provider, _, model = spec.partition(":")
    settings = config.providers.get(provider, ProviderSettings())
    base_url, headers = place_of("memory.embedder", provider, settings, SERVERS)
    server = EmbeddingServer(
        name=spec,
        url=f"{base_url}/embeddings",
        unreachable=f"is it running, and is providers.{provider}.base_url right?",
        unknown=f"check the model in memory.embedder and providers.{provider}.base_url",
        refused=f"check providers.{provider}.api_key",
        headers=headers,
    )
    # Another server may have another model by the same name.
    name = f"{spec}@{urlsplit(base_url).netloc.rpartition('@')[2]}" if settings.base_url else spec
    async with open_client() as http:
        yield OpenAIEmbedder(name, model, server, http)


async def find_openai(config: Config) -> str:
    """Find nothing for `auto`: texts go to an external server only when that was configured."""
    return ""


EMBEDDER = EmbedderPart("openai", find_openai, open_openai)
