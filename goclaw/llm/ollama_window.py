"""The choice of `num_ctx` for an Ollama model: made once, for Ollama loads a model anew for every other value.

Where the server is this machine and reports the footprint, it follows from the memory that is free; elsewhere it
grows with what a conversation needs (`bucket`).
"""

import math

from goclaw.llm.ollama_facts import Footprint

SMALLEST_BUCKET = 4_096
"""Tokens of `num_ctx`: what Ollama itself loads a model with on a small machine. The least that is asked for, and the
step of everything larger, so that a few megabytes more or less in the next life are no reason to load it anew."""
SPARE = 1 << 30
"""Bytes of free memory that stay free: for what the server computes in, and for what other programs take next."""


def bucket(tokens: int) -> int:
    """Return the smallest bucket that holds so many tokens: 4,096 times a power of two."""
    return SMALLEST_BUCKET << max(0, math.ceil(math.log2(tokens / SMALLEST_BUCKET)))


def fitting_window(footprint: Footprint, free: int, largest: int) -> int:
    """Return the tokens of the window that fits into `free` bytes of memory beside the model, at most `largest`.

    A model that is in memory keeps the window that it has, if that is the larger one: it is there, so it fits. What its
    window takes counts as free. Its weights do not: mapped from the disk they are part of what the kernel calls
    available already.
    """
    room = free + footprint.loaded * footprint.token - footprint.weights - SPARE
    fits = room // footprint.token // SMALLEST_BUCKET * SMALLEST_BUCKET
    return min(largest, max(SMALLEST_BUCKET, footprint.loaded, fits))
