"""An idempotency cache: a message that a client sends again gets its first answer.

The journal drops a message that comes twice. But a command's answer is in no journal, and one that is being carried out
must not be begun a second time because the client was cut off meanwhile. Not durable: after a restart of the daemon a
repeated message is answered as accepted before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from goclaw.events import Acceptance

MAX_RECEIPTS = 200
"""Answers that are kept. A client that reconnects repeats its last messages only."""


class IdempotencyCache:
    """The latest answers, by the sender of the message and its id."""

    def __init__(self) -> None:
        self._given: dict[Hashable, asyncio.Future[Acceptance]] = {}

    async def once(self, key: Hashable, take: Callable[[], Awaitable[Acceptance]]) -> Acceptance:
        """Accept the message, or wait for and return the answer to its first copy.

        Raises:
            Exception: the error of `take`; the message was not accepted then, and is tried anew when it comes again.
        """
        while given := self._given.get(key):
            await asyncio.wait({given})
            if not given.cancelled():  # else the first call was cancelled half-way
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
            given.exception()  # the task may end without a waiter
        else:
            given.cancel()
