"""The embedder as memory has it: looked for and opened in the background, and asked for a query only so long.

That there is none is no trouble: words alone are searched then. One that fails is left alone for a while, and in
`trouble` stands why. Which vectors serve, and which are missing, is `backfilling`'s business.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.embedders.base import Embedder
from goclaw.embedders.open import choose_embedder, open_embedder
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.records import record
from goclaw.redact import mask
from goclaw.supervise import ends_within, unless_unforeseen

log = logging.getLogger(__name__)

DEADLINE = 0.3
"""Seconds that a search waits for the vector of its query; then words serve."""
FIRST_PAUSE, MAX_PAUSE = 2.0, 300.0
"""Seconds for which an embedder that failed is left alone: doubled at each failure, up to this."""
LOOK_AGAIN = 600.0
"""Seconds between two looks for an embedder where there is none: somebody may start one."""
SLOW = f"it did not answer within {DEADLINE:g} s; until it does, words alone are searched"

Choice = Callable[[], Awaitable[str]]
"""Which embedder is wanted now, as `kind:model`; empty: none. See `embedders.open.choose_embedder`."""
Opener = Callable[[str], AbstractAsyncContextManager[Embedder]]
"""Opens one by such a name; raises ConfigError or EmbeddingError. See `embedders.open.open_embedder`."""


@record
class Embedders:
    """Where embedders come from."""

    choose: Choice
    open: Opener


def configured(config: Config, clock: Clock) -> Embedders:
    """Those of the catalogue, as the configuration wants them."""
    return Embedders(partial(choose_embedder, config), partial(open_embedder, config=config, clock=clock))


class Embedding:
    """One embedder, or none yet. `run` finds and holds it; until then `query` is None and `embed` waits.

    Nothing is looked for before somebody wants it.
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
        """The one that is being asked, perhaps for a search that has gone on without it: then it is late."""
        self._late = False
        self._pause = FIRST_PAUSE
        self._quiet_until = float("-inf")
        self.spec = ""
        """What was opened, as `kind:model`."""
        self.trouble = ""
        """Why it does not serve now, in words."""

    @property
    def name(self) -> str:
        """Whose vectors it makes; empty while it is not open."""
        return self._embedder.name if self._embedder else ""

    @property
    def is_looking(self) -> bool:
        """Whether nobody knows yet if there is one."""
        return self._wanted.is_set() and not self._looked.is_set()

    @property
    def batch(self) -> int:
        """How many texts are best given at once."""
        return self._embedder.batch if self._embedder else 1

    async def run(self) -> None:
        """Look for the embedder, open it and hold it open: for a background task. Never returns."""
        await self._wanted.wait()
        try:
            while True:
                await self._clock.sleep(await self._held())
        finally:
            await self._end_query()

    async def opened(self) -> None:
        """Wait until it is open."""
        self._wanted.set()
        await self._open.wait()

    async def query(self, text: str) -> bytes | None:
        """The vector of a text that asks; None when it is not to be had in time.

        An embedder that loads goes on with it: the next query may be in time.
        """
        self._wanted.set()
        deadline = self._clock.monotonic() + DEADLINE
        while self._query and not self._query.done():
            # One that is late already says enough: nobody waits for the embedder then, until it has answered.
            if self._late or not await self._ends_by(self._query, deadline):
                return None
        self._late = False
        if self._clock.monotonic() < self._quiet_until or (self._looked.is_set() and not self._embedder):
            return None
        task = self._query = asyncio.create_task(self._asked(text), name="embedding of a query")
        return task.result() if await self._ends_by(task, deadline) else None

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Vectors of texts that answer, when no query waits and a pause after a failure is over.

        Raises:
            EmbeddingError: not now; the next call waits before it asks again.
        """
        await self._open.wait()
        while (left := self._quiet_until - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        while self._query and not self._query.done():
            await asyncio.wait({self._query})
        return await self._answer(texts, query=False)

    async def _held(self) -> float:
        """Open it, until it cannot be used any more. Returns the seconds until the next try."""
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
            self._failed(str(error))
            self._looked.set()
        finally:
            self._embedder = None
            self._open.clear()
        return self._quiet_until - self._clock.monotonic()

    async def _asked(self, text: str) -> bytes | None:
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
            # It may be somebody else's server, and finds nothing by a secret.
            vectors = await self._embedder.embed([mask(text) for text in texts], query=query)
        except EmbeddingError as error:
            self._failed(str(error))
            raise
        self.trouble, self._pause = "", FIRST_PAUSE
        return vectors

    async def _ends_by(self, task: "asyncio.Task[bytes | None]", deadline: float) -> bool:
        ended = await ends_within(task, self._clock, deadline - self._clock.monotonic())
        self._late = not ended
        if self._late and not self.trouble and self._embedder:
            self.trouble = SLOW
        return ended

    def _failed(self, why: str) -> None:
        if why != self.trouble:
            log.warning("the embedder does not serve, words alone are searched: %s", why)
        self.trouble = why
        self._quiet_until = self._clock.monotonic() + self._pause
        self._pause = min(2 * self._pause, MAX_PAUSE)

    async def _end_query(self) -> None:
        if self._query:
            self._query.cancel()
            await asyncio.wait({self._query})
