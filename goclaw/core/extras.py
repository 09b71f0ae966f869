"""Imports of libraries without their extras: what they import where it is installed, and the daemon never uses.

A library that can do without another one catches the ImportError; it gets one although the other is there. Where it
cannot, a stand-in takes the place of its module that needs the other one.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


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


@contextmanager
def standing_in(module: str, **names: object) -> Iterator[None]:
    """Let imports of `module` find only these names, inside the block, unless it is imported already.

    What was imported inside goes on with them; a later import finds the module itself.
    """
    if module in sys.modules:
        yield
        return
    stand_in = ModuleType(module, "Stands in for a module that is not needed.")
    vars(stand_in).update(names)
    sys.modules[module] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(module) is stand_in:
            del sys.modules[module]
