"""The interface of embedders, which turn texts into vectors for memory; and the preparation of texts for them.

A text is made sendable, cut, and prefixed by its purpose.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import Clock
from goclaw.common.core.records import record

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

        A text longer than the model reads counts with its beginning only. `query`: the texts ask; some models embed
        questions in another way than their answers.

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


def quantise(vector: Sequence[float]) -> bytes:
    """Return bytes as `Embedder.embed` gives them; only the direction is kept. A vector of zeros stays one."""
    largest = max(map(abs, vector), default=0.0)
    if not largest:
        return bytes(len(vector))
    scale = LEVELS / largest
    return bytes(round(value * scale) & 0xFF for value in vector)


MAX_CHARACTERS = 8_000
"""Characters. What is indexed has some 800; a server that gets more than its model reads may refuse the whole batch."""
BLANK = "-"
"""Stands for a text of blanks, which servers refuse."""


@record
class Prefixes:
    """Texts that a model requires before queries and documents."""

    query: str = ""
    document: str = ""


_ASKING = Prefixes("Represent this sentence for searching relevant passages: ")
PREFIXES = {
    "nomic-embed": Prefixes("search_query: ", "search_document: "),
    "mxbai-embed": _ASKING,
    "snowflake-arctic-embed2": Prefixes("query: "),
    "snowflake-arctic-embed-l-v2": Prefixes("query: "),
    "snowflake-arctic-embed-m-v2": Prefixes("query: "),
    "snowflake-arctic-embed": _ASKING,
    "bge-small-en": _ASKING,
    "bge-base-en": _ASKING,
    "bge-large-en": _ASKING,
    "e5-small": Prefixes("query: ", "passage: "),
    "e5-base": Prefixes("query: ", "passage: "),
    "e5-large": Prefixes("query: ", "passage: "),
    "embeddinggemma": Prefixes("task: search result | query: ", "title: none | text: "),
    "qwen3-embedding": Prefixes(
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
    ),
}
"""By a part of the model's name, the first that fits; from each model's card, as of 2026. Without, it finds less."""


def prefixes(model: str) -> Prefixes:
    """Return the prefixes for the model of that name; empty for an unknown one.

    >>> prefixes("nomic-embed-text:v1.5").query
    'search_query: '
    """
    name = model.lower()
    return next((found for part, found in PREFIXES.items() if part in name), Prefixes())


def prepare(texts: Sequence[str], before: str = "") -> list[str]:
    """Return the texts as they may be sent: cut, without half characters, and never empty."""
    return [
        before + (text[:MAX_CHARACTERS].encode("utf-8", "replace").decode() if text.strip() else BLANK)
        for text in texts
    ]


def in_batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield the texts in order, at most `size` at a time."""
    for start in range(0, len(texts), size):
        yield texts[start : start + size]
