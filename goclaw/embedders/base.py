"""The interface of embedders, which turn texts into vectors for memory."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from goclaw.clock import Clock
from goclaw.config.schema import Config
from goclaw.records import record

LEVELS = 127
"""Levels of a signed byte. Rounding to it costs no recall that could be measured (docs/memory.md)."""


class Embedder(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def name(self) -> str:
        """Name of the vectors, down to the model's version: vectors of two names are never compared.

        It may change during a call of `embed` (a new version of the model was pulled), and is then that of the call's
        vectors.
        """
        ...

    @property
    def batch(self) -> int:
        """Best number of texts per call; with fewer, the work is interrupted in shorter steps."""
        ...

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[bytes]:
        """Return a vector for each text, in order: one signed byte per dimension, scaled so that the largest is 127.

        What is longer than the model reads counts with its beginning only. `query`: the texts ask; some models embed
        questions in another way than what answers them.

        Raises:
            EmbeddingError: not now; asking later may work.
        """
        ...


@record
class EmbedderPart:
    """A line of the catalogue."""

    kind: str
    """The part before the colon in `memory.embedder`."""
    find: Callable[[Config], Awaitable[str]]
    """Return for `auto` the whole `kind:model` that would serve at once, else empty. Cheap, downloads nothing.

    Raises ConfigError when its settings cannot be used at all.
    """
    open: Callable[[str, Config, Clock], AbstractAsyncContextManager[Embedder]]
    """Open an embedder for the whole spec (`kind:model`; `kind` alone: its usual model), as long as the block runs.

    Entering raises ConfigError when something is missing (a package, a key, a model), with the remedy, and
    EmbeddingError when that cannot be told now. Nothing is loaded and no text is sent before the first `embed`.
    """


def quantised(vector: Sequence[float]) -> bytes:
    """Return bytes as `Embedder.embed` gives them; only the direction is kept. A vector of zeros stays one."""
    largest = max(map(abs, vector), default=0.0)
    if not largest:
        return bytes(len(vector))
    scale = LEVELS / largest
    return bytes(round(value * scale) & 0xFF for value in vector)
