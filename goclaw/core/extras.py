"""Imports of libraries without their extras: what they import where it is installed, and the daemon never uses.

A library that can do without another one catches the ImportError; it gets one although the other is there.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Let imports of `modules` fail inside the block, unless they are imported already; afterwards they work again."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None means "not to be found" (import system)
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name, sys) is None:
                del sys.modules[name]
