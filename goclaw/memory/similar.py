"""The vectors in memory: loaded when there are any, kept in line with the index, and searched.

One model's vectors at a time are in use; another's are loaded next to them and replace them in one step.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from goclaw.memory.index import text_vectors
from goclaw.memory.index.database import IndexFile
from goclaw.memory.index.schema import Corpus, Scope, merge
from goclaw.memory.index.text_vectors import Embedded

if TYPE_CHECKING:
    from goclaw.memory.matrix import Matrix


@dataclass(slots=True)
class LoadedVectors:
    """The vectors of one model."""

    model: str
    generation: int
    """The generation of the index that they were read from."""
    corpora: Mapping[Corpus, "Matrix"]
    followed: dict[Corpus, int] = field(default_factory=dict)
    """The last followed step of `text_vectors.list_touches`, by corpus."""


class Similar:
    """The vectors of the index, in memory."""

    def __init__(self, index: IndexFile) -> None:
        self._index = index
        self._loaded: LoadedVectors | None = None
        self._changing = asyncio.Lock()

    @property
    def model(self) -> str:
        """Return the model that the vectors in use belong to; empty: none are loaded."""
        loaded = self._current()
        return loaded.model if loaded else ""

    async def serve(self, model: str) -> None:
        """Load a model's vectors and then use them; those in use serve until then."""
        async with self._changing:
            if self.model != model:
                self._loaded = await self._load(model)

    async def follow(self) -> None:
        """Apply changes of the index."""
        async with self._changing:
            loaded = self._current()
            if loaded is None:
                return
            for corpus, matrix in loaded.corpora.items():
                ranges, step = await self._index.read(
                    partial(text_vectors.list_touches, corpus=corpus, after=loaded.followed[corpus])
                )
                if ranges:
                    await self._renew(loaded, matrix, corpus, ranges)
                    loaded.followed[corpus] = step

    async def tidy(self) -> None:
        """Delete records of touched places that were followed: for the one process that holds the vectors for long."""
        async with self._changing:
            loaded = self._current()
            if loaded is not None:
                for corpus, step in loaded.followed.items():
                    await self._index.write(partial(text_vectors.forget_touched, corpus=corpus, up_to=step))

    async def load(self, model: str, texts: Collection[bytes]) -> None:
        """Load the vectors just stored for these texts (by SHA-256), if their model is the one in use."""
        async with self._changing:
            loaded = self._current()
            if loaded is None or loaded.model != model:
                return
            for corpus, matrix in loaded.corpora.items():
                found = await self._index.read(partial(text_vectors.units_of, corpus=corpus, model=model, texts=texts))
                if found:
                    await self._renew(loaded, matrix, corpus, merge((unit.first, unit.last) for unit in found))

    async def nearest(
        self, model: str, corpus: Corpus, vector: bytes, scope: Scope, depth: int
    ) -> list[tuple[int, int, float]] | None:
        """Return the nearest vectors of `model` in a scope: first place, last place, cosine; best first.

        None if that model's vectors are no longer in use.
        """
        loaded = self._current()
        if loaded is None or loaded.model != model:
            return None
        return await asyncio.to_thread(loaded.corpora[corpus].nearest, vector, scope, depth)

    def _current(self) -> LoadedVectors | None:
        """Return the vectors in use, unless they are of an index that was replaced."""
        loaded = self._loaded
        return loaded if loaded and loaded.generation == self._index.generation else None

    async def _load(self, model: str) -> LoadedVectors:
        loaded = LoadedVectors(model, self._index.generation, await asyncio.to_thread(_empty))
        for corpus, matrix in loaded.corpora.items():
            # First, so that changes made while the rest is read are followed afterwards.
            loaded.followed[corpus] = await self._index.read(partial(text_vectors.last_touch, corpus=corpus))
            after = 0
            while found := await self._index.read(
                partial(text_vectors.units_with_vectors, corpus=corpus, model=model, after=after)
            ):
                await asyncio.to_thread(matrix.grow, found)
                after = found[-1].unit
        return loaded

    async def _renew(
        self, loaded: LoadedVectors, matrix: "Matrix", corpus: Corpus, ranges: list[tuple[int, int]]
    ) -> None:
        found = await self._index.read(
            partial(text_vectors.units_within, corpus=corpus, model=loaded.model, ranges=ranges)
        )
        await asyncio.to_thread(_replace, matrix, ranges, found)


def _empty() -> Mapping[Corpus, "Matrix"]:
    """Return an empty matrix for each corpus. Runs in a thread, because of its imports."""
    from goclaw.memory.matrix import Matrix

    return {corpus: Matrix() for corpus in text_vectors.CORPORA}


def _replace(matrix: "Matrix", ranges: Sequence[tuple[int, int]], found: Collection[Embedded]) -> None:
    matrix.drop(ranges)
    matrix.grow(found)
