"""What became of messages, for clients that did not hear it: one that is sent again is answered as it was then.

The journal drops a message that comes twice. But a command's answer is in no journal, and one that is being carried out
must not be begun a second time because the client was cut off meanwhile. Not durable: after a restart of the daemon the
client is told that the message was taken before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from goclaw.events import Acceptance

MAX_RECEIPTS = 200
"""Receipts that are kept. A client that comes back sends again what it sent in its last moments, not in its life."""


class IdempotencyCache:
    """The latest receipts, by whose message it was and its id."""

    def __init__(self) -> None:
        self._given: dict[Hashable, asyncio.Future[Acceptance]] = {}

    async def once(self, key: Hashable, take: Callable[[], Awaitable[Acceptance]]) -> Acceptance:
        """Take the message, or wait for and return what became of it when it came first.

        Raises:
            Exception: what `take` raised; the message was not taken then, and is tried anew when it comes again.
        """
        while given := self._given.get(key):
            await asyncio.wait({given})
            if not given.cancelled():  # else whoever took it was cut off half-way
                return given.result()
        self._given[key] = asyncio.get_running_loop().create_future()
        try:
            acceptance = await take()
        except BaseException as error:
            self._give_up(key, error)
            raise
        self._given[key].set_result(acceptance)
        for old in [old for old, given in self._given.items() if given.done()][:-MAX_RECEIPTS]:
            del self._given[old]
        return acceptance

    def _give_up(self, key: Hashable, error: BaseException) -> None:
        given = self._given.pop(key)
        if isinstance(error, Exception):
            given.set_exception(error)
            given.exception()  # nobody need wait for it
        else:
            given.cancel()
