"""A buffer of a session's recent events, for clients that reconnect after a break.

Events are numbered from 1 while the session is followed. Only events that a client has not acknowledged are kept,
and only for clients with a name: a session without clients costs nothing. Nothing here is durable; a client with a
position of another epoch, or too old, reads the rows of the transcript.
"""

import uuid
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from goclaw.common.core.clock import Clock
from goclaw.common.core.events import MessageStored, TextStreamed, ThinkingStreamed, ToolFinished, TurnEvent
from goclaw.common.core.records import record

AWAY_SECONDS = 600.0
"""Time for which events are kept for a disconnected client. One that slept longer reads the rows."""
MAX_EVENTS = 5_000
"""Kept for one session: at a hundred pieces a second, 50 seconds of an answer."""
MAX_CHARACTERS = 1_000_000
"""Characters of their texts: results of tools are long."""


class Numbered(NamedTuple):
    """An event and its number in its session; 0: not counted."""

    number: int
    event: TurnEvent
    at: float = 0.0
    """Time of the event on the daemon's monotonic clock."""


@record
class Position:
    """The position of a client in the events of a session."""

    epoch: str = ""
    """Id of the buffer: each run of the daemon has another, and so has a session after a while without clients."""
    number: int = 0
    """Number of the last event that the client has."""


NOWHERE = Position()


@dataclass(slots=True)
class _Reader:
    known: int
    """The last event that it acknowledged."""
    visits: int = 0
    """Number of its connections; an earlier one may end after a later one began."""
    left_at: float | None = None


class ReplayBuffer:
    """The events of one session, and who knows how many of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._epoch = uuid.uuid4().hex
        self._last = 0
        self._kept: deque[Numbered] = deque()
        self._characters = 0
        self._readers: dict[str, _Reader] = {}

    @property
    def end(self) -> Position:
        """The position after everything that has happened."""
        return Position(self._epoch, self._last)

    def add(self, event: TurnEvent) -> Numbered:
        """Number an event, and keep it for clients that are away or have not shown it yet."""
        self._last += 1
        numbered = Numbered(self._last, event, self._clock.monotonic())
        self._kept.append(numbered)
        self._characters += _characters(event)
        while len(self._kept) > MAX_EVENTS or self._characters > MAX_CHARACTERS:
            self._drop_oldest()
        return numbered

    def since(self, position: Position) -> list[Numbered] | None:
        """Return the events after `position`; None when they are not kept (any more)."""
        first = self._kept[0].number if self._kept else self._last + 1
        if position.epoch != self._epoch or not first - 1 <= position.number <= self._last:
            return None
        return [numbered for numbered in self._kept if numbered.number > position.number]

    def enter(self, client: str, position: Position) -> int:
        """Add `client` at `position`. Returns the argument of `leave`."""
        reader = self._readers.setdefault(client, _Reader(position.number))
        reader.known, reader.left_at = position.number, None
        reader.visits += 1
        self._trim()
        return reader.visits

    def leave(self, client: str, visit: int) -> None:
        """Remove a connection of `client`."""
        reader = self._readers.get(client)
        if reader is not None and reader.visits == visit:
            reader.left_at = self._clock.monotonic()

    def acknowledge(self, client: str, number: int) -> None:
        """Record that `client` has shown everything up to `number`."""
        reader = self._readers.get(client)
        if reader is not None and reader.known < number <= self._last:
            reader.known = number
            self._trim()

    def is_over(self) -> bool:
        """Whether no client follows, and none is expected back. Clients away for too long are removed by this call."""
        long_ago = self._clock.monotonic() - AWAY_SECONDS
        for client, reader in list(self._readers.items()):
            if reader.left_at is not None and reader.left_at <= long_ago:
                del self._readers[client]
        self._trim()
        return not self._readers

    def _trim(self) -> None:
        known = min((reader.known for reader in self._readers.values()), default=self._last)
        while self._kept and self._kept[0].number <= known:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._characters -= _characters(self._kept.popleft().event)


def _characters(event: TurnEvent) -> int:
    match event:
        case TextStreamed() | ThinkingStreamed():
            return len(event.text)
        case ToolFinished():
            return len(event.content)
        case MessageStored():
            return len(getattr(event.message, "text", "")) + len(getattr(event.message, "content", ""))
        case _:
            return 0
