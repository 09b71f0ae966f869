"""Blocking reads in threads, shared by all who ask for the same at the same moment.

Fifty turns that begin together read the same few stamps. Each hop to a thread and back waits for the interpreter's
lock, milliseconds while the loop is busy: one hop serves them all.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from goclaw.common.core.supervise import result_of

T = TypeVar("T")


class SharedRead(Generic[T]):
    """Reads something by its name. A read begins after all have asked whom it answers, so that none gets older news."""

    def __init__(self, read: Callable[[str], T]) -> None:
        """`read` runs in a thread."""
        self._read = read
        self._asked: dict[str, asyncio.Future[T]] = {}
        """The reads that have not begun."""

    async def of(self, name: str) -> T:
        """Return the result of `read` for the name; its errors are raised."""
        asked = self._asked.get(name)
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = self._asked[name] = loop.create_future()
            loop.call_soon(self._start, name, asked)
        return await result_of(asked)

    def _start(self, name: str, asked: "asyncio.Future[T]") -> None:
        del self._asked[name]
        asyncio.get_running_loop().run_in_executor(None, self._read, name).add_done_callback(
            lambda read: _passed_on(read, asked)
        )


def _passed_on(read: "asyncio.Future[T]", asked: "asyncio.Future[T]") -> None:
    if read.cancelled():
        asked.cancel()
    elif error := read.exception():
        asked.set_exception(error)
        asked.exception()  # the callers may all have gone
    else:
        asked.set_result(read.result())
