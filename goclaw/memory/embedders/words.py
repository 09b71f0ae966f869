"""A fake embedder: texts are near each other when they share words, or words that are declared to mean the same.

It ships so that plugins can be tested without a model. It is not in the catalogue.
"""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Sequence

from goclaw.errors import EmbeddingError
from goclaw.memory.embedders.base import quantise

_WORD = re.compile(r"\w+")


class WordsEmbedder:
    """An `Embedder` with vectors that add up one direction per word; the same texts always get the same ones."""

    def __init__(
        self, name: str = "words", synonyms: Iterable[Iterable[str]] = (), *, batch: int = 8, size: int = 256
    ) -> None:
        self.name = name
        self.batch = batch
        self._size = size
        self._meanings = {word.casefold(): number for number, group in enumerate(synonyms) for word in group}
        self.asked: list[Sequence[str]] = []
        """Texts of each call."""
        self.trouble = ""
        """Why it fails at each call, if it does."""
        self.answers = asyncio.Event()
        """Cleared: no call returns until it is set."""
        self.answers.set()

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[bytes]:
        self.asked.append(tuple(texts))
        await self.answers.wait()
        if self.trouble:
            raise EmbeddingError(self.trouble)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> bytes:
        vector = [0.0] * self._size
        for word in set(_WORD.findall(text.casefold())):
            meaning = f"#{self._meanings[word]}" if word in self._meanings else word
            # Of another name, a word has another direction: vectors of two models cannot be compared.
            digest = hashlib.sha256(f"{self.name} {meaning}".encode()).digest()
            vector[int.from_bytes(digest[:4], "big") % self._size] += 1.0
        return quantise(vector)
