"""Ctrl-C for what tests start, however the tests themselves were started.

A shell without job control starts what it puts into the background (`python -m pytest &`) with SIGINT ignored, which
children inherit: a program that is tested there could not be interrupted.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def let_children_be_interrupted() -> None:
    """Ignore SIGINT by a function, where it is ignored: with the next program the kernel puts the default back."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _go_on)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt in this process while the block runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _go_on(number: int, frame: FrameType | None) -> None:
    """Do nothing."""
