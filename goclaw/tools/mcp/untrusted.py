"""Protection from what servers send: their texts made displayable, and limits on messages and requests.

Texts lose hidden characters and imitations of our marks, and are bounded. A server beyond the limits waits, or its
connection ends; others are unaffected.
"""

from goclaw.common.core.clock import Clock
from goclaw.common.core.records import BoundedDict
from goclaw.common.core.redact import mask, printable, reveal

CONFIGURATION = "the configuration"
"""The source of pinned definitions, unless a registry is."""
MAX_CHARACTERS = 300
"""Characters of an error that are shown."""
_PRESENTATION = str.maketrans(dict.fromkeys((0xFE0F, 0x200D)))
"""Characters that join and colour emoji: invisible, but harmless."""
_MARKS = str.maketrans({"<": "‹", ">": "›", "“": '"', "”": '"'})


def shorten(text: str, most: int = MAX_CHARACTERS) -> str:
    """Return `text` in one paragraph of at most this length, with hidden characters as their codes."""
    text = printable(text[: 4 * most]).translate(_PRESENTATION)
    text = mask(reveal(" ".join(text.split())))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quote(text: str, most: int) -> str:
    """Return the same for a text within marks: without anything that could end or imitate them."""
    return shorten(text, most).translate(_MARKS)


def hides(text: str) -> bool:
    """Return whether it has hidden characters."""
    return reveal(text) != text


MAX_MESSAGE = 4 << 20
"""Bytes of one message: more than any model reads, and a picture still fits."""
WEIGHT_PER_SECOND = 2_000
"""The weight of the messages of one second; further ones are read later."""
ANSWER_WEIGHT, UNASKED_WEIGHT = 1, 10
"""The weight of an answer, and of an unsolicited message (progress, notifications, requests)."""


MAX_TURNS = 100
"""Turns for which the requests to the model are counted; older ones have ended."""


class Throttle:
    """A limit on the weight per second."""

    def __init__(self, clock: Clock, most: int = WEIGHT_PER_SECOND) -> None:
        self._clock = clock
        self._most = most
        self._since = clock.monotonic()
        self._taken = 0

    async def acquire(self, weight: int) -> None:
        """Wait until there is room for more."""
        self._taken += weight
        if self._taken <= self._most:
            return
        left = self._since + 1 - self._clock.monotonic()
        if left > 0:
            await self._clock.sleep(left)
        self._since, self._taken = self._clock.monotonic(), 0


class SamplingCounts:
    """The number of one server's requests to the model, by turn."""

    def __init__(self) -> None:
        self._turns: BoundedDict[str, int] = BoundedDict(MAX_TURNS)

    def count(self, turn: str, most: int) -> bool:
        """Count a request; return False if the limit is reached."""
        count = self._turns.get(turn, 0)
        self._turns[turn] = min(count + 1, most)
        return count < most
