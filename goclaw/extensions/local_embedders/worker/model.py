"""The seam between the worker's loop and what embeds, and what all of them do with a vector."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

LEVELS = 127
"""Levels of a signed byte; as `memory.embedders.base.LEVELS`."""
THREADS = 1
"""One: a background task should leave processors free. Two would save a third of the time at twice the processors."""
CHARACTERS_PER_TOKEN = 16
"""Texts are cut to so many times what the model reads before they are taken apart: that takes time by the character."""


class Model(Protocol):
    """Embeds."""

    engine: str
    """`torch` or `onnx`."""

    def portion(self, texts: Sequence[str]) -> int:
        """Return how many of the first texts to embed in one go: a query waits so long."""
        ...

    def embed(self, texts: Sequence[str], query: bool) -> Any:
        """Return an array with a row of numbers for each text."""
        ...


def as_bytes(vectors: Any) -> list[bytes]:
    """Return each row as signed bytes, the largest 127. Raises ValueError unless all numbers are finite."""
    rows = np.asarray(vectors, dtype=np.float32)
    if not np.isfinite(rows).all():
        raise ValueError("the model gave something that is no number")
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = np.rint(rows * (LEVELS / np.where(largest > 0, largest, 1)))
    return [row.tobytes() for row in scaled.astype(np.int8)]
