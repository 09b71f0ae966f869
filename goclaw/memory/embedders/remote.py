"""Embedders on servers: Ollama's `POST /api/embed`, and OpenAI's `POST /embeddings` with every server that speaks it.

The latter are those of `config.servers` and others with a `base_url`. All requests go over the shared HTTP client, and
failures become an `EmbeddingError` in words. The `ollama` package is not used: that takes half a second and 20 MB to
import, and reads each answer of a hundred kilobytes on the event loop.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.config.servers import SERVERS, place_of
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.net import open_client
from goclaw.common.net.client import KEY_REFUSED, PASSING, parse_retry_after, quoted_error, read_whole
from goclaw.common.net.ollama import ollama_url, probe
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.memory.embedders.base import Embedder, EmbedderPart, in_batches, prefixes, prepare, quantise

BATCH_SECONDS = 120.0
"""Time limit for one batch: a server on a slow machine may have to load its model first."""
ANSWER_LIMIT = 64 << 20
"""Bytes of an answer that are read; 32 vectors of 4,096 numbers have 3 MB."""
NOT_FOUND = 404
PATIENCE = 10.0
MAX_PATIENCE = 600.0
"""Seconds to wait if the server does not say how long, and the maximum accepted from it."""

OLLAMA_KIND = "ollama"
USUAL_OLLAMA_MODEL = "nomic-embed-text"
EMBEDDING_NAMES = re.compile(r"embed|minilm|bge-|gte-|e5-", re.IGNORECASE)
"""Models that embed, for servers that do not list what their models can do (before 0.6.4)."""
OLLAMA_BATCH = 16
"""Texts per request: a query with a waiting person stands behind at most one of them."""
LOOKED_AT_EVERY = 60.0
"""Seconds after which the server is asked again which version of the model it has."""
LOOKING_SECONDS = 5.0
DIGEST_DIGITS = 12
"""Digits of a digest, as `ollama list` shows them."""

OPENAI_BATCH = 32
"""Texts per request: small enough for a server on this machine; OpenAI takes 2,048."""


@record
class EmbeddingServer:
    """An embedding server, and its remedies for error messages."""

    name: str
    url: str
    unreachable: str
    """Remedy when no server answers."""
    unknown: str
    """Remedy when the model or the address is unknown there."""
    refused: str
    """Remedy when the key is refused."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    seconds: float = BATCH_SECONDS

    async def ask(self, http: aiohttp.ClientSession, body: Mapping[str, Any]) -> Any:
        """Send a request and return the JSON of its answer.

        Raises:
            EmbeddingError: it cannot be reached, refuses, or answers something else.
        """
        content = await asyncio.to_thread(orjson.dumps, body)
        headers = {"content-type": "application/json", **self.headers}
        try:
            # A redirect would send the key and the texts to another server.
            async with (
                asyncio.timeout(self.seconds),
                http.post(self.url, data=content, headers=headers, allow_redirects=False) as response,
            ):
                answer = await read_whole(response, ANSWER_LIMIT)
        except TimeoutError:
            raise EmbeddingError(f"{self.name} did not answer in time", retry_after=PATIENCE) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:  # the last for an address that aiohttp refuses
            raise EmbeddingError(
                f"{self.name} cannot be reached ({type(error).__name__}); {self.unreachable}", retry_after=PATIENCE
            ) from None
        if answer is None:
            raise EmbeddingError(f"{self.name} answered more than {ANSWER_LIMIT >> 20} MB")
        if response.status != 200:
            raise self._refusal(response, answer)
        try:
            return await asyncio.to_thread(orjson.loads, answer)
        except orjson.JSONDecodeError:
            raise EmbeddingError(f"{self.name} answers, but not like an embedder; {self.unknown}") from None

    def _refusal(self, response: aiohttp.ClientResponse, body: bytes) -> EmbeddingError:
        if response.status in KEY_REFUSED:
            return EmbeddingError(f"{self.name} refused the key; {self.refused}")
        message = f"{self.name} answered HTTP {response.status}{quoted_error(body)}"
        if response.status in PASSING:
            asked = parse_retry_after(response.headers)
            wait = PATIENCE if asked is None else min(asked, MAX_PATIENCE)
            return EmbeddingError(f"{message}; trying again in {wait:g} s", retry_after=wait)
        return EmbeddingError(f"{message}; {self.unknown}" if response.status == NOT_FOUND else message)


async def as_bytes(name: str, vectors: object, count: int) -> list[bytes]:
    """Convert a server's vectors for `count` texts to the form of `Embedder.embed`. In a thread: it is much arithmetic.

    Raises:
        EmbeddingError: these are not as many vectors, or not of one length.
    """
    try:
        return await asyncio.to_thread(_as_bytes, vectors, count)
    except (TypeError, ValueError, OverflowError):
        raise EmbeddingError(f"{name} did not return one vector per text") from None


def _as_bytes(vectors: object, count: int) -> list[bytes]:
    if not isinstance(vectors, Sequence) or len(vectors) != count:
        raise ValueError
    found = [quantise(vector) for vector in vectors]
    if count and (not found[0] or len({len(vector) for vector in found}) != 1):
        raise ValueError
    return found


class OllamaEmbedder:
    """An `Embedder` on an Ollama server."""

    batch = OLLAMA_BATCH

    def __init__(
        self, model: str, base_url: str, server: EmbeddingServer, http: aiohttp.ClientSession, clock: Clock
    ) -> None:
        self.name = f"{OLLAMA_KIND}:{model}"
        self._model = model
        self._prefixes = prefixes(model)
        self._base_url = base_url
        self._server = server
        self._http = http
        self._clock = clock
        self._looked = -LOOKED_AT_EVERY

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[bytes]:
        """See `base.Embedder`."""
        if self._clock.monotonic() - self._looked >= LOOKED_AT_EVERY:
            try:
                await self.find_version()
            except ConfigError as error:
                raise EmbeddingError(str(error), retry_after=PATIENCE) from None  # it was there when we began
        before = self._prefixes.query if query else self._prefixes.document
        found: list[bytes] = []
        for batch in in_batches(texts, OLLAMA_BATCH):
            body = {"model": self._model, "input": prepare(batch, before), "truncate": True}
            answer = await self._server.ask(self._http, body)
            vectors = answer.get("embeddings") if isinstance(answer, dict) else None
            found += await as_bytes(self._server.name, vectors, len(batch))
        return found

    async def find_version(self) -> None:
        """Find the version of the model.

        Raises:
            ConfigError: the model is not pulled.
            EmbeddingError: no server answers.
        """
        there = await probe(self._http, self._base_url, LOOKING_SECONDS)
        if there is None:
            raise EmbeddingError(
                f"Ollama does not answer at {self._base_url}; {self._server.unreachable}", retry_after=PATIENCE
            )
        model = there.find(self._model)
        if model is None:
            raise ConfigError(f"memory.embedder: Ollama has no model {self._model}; {self._server.unknown}")
        version = model.digest.removeprefix("sha256:")[:DIGEST_DIGITS] or model.modified_at
        self.name = f"{OLLAMA_KIND}:{model.name}@{version}"
        self._looked = self._clock.monotonic()


@asynccontextmanager
async def open_ollama(spec: str, config: Config, clock: Clock) -> AsyncIterator[Embedder]:
    """Open the embedder for `ollama:name[:tag]` until the block ends.

    Raises:
        ConfigError: the model is not pulled.
        EmbeddingError: no server answers.
    """
    model = spec.partition(":")[2] or USUAL_OLLAMA_MODEL
    settings = config.providers.get(OLLAMA_KIND, ProviderSettings())
    base_url = ollama_url(settings)
    server = EmbeddingServer(
        name=f"{OLLAMA_KIND}:{model}",
        url=f"{base_url}/api/embed",
        unreachable="start it (`ollama serve`) or set providers.ollama.base_url",
        unknown=f"try `ollama pull {model}`",
        refused="check providers.ollama.api_key",
        headers={"authorization": f"Bearer {settings.api_key.get_secret_value()}"} if settings.api_key else {},
    )
    async with open_client() as http:
        embedder = OllamaEmbedder(model, base_url, server, http, clock)
        await embedder.find_version()
        yield embedder


async def find_ollama(config: Config) -> str:
    """Return the usual model, else the newest that embeds, if an Ollama answers within a second and has one."""
    async with open_client() as http:
        there = await probe(http, ollama_url(config.providers.get(OLLAMA_KIND, ProviderSettings())))
    if there is None:
        return ""
    by_name = (each for each in there.models if not each.capabilities and EMBEDDING_NAMES.search(each.name))
    model = there.find(USUAL_OLLAMA_MODEL) or there.for_embedding() or next(by_name, None)
    return f"{OLLAMA_KIND}:{model.name.removesuffix(':latest')}" if model else ""


OLLAMA = EmbedderPart(OLLAMA_KIND, find_ollama, open_ollama)


class OpenAIEmbedder:
    """An `Embedder` on one server."""

    batch = OPENAI_BATCH

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
        for batch in in_batches(texts, OPENAI_BATCH):
            body = {"model": self._model, "input": prepare(batch, before)}
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


OPENAI = EmbedderPart("openai", find_openai, open_openai)
