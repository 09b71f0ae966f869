"""A dict that remembers so many entries and no more."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Holds at most `most` entries: one more drops the oldest. An entry that is set again counts as new."""

    def __init__(self, most: int, entries: Mapping[K, V] | None = None) -> None:
        self._most = most
        super().__init__(entries or {})

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)  # `move_to_end` would be unknown to orjson, which sees the plain dict's order
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)
