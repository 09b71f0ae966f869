"""The vectors in memory: loaded when there are some, kept in line with the index, asked for what is near.

One model's vectors at a time serve; another's are loaded beside them and take their place at once.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from goclaw.memory.index import units, vectors
from goclaw.memory.index.database import IndexFile
from goclaw.memory.index.schema import Shelf
from goclaw.memory.index.scope import Scope, merged
from goclaw.memory.index.vectors import Embedded


class Held(Protocol):
    """What `matrix.Matrix` is to us: that module is imported when there are vectors, never at a start."""

    def grow(self, units: Collection[Embedded]) -> None: ...

    def drop(self, ranges: Sequence[tuple[int, int]]) -> None: ...

    def nearest(self, vector: bytes, scope: Scope, depth: int) -> list[tuple[int, int, float]]: ...


@dataclass(slots=True)
class LoadedVectors:
    """The vectors of one model."""

    model: str
    generation: int
    """Of the index that they were read of."""
    shelves: Mapping[Shelf, Held]
    followed: dict[Shelf, int] = field(default_factory=dict)
    """The last step of what was touched that they have followed."""


class Similar:
    """The vectors of the index, in memory."""

    def __init__(self, index: IndexFile) -> None:
        self._index = index
        self._loaded: LoadedVectors | None = None
        self._changing = asyncio.Lock()

    @property
    def model(self) -> str:
        """Whose vectors serve; empty: none are loaded."""
        return self._loaded.model if self._current() and self._loaded else ""

    async def serve(self, model: str) -> None:
        """Load a model's vectors; from then on they serve. Those that did serve until then."""
        async with self._changing:
            if self.model != model:
                self._loaded = await self._load(model)

    async def follow(self) -> None:
        """Bring them in line with what changed in the index since."""
        async with self._changing:
            loaded = self._loaded
            if not self._current() or loaded is None:
                return
            for shelf, matrix in loaded.shelves.items():
                ranges, step = await self._index.read(partial(units.touched, shelf=shelf, after=loaded.followed[shelf]))
                if ranges:
                    await self._renew(loaded, matrix, shelf, ranges)
                    loaded.followed[shelf] = step

    async def tidy(self) -> None:
        """Forget what was touched and is followed: for the one process that holds the vectors for long."""
        async with self._changing:
            loaded = self._loaded
            if self._current() and loaded is not None:
                for shelf, step in loaded.followed.items():
                    await self._index.write(partial(units.forget_touched, shelf=shelf, up_to=step))

    async def take(self, model: str, texts: Collection[bytes]) -> None:
        """Vectors of these texts (by SHA-256) were stored: have them here, too, if they are the serving model's."""
        async with self._changing:
            loaded = self._loaded
            if not self._current() or loaded is None or loaded.model != model:
                return
            for shelf, matrix in loaded.shelves.items():
                found = await self._index.read(partial(vectors.units_of, shelf=shelf, model=model, texts=texts))
                if found:
                    await self._renew(loaded, matrix, shelf, merged((unit.first, unit.last) for unit in found))

    async def nearest(
        self, model: str, shelf: Shelf, vector: bytes, scope: Scope, depth: int
    ) -> list[tuple[int, int, float]] | None:
        """What is most similar to a vector of `model` within a scope: first place, last place, cosine; best first.

        None where that model's vectors do not serve any more.
        """
        loaded = self._loaded
        if not self._current() or loaded is None or loaded.model != model:
            return None
        return await asyncio.to_thread(loaded.shelves[shelf].nearest, vector, scope, depth)

    def _current(self) -> bool:
        return self._loaded is not None and self._loaded.generation == self._index.generation

    async def _load(self, model: str) -> LoadedVectors:
        loaded = LoadedVectors(model, self._index.generation, await asyncio.to_thread(_empty))
        for shelf, matrix in loaded.shelves.items():
            # First: what changes while the rest is read is followed afterwards.
            loaded.followed[shelf] = await self._index.read(partial(units.last_touch, shelf=shelf))
            after = 0
            while found := await self._index.read(
                partial(vectors.units_with_vectors, shelf=shelf, model=model, after=after)
            ):
                await asyncio.to_thread(matrix.grow, found)
                after = found[-1].unit
        return loaded

    async def _renew(self, loaded: LoadedVectors, matrix: Held, shelf: Shelf, ranges: list[tuple[int, int]]) -> None:
        found = await self._index.read(partial(vectors.units_within, shelf=shelf, model=loaded.model, ranges=ranges))
        await asyncio.to_thread(_replace, matrix, ranges, found)


def _empty() -> Mapping[Shelf, Held]:
    """An empty matrix for each shelf. Runs in a thread, because of what it imports."""
    from goclaw.memory.matrix import Matrix

    return {shelf: Matrix() for shelf in units.SHELVES}


def _replace(matrix: Held, ranges: Sequence[tuple[int, int]], found: Collection[Embedded]) -> None:
    matrix.drop(ranges)
    matrix.grow(found)
