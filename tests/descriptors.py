"""Counting of this process's open descriptors."""

import gc

import psutil


def open_descriptors() -> int:
    """Return how many are open, without those that only garbage of earlier tests holds."""
    gc.collect()
    count: int = psutil.Process().num_fds()
    return count
