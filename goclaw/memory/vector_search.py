"""Search by meaning: the embedder, the vectors in use, and those that are being made.

Where there is no embedder, or it is late, `near` returns None, and the search uses words alone.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from goclaw.clock import Clock
from goclaw.memory.backfilling import Backfilling
from goclaw.memory.embedding import Embedders, Embedding
from goclaw.memory.index import units
from goclaw.memory.index.database import IndexFile
from goclaw.memory.index.schema import Corpus
from goclaw.memory.index.scope import Scope
from goclaw.memory.index.units import Count, VectorModel
from goclaw.memory.ranking import WINDOW_DEPTH
from goclaw.memory.similar import Similar
from goclaw.records import record
from goclaw.supervise import background

Near = Sequence[tuple[int, int, float]]
"""First place, last place and cosine of each hit."""


LOOKING = "is being looked for"


@record
class Standing:
    """The progress of the vectors."""

    model: str
    """The model whose vectors are in use; empty: none are."""
    coming: str
    """The model whose vectors are being made beside those."""
    trouble: str
    count: Count


class VectorSearch:
    """Search by meaning. `alone`: for a single command; existing vectors are used, none are made."""

    def __init__(self, index: IndexFile, embedders: Embedders, clock: Clock, *, alone: bool) -> None:
        self._index = index
        self._embedders = embedders
        self._clock = clock
        self._alone = alone
        self._similar = Similar(index)
        self._embedding = Embedding(embedders.choose, embedders.open, clock)
        self._former: Embedding | None = None
        """The embedder of the vectors in use, while another one's are made."""
        self._filling = Backfilling(index, self._embedding, self._similar, clock, self._beside)

    async def hold(self) -> None:
        """Find the embedder when it is needed, and hold it: for a background task."""
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
            count = await self._filling.counted(served)
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
        serving = await self._index.read(units.serving)
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
