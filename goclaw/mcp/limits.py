"""Limits on a server's messages and requests. A server beyond them waits, or its connection ends; others are
unaffected."""

from goclaw.bounded import BoundedDict
from goclaw.clock import Clock

MAX_MESSAGE = 4 << 20
"""Bytes of one message: more than any model reads, and a picture still fits."""
PER_SECOND = 2_000
"""The weight of the messages of one second; further ones are read later."""
ANSWER, UNASKED = 1, 10
"""The weight of an answer, and of an unsolicited message (progress, notifications, requests)."""


MAX_TURNS = 100
"""Turns for which the requests to the model are counted; older ones have ended."""


class Throttle:
    """A limit on the weight per second."""

    def __init__(self, clock: Clock, most: int = PER_SECOND) -> None:
        self._clock = clock
        self._most = most
        self._since = clock.monotonic()
        self._taken = 0

    async def take(self, weight: int) -> None:
        """Wait until there is room for more."""
        self._taken += weight
        if self._taken <= self._most:
            return
        left = self._since + 1 - self._clock.monotonic()
        if left > 0:
            await self._clock.sleep(left)
        self._since, self._taken = self._clock.monotonic(), 0


class Counts:
    """The number of one server's requests to the model, by turn."""

    def __init__(self) -> None:
        self._turns: BoundedDict[str, int] = BoundedDict(MAX_TURNS)

    def take(self, turn: str, most: int) -> bool:
        """Count a request; return False if the limit is reached."""
        count = self._turns.get(turn, 0)
        self._turns[turn] = min(count + 1, most)
        return count < most
