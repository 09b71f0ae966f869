"""Recently fetched pages, in memory, bounded in time and bytes. Shared by all persons, as no request carries personal
data.
"""

import sys
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

from goclaw.clock import Clock
from goclaw.web.base import Page


class PageCache:
    """Keeps pages; the one that was not asked for the longest goes first."""

    def __init__(self, clock: Clock, seconds: float, most: int) -> None:
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._pages: OrderedDict[Hashable, tuple[Page, float]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable) -> Page | None:
        """Return the page with its age; None: not kept, or too old."""
        found = self._pages.get(key)
        if found is None:
            return None
        page, since = found
        age = self._clock.awake_or_not() - since
        if age >= self._seconds:
            self._drop(key)
            return None
        self._pages.move_to_end(key)
        return replace(page, age=age)

    def put(self, key: Hashable, page: Page) -> None:
        """Keep a page, if there is room for it at all."""
        self._drop(key)
        if not self._seconds or _size(page) > self._most:
            return
        self._pages[key] = (page, self._clock.awake_or_not())
        self._bytes += _size(page)
        while self._bytes > self._most:
            self._drop(next(iter(self._pages)))

    def _drop(self, key: Hashable) -> None:
        if key in self._pages:
            self._bytes -= _size(self._pages.pop(key)[0])


def _size(page: Page) -> int:
    return sys.getsizeof(page.text) + sys.getsizeof(page.url) + sys.getsizeof(page.title) + 500
