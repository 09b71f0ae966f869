"""Ollama's `POST /api/embed`.

Over the shared HTTP client and not through the `ollama` package: that takes half a second and 20 MB to import, and
reads each answer of a hundred kilobytes on the event loop.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp

from goclaw.clock import Clock
from goclaw.config.schema import Config, ProviderSettings
from goclaw.embedders.asking import PATIENCE, EmbeddingServer, as_bytes
from goclaw.embedders.base import Embedder, EmbedderPart
from goclaw.embedders.texts import in_batches, prefixes, prepared
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.net import open_client
from goclaw.net.ollama import OllamaServer, PulledModel, ollama_url, probe

KIND = "ollama"
USUAL_MODEL = "nomic-embed-text"
EMBEDDING_NAMES = re.compile(r"embed|minilm|bge-|gte-|e5-", re.IGNORECASE)
"""Models that embed, for servers that do not list what their models can do (before 0.6.4)."""
BATCH = 16
"""Texts per request: a query with a waiting person stands behind at most one of them."""
LOOKED_AT_EVERY = 60.0
"""Seconds after which the server is asked again which version of the model it has."""
LOOKING_SECONDS = 5.0
DIGITS = 12
"""Digits of a digest, as `ollama list` shows them."""


class OllamaEmbedder:
    """An `Embedder` on an Ollama server."""

    batch = BATCH

    def __init__(
        self, model: str, base_url: str, server: EmbeddingServer, http: aiohttp.ClientSession, clock: Clock
    ) -> None:
        self.name = f"{KIND}:{model}"
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
            await self._look_again()
        before = self._prefixes.query if query else self._prefixes.document
        found: list[bytes] = []
        for batch in in_batches(texts, BATCH):
            body = {"model": self._model, "input": prepared(batch, before), "truncate": True}
            answer = await self._server.ask(self._http, body)
            vectors = answer.get("embeddings") if isinstance(answer, dict) else None
            found += await as_bytes(self._server.name, vectors, len(batch))
        return found

    async def _look_again(self) -> None:
        try:
            await self.look()
        except ConfigError as error:
            raise EmbeddingError(str(error), retry_after=PATIENCE) from None  # it was there when we began

    async def look(self) -> None:
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
        version = model.digest.removeprefix("sha256:")[:DIGITS] or model.modified_at
        self.name = f"{KIND}:{model.name}@{version}"
        self._looked = self._clock.monotonic()


@asynccontextmanager
async def open_ollama(spec: str, config: Config, clock: Clock) -> AsyncIterator[Embedder]:
    """Open the embedder for `ollama:name[:tag]` until the block ends.

    Raises:
        ConfigError: the model is not pulled.
        EmbeddingError: no server answers.
    """
    model = spec.partition(":")[2] or USUAL_MODEL
    settings = config.providers.get(KIND, ProviderSettings())
    base_url = ollama_url(settings)
    server = EmbeddingServer(
        name=f"{KIND}:{model}",
        url=f"{base_url}/api/embed",
        unreachable="start it (`ollama serve`) or set providers.ollama.base_url",
        unknown=f"try `ollama pull {model}`",
        refused="check providers.ollama.api_key",
        headers={"authorization": f"Bearer {settings.api_key.get_secret_value()}"} if settings.api_key else {},
    )
    async with open_client() as http:
        embedder = OllamaEmbedder(model, base_url, server, http, clock)
        await embedder.look()
        yield embedder


async def find_ollama(config: Config) -> str:
    """Return the usual model, else the newest that embeds, if an Ollama answers within a second and has one."""
    async with open_client() as http:
        there = await probe(http, ollama_url(config.providers.get(KIND, ProviderSettings())))
    model = there and (there.find(USUAL_MODEL) or there.for_embedding() or _by_name(there))
    return f"{KIND}:{model.name.removesuffix(':latest')}" if model else ""


def _by_name(there: OllamaServer) -> PulledModel | None:
    silent = (model for model in there.models if not model.capabilities)
    return next((model for model in silent if EMBEDDING_NAMES.search(model.name)), None)


EMBEDDER = EmbedderPart(KIND, find_ollama, open_ollama)
