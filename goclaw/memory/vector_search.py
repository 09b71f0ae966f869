"""Search by meaning: the vectors in use, and the background task that embeds every text of the index.

Where there is no embedder, or it is late, `near` returns None, and the search uses words alone. Searches do not wait
for the background task: a text without a vector is found by its words. Stored vectors stay, so a restart resumes where
the last run ended. Another model's vectors are made next to those in use and replace them once complete.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background
from goclaw.errors import EmbeddingError, StateError
from goclaw.memory.embedding import Embedders, Embedding
from goclaw.memory.index import text_vectors
from goclaw.memory.index.database import IndexFile
from goclaw.memory.index.schema import Corpus, Scope
from goclaw.memory.index.text_vectors import Count, Missing, VectorModel
from goclaw.memory.ranking import WINDOW_DEPTH
from goclaw.memory.similar import Similar

if TYPE_CHECKING:
    from goclaw.durable.store.replicas import SharedVectors

log = logging.getLogger(__name__)


Near = Sequence[tuple[int, int, float]]
"""First place, last place and cosine of each hit."""


LOOKING = "is being looked for"


@record
class Standing:
    """The progress of the vectors."""

    model: str
    """The model whose vectors are in use; empty: none are."""
    coming: str
    """The model whose vectors are being computed in addition to those."""
    trouble: str
    count: Count


class VectorSearch:
    """Search by meaning. `alone`: for a single command; existing vectors are used, none are made.

    `shared`: what gateways that share a store have made for each other.
    """

    def __init__(
        self, index: IndexFile, embedders: Embedders, clock: Clock, *, alone: bool, shared: "SharedVectors | None"
    ) -> None:
        self._index = index
        self._embedders = embedders
        self._clock = clock
        self._alone = alone
        self._similar = Similar(index)
        self._embedding = Embedding(embedders.choose, embedders.open, clock)
        self._former: Embedding | None = None
        """The embedder of the vectors in use, while another one's are made."""
        self._filling = Backfilling(index, self._embedding, self._similar, clock, self._beside, shared)

    async def maintain(self) -> None:
        """Open the embedder when it is needed, and keep it open: for a background task."""
        await self._embedding.run()

    async def fill(self) -> None:
        """Embed missing texts: for a background task. Raises the errors of `Backfilling.run`."""
        await self._filling.run()

    async def near(self, corpus: Corpus, query: str, scope: Scope) -> Near | None:
        """Return the hits nearest to a query, within a scope."""
        model = self._similar.model
        if self._alone and not model:
            model = await self._serving()
        near = await self._near_by(model, corpus, query, scope)
        if near is None and self._similar.model not in ("", model):
            # Another model's vectors have taken over meanwhile.
            return await self._near_by(self._similar.model, corpus, query, scope)
        return near

    async def standing(self) -> Standing:
        """Return the progress of the vectors."""
        name = self._embedding.name
        served = await self._serving() if self._alone else self._similar.model
        count = self._filling.count
        if not name and served:
            count = await self._filling.count_units(served)
        coming = name if served and name not in ("", served) else ""
        trouble = LOOKING if self._embedding.is_looking else self._embedding.trouble
        return Standing(served, coming, trouble, count)

    async def _near_by(self, model: str, corpus: Corpus, query: str, scope: Scope) -> Near | None:
        embedding = self._former if self._former and self._embedding.name != model else self._embedding
        if not model or (vector := await embedding.query(query)) is None or embedding.name != model:
            return None
        if self._alone:
            await self._similar.serve(model)
        await self._similar.follow()
        return await self._similar.nearest(model, corpus, vector, scope, WINDOW_DEPTH)

    async def _serving(self) -> str:
        serving = await self._index.read(text_vectors.serving)
        return serving.name if serving else ""

    @asynccontextmanager
    async def _beside(self, model: VectorModel) -> AsyncIterator[None]:
        """Hold the embedder of the vectors in use, for queries, while those of another one are made."""

        async def spec() -> str:
            return model.spec

        self._former = Embedding(spec, self._embedders.open, self._clock)
        try:
            async with background(self._former.run(), "embedder of the vectors that serve"):
                yield
        finally:
            self._former = None


SETTLE, SETTLE_AT_MOST = 2.0, 15.0
"""Seconds without a change after which new texts are embedded, and how long changes may put that off: the end of a
running conversation changes with each message."""
PAUSE = 0.25
MAX_PAUSE = 2.0
"""The pause after a batch, as a fraction of the time the batch took, and its upper bound in seconds.
The pause leaves CPU time to other tasks."""
REPORT_SECONDS = 60.0
"""Between two lines in the log about how far it is."""
WORTH_TELLING = 100
"""Texts without a vector that are logged at once: a running conversation has a few every minute."""
TRIES = 3
"""How often a text is tried alone before the others get their turn."""
TIDY_SECONDS = 3_600.0
"""Seconds between two removals of unused vectors, after which skipped texts are tried again."""
LEFT_OUT_AT_MOST = 0.01
"""The share of all texts that may lack a vector when a model takes over: some texts no model can read."""
DELETED_AT_ONCE = 500
"""Rows that one transaction deletes."""
COUNTED_AT_ONCE = 4_000
"""Units counted in one step: 20 ms."""


@dataclass(slots=True)
class _Gaps:
    """Spans of ids in a corpus that were not looked at yet, the newest last."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    known: int = 0

    def reach(self, newest: int) -> None:
        if newest > self.known:
            self.spans.append((self.known + 1, newest))
            self.known = newest

    def looked(self, down_to: int) -> None:
        """Of the newest span, everything from `down_to` up."""
        first, _ = self.spans.pop()
        if down_to > first:
            self.spans.append((first, down_to - 1))


@record
class _Batch:
    corpus: Corpus
    texts: Sequence[Missing]
    down_to: int


class Backfilling:
    """The background task that embeds missing texts: `run` works while it is awaited.

    `beside` is entered with the model in use while another's vectors are made: queries still need its embedder.
    `shared`: the vectors of conversations that other gateways have made, and get from this one.
    """

    def __init__(
        self,
        index: IndexFile,
        embedding: Embedding,
        similar: Similar,
        clock: Clock,
        beside: Callable[[VectorModel], AbstractAsyncContextManager[object]],
        shared: "SharedVectors | None" = None,
    ) -> None:
        self._index = index
        self._embedding = embedding
        self._similar = similar
        self._clock = clock
        self._beside = beside
        self._shared = shared
        self._gaps = {corpus: _Gaps() for corpus in text_vectors.CORPORA}
        self._for: tuple[str, int] = ("", -1)
        """The model, and the generation of the index, that those hold for."""
        self._corpus_first = 0
        self._fails = 0
        self._left_out = False
        self._tidied = float("-inf")
        self._count = Count(0, 0)
        self.filling = False
        """Whether texts are being embedded."""

    @property
    def count(self) -> Count:
        """Return the number of units with a vector of the embedder's model and of all units, as last known."""
        return self._count if self._for[1] == self._index.generation else Count(0, 0)

    async def run(self) -> None:
        """Keep filling in missing vectors.

        Raises:
            BrokenIndex: the index has to be rebuilt; call it again then.
            StateError: the disk refuses.
        """
        while True:
            await self._embedding.wait_until_open()
            self._index.written.clear()
            if await self._fill(self._embedding.name):
                await self._tidy(self._embedding.name)
                await self._wait_for_pause()

    async def _wait_for_pause(self) -> None:
        """Wait for a change, then until changes pause."""
        timer = asyncio.ensure_future(self._clock.sleep(TIDY_SECONDS))
        change = asyncio.ensure_future(self._index.written.wait())
        try:
            await asyncio.wait({timer, change}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            change.cancel()
        latest = self._clock.monotonic() + SETTLE_AT_MOST
        while self._index.written.is_set() and self._clock.monotonic() < latest:
            self._index.written.clear()
            await self._clock.sleep(SETTLE)

    async def _fill(self, model: str) -> bool:
        """Embed texts without a vector of the model; return False if its embedder has gone meanwhile."""
        self.filling = False
        serving = await self._register(model)
        async with self._beside(serving) if serving.name != model else nullcontext():
            if not await self._embed_all(model):
                return False
            lacking = self._count.units - self._count.embedded
            if serving.name != model and lacking <= LEFT_OUT_AT_MOST * self._count.units:
                await self._index.write(partial(text_vectors.switch, name=model))
                await self._similar.serve(model)
                log.info("searches use the vectors of %s from now on, those of %s go", model, serving.name)
        return True

    async def _embed_all(self, model: str) -> bool:
        began, told = self._clock.monotonic(), False
        reported = began
        while batch := await self._next(model):
            asked = self._clock.monotonic()
            if not self.filling or asked - reported >= REPORT_SECONDS:
                reported = asked
                self._count = await self.count_units(model)
                is_long = self.filling or self._count.units - self._count.embedded >= WORTH_TELLING
                told = told or is_long
                level = logging.INFO if is_long else logging.DEBUG
                log.log(level, "%d of %d texts have vectors of %s", self._count.embedded, self._count.units, model)
            self.filling = True
            if not await self._embed(model, batch):
                return False
            await self._clock.sleep(min(PAUSE * (self._clock.monotonic() - asked), MAX_PAUSE))
        if self.filling or not self._count.units:
            self._count = await self.count_units(model)
        if self.filling:
            self.filling = False
            took = self._clock.monotonic() - began
            level = logging.INFO if told else logging.DEBUG
            counts = (self._count.embedded, self._count.units)
            log.log(level, "%d of %d texts have vectors of %s, after %.0f s", *counts, model, took)
        return True

    async def _register(self, model: str) -> VectorModel:
        """Register the model and make the vectors in use available; return the model in use."""
        if self._for != (model, self._index.generation):
            self._for = (model, self._index.generation)
            self._count = Count(0, 0)
            self._forget_looks()
        known, spec = await self._index.read(text_vectors.models), self._embedding.spec
        if not any((each.name, each.spec) == (model, spec) for each in known):
            known = await self._index.write(partial(text_vectors.announce, name=model, spec=spec))
        serving = next(each for each in known if each.serving)
        await self._similar.serve(serving.name)
        return serving

    async def _next(self, model: str) -> _Batch | None:
        """Return some texts without a vector; the corpora take turns, new texts first."""
        limit = self._embedding.batch if not self._fails else 1
        self._corpus_first += 1
        for offset in range(len(text_vectors.CORPORA)):
            corpus = text_vectors.CORPORA[(self._corpus_first + offset) % len(text_vectors.CORPORA)]
            gaps = self._gaps[corpus]
            gaps.reach(await self._index.read(partial(text_vectors.newest, corpus=corpus)))
            while gaps.spans:
                look = partial(text_vectors.missing, corpus=corpus, model=model, span=gaps.spans[-1], limit=limit)
                looked = await self._index.read(look)
                if looked.missing:
                    return _Batch(corpus, looked.missing, looked.down_to)
                gaps.looked(looked.down_to)
        return None

    async def _embed(self, model: str, batch: _Batch) -> bool:
        """Embed a batch and store its vectors; return False if the embedder has changed meanwhile."""
        try:
            known = await self._of_others(model, batch)
            new = [each for each in batch.texts if each.sha256 not in known]
            made = await self._embedding.embed([each.text for each in new]) if new else ()
        except EmbeddingError:
            # The embedder reports its fault itself, and the next call waits. A single text may be the cause.
            self._fails += 1
            if self._fails > TRIES and len(batch.texts) == 1:
                self._left_out = True
                self._fails = 1
                self._gaps[batch.corpus].looked(batch.down_to)
            return self._embedding.name in ("", model)
        if self._embedding.name != model or self._for != (model, self._index.generation):
            return False
        self._fails = 0
        own = {each.sha256: vector for each, vector in zip(new, made, strict=True)}
        await self._share(model, [(each.session, each.sha256, own[each.sha256]) for each in new])
        kept = {**known, **own}
        await self._index.write(partial(text_vectors.store, model=model, vectors=kept))
        await self._similar.load(model, list(kept))
        self._gaps[batch.corpus].looked(batch.down_to)
        self._count = Count(min(self._count.embedded + len(kept), self._count.units), self._count.units)
        return True

    async def _of_others(self, model: str, batch: _Batch) -> Mapping[bytes, bytes]:
        """Return vectors that other gateways have made; none where the store cannot be asked now."""
        if self._shared is None or batch.corpus != "talk":
            return {}
        try:
            return await self._shared.find(model, [each.sha256 for each in batch.texts])
        except StateError as error:
            log.debug("vectors of others cannot be looked for: %s", error)
            return {}

    async def _share(self, model: str, made: Sequence[tuple[str, bytes, bytes]]) -> None:
        of_sessions = [each for each in made if each[0]]
        if self._shared is None or not of_sessions:
            return
        try:
            await self._shared.store(model, of_sessions)
        except StateError as error:
            log.debug("vectors cannot be kept for others: %s", error)

    async def count_units(self, model: str) -> Count:
        """Count the units with a vector of the model, and all units."""
        embedded = every = 0
        for corpus in text_vectors.CORPORA:
            newest = await self._index.read(partial(text_vectors.newest, corpus=corpus))
            for first in range(1, newest + 1, COUNTED_AT_ONCE):
                span = (first, first + COUNTED_AT_ONCE - 1)
                found = await self._index.read(partial(text_vectors.count, corpus=corpus, model=model, span=span))
                embedded, every = embedded + found.embedded, every + found.units
        return Count(embedded, every)

    async def _tidy(self, model: str) -> None:
        """Delete unused vectors, and give skipped texts another try."""
        if any(each.name != model for each in await self._index.read(text_vectors.models)):
            while await self._index.write(partial(text_vectors.drop_others, kept=[model], limit=DELETED_AT_ONCE)):
                await self._clock.sleep(0)
        if self._clock.monotonic() - self._tidied < TIDY_SECONDS:
            return
        self._tidied = self._clock.monotonic()
        await self._similar.tidy()
        after: bytes | None = b""
        while after is not None:
            after = await self._index.write(partial(text_vectors.sweep, after=after, limit=DELETED_AT_ONCE))
        self._count = await self.count_units(model)
        if self._left_out:
            self._forget_looks()

    def _forget_looks(self) -> None:
        self._gaps = {corpus: _Gaps() for corpus in text_vectors.CORPORA}
        self._left_out = False
