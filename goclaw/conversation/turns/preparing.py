"""The number of turns that prepare a request to their model at the same time.

asyncio gives each task a piece of time: of fifty turns that begin together the first request would leave when the last
is ready, and all answers would come together, too. A few at a time, the first leaves immediately.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

AT_ONCE = 10
"""While one computes, others wait for threads that read the workspace. Measured with fifty chats: with 2 a busy loop
prepares a quarter fewer, from 20 on all are ready together again."""
PATIENCE_SECONDS = 0.1
"""Seconds for which a turn lets others go before it: a workspace that does not answer must hold up no other one."""


class PreparationLimiter:
    """Lets turns prepare their requests in the order they come."""

    def __init__(self, at_once: int = AT_ONCE, patience: float = PATIENCE_SECONDS) -> None:
        """`at_once`: turns; `patience`: seconds that one waits for its place."""
        self._places = asyncio.Semaphore(at_once)
        self._patience = patience

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place for the block, unless none became free in time."""
        has_place = await self._take()
        try:
            yield
        finally:
            if has_place:
                self._places.release()

    async def _take(self) -> bool:
        if not self._places.locked():
            return await self._places.acquire()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                return await self._places.acquire()
        return False
