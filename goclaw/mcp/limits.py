"""How much a server may send, and ask. One that sends more waits, or its connection ends; nobody else notices."""

from goclaw.bounded import BoundedDict
from goclaw.clock import Clock

MAX_MESSAGE = 4 << 20
"""Bytes of one message: more than any model reads, and a picture still fits."""
PER_SECOND = 2_000
"""What the messages of a second may weigh; what comes beyond it is read later."""
ANSWER, UNASKED = 1, 10
"""What an answer weighs, and a message that nobody asked for (progress, news, questions)."""


MAX_TURNS = 100
"""Turns of which is remembered how often a server asked the model; older ones have ended."""


class Throttle:
    """Lets so much a second through."""

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
    """How often one server asked the model, by turn."""

    def __init__(self) -> None:
        self._turns: BoundedDict[str, int] = BoundedDict(MAX_TURNS)

    def take(self, turn: str, most: int) -> bool:
        """Count a request; False: there were as many as there may be."""
        count = self._turns.get(turn, 0)
        self._turns[turn] = min(count + 1, most)
        return count < most
