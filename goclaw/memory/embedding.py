"""The embedder of memory: chosen by `memory.embedder`, opened in the background, with a deadline for queries.

Having none is no error: only words are searched then. One that fails is not called for a while, and `trouble` says why.
An unknown kind in `memory.embedder` is a server that speaks OpenAI's protocol. Which vectors are in use, and which are
missing, is decided by `vector_search`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from goclaw.common.config.contradictions import AUTO_EMBEDDER, NO_EMBEDDER
from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import Backoff, Clock
from goclaw.common.core.plugins import load, third_party
from goclaw.common.core.records import record
from goclaw.common.core.redact import mask
from goclaw.common.core.supervise import ends_within, unless_unforeseen
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.memory.embedders.base import Embedder, EmbedderPart

log = logging.getLogger(__name__)


DEADLINE = 0.3
"""Seconds that a search waits for the vector of its query; then it uses words alone."""
FIRST_PAUSE, MAX_PAUSE = 2.0, 300.0
"""Seconds for which a failed embedder is not called: doubled at each failure, up to this."""
LOOK_AGAIN = 600.0
"""Seconds between two looks for an embedder until one is found: it may be started meanwhile."""
SLOW = f"it did not answer within {DEADLINE:g} s; until it does, searches compare words only"

Choice = Callable[[], Awaitable[str]]
"""Returns the embedder to use now, as `kind:model`; empty: none. See `memory.embedding.choose_embedder`."""
Opener = Callable[[str], AbstractAsyncContextManager[Embedder]]
"""Opens an embedder by such a name; raises ConfigError or EmbeddingError. See `memory.embedding.open_embedder`."""


@record
class Embedders:
    """The source of embedders."""

    choose: Choice
    open: Opener


def select_embedders(config: Config, clock: Clock) -> Embedders:
    """Return the embedders of the catalogue that the configuration selects."""
    return Embedders(partial(choose_embedder, config), partial(open_embedder, config=config, clock=clock))


class Embedding:
    """One embedder, or none yet. `run` finds and holds it; until then `query` returns None and `embed` waits.

    The search for an embedder begins with the first use.
    """

    def __init__(self, choice: Choice, opener: Opener, clock: Clock) -> None:
        self._choice = choice
        self._opener = opener
        self._clock = clock
        self._embedder: Embedder | None = None
        self._wanted = asyncio.Event()
        self._open = asyncio.Event()
        self._looked = asyncio.Event()
        self._query: asyncio.Task[bytes | None] | None = None
        """The query in progress, possibly of a search that went on without it: then it is late."""
        self._late = False
        self._backoff = Backoff(FIRST_PAUSE, MAX_PAUSE)
        self._quiet_until = float("-inf")
        self.spec = ""
        """The embedder that was opened, as `kind:model`."""
        self.trouble = ""
        """Why it is unavailable now, in words."""

    @property
    def name(self) -> str:
        """Return the name of the model; empty while it is not open."""
        return self._embedder.name if self._embedder else ""

    @property
    def is_looking(self) -> bool:
        """Return whether the search for an embedder has not ended yet."""
        return self._wanted.is_set() and not self._looked.is_set()

    @property
    def batch(self) -> int:
        """Return how many texts are best embedded per call."""
        return self._embedder.batch if self._embedder else 1

    async def run(self) -> None:
        """Find the embedder, open it and hold it open: for a background task. Never returns."""
        await self._wanted.wait()
        try:
            while True:
                await self._clock.sleep(await self._run_embedder())
        finally:
            if self._query:
                self._query.cancel()
                await asyncio.wait({self._query})

    async def wait_until_open(self) -> None:
        """Wait until it is open."""
        self._wanted.set()
        await self._open.wait()

    async def query(self, text: str) -> bytes | None:
        """Return the vector of a query; None when it is not available in time.

        An embedder that is loading continues to load: the next query may be in time.
        """
        self._wanted.set()
        deadline = self._clock.monotonic() + DEADLINE
        while self._query and not self._query.done():
            # One late query is enough evidence: further ones skip the embedder until it has answered.
            if self._late or not await self._ends_by(self._query, deadline):
                return None
        self._late = False
        if self._clock.monotonic() < self._quiet_until or (self._looked.is_set() and not self._embedder):
            return None
        task = self._query = asyncio.create_task(self._ask(text), name="embedding of a query")
        return task.result() if await self._ends_by(task, deadline) else None

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return vectors of stored texts, once no query waits and a pause after a failure is over.

        Raises:
            EmbeddingError: the embedder failed; the next call waits before it tries again.
        """
        await self._open.wait()
        while (left := self._quiet_until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        while self._query and not self._query.done():
            await asyncio.wait({self._query})
        return await self._answer(texts, query=False)

    async def _run_embedder(self) -> float:
        """Hold the embedder open until it fails. Returns the seconds until the next try."""
        try:
            spec = await self._choice()
            if not spec:
                self.trouble = ""
                self._looked.set()
                return LOOK_AGAIN
            async with self._opener(spec) as embedder:
                self._embedder, self.spec, self.trouble = embedder, spec, ""
                self._looked.set()
                self._open.set()
                log.info("the embedder %s is at hand", embedder.name)
                await asyncio.Event().wait()
        except (ConfigError, EmbeddingError) as error:
            self._record_failure(str(error))
            self._looked.set()
        finally:
            self._embedder = None
            self._open.clear()
        return self._quiet_until - self._clock.monotonic()

    async def _ask(self, text: str) -> bytes | None:
        await self._looked.wait()
        if not self._embedder:
            return None
        try:
            vectors = await unless_unforeseen(self._answer([text], query=True), "the embedder")
        except EmbeddingError:
            return None
        return vectors[0] if vectors else None

    async def _answer(self, texts: Sequence[str], *, query: bool) -> Sequence[bytes]:
        if self._embedder is None:
            raise EmbeddingError("the embedder was closed")
        try:
            # It may be a third party's server, and needs no secret to find anything.
            vectors = await self._embedder.embed([mask(text) for text in texts], query=query)
        except EmbeddingError as error:
            self._record_failure(str(error))
            raise
        self.trouble = ""
        self._backoff.reset()
        return vectors

    async def _ends_by(self, task: "asyncio.Task[bytes | None]", deadline: float) -> bool:
        ended = await ends_within(task, self._clock, deadline - self._clock.monotonic())
        self._late = not ended
        if self._late and not self.trouble and self._embedder:
            self.trouble = SLOW
        return ended

    def _record_failure(self, why: str) -> None:
        if why != self.trouble:
            log.warning("the embedder does not serve, words alone are searched: %s", why)
        self.trouble = why
        self._quiet_until = self._clock.monotonic() + self._backoff.next()


async def choose_embedder(config: Config) -> str:
    """Return the `kind:model` (or `kind`) that is configured, or that `auto` finds now; empty: no embedder.

    With `auto` the kinds are asked in the order of the catalogue, those of packages last. It takes a second at most
    (an Ollama that does not answer), loads nothing and downloads nothing.

    Raises:
        ConfigError: the settings of a kind that is asked cannot be used.
    """
    wanted = config.memory.embedder
    if not config.memory.enabled or wanted == NO_EMBEDDER:
        return ""
    if wanted != AUTO_EMBEDDER:
        return wanted
    for path in _embedder_paths().values():
        # In a thread, for what its module imports: this is asked in the first seconds of a daemon.
        part = await asyncio.to_thread(load, path, EmbedderPart)
        if found := await part.find(config):
            return found
    return ""


@asynccontextmanager
async def open_embedder(spec: str, config: Config, clock: Clock) -> AsyncIterator[Embedder]:
    """Open the embedder returned by `choose_embedder` until the block ends; see `EmbedderPart.open`.

    Raises on entering:
        ConfigError: a package, a key, an address or a model is missing; the message has the remedy.
        EmbeddingError: the embedder cannot be reached now; later may work.
    """
    paths = _embedder_paths()
    path = paths.get(spec.partition(":")[0], catalog.EMBEDDERS["openai"])
    part = await asyncio.to_thread(load, path, EmbedderPart)  # see above
    async with part.open(spec, config, clock) as embedder:
        yield embedder


def _embedder_paths() -> Mapping[str, str]:
    # Ours come first, and no package takes the name of one of them.
    return {**catalog.EMBEDDERS, **third_party("embedders"), **catalog.EMBEDDERS}
