"""The worker's queue of texts. A person waits for a query: it goes first, between the portions of the rest."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Any


@dataclass(slots=True)
class EmbeddingRequest:
    """Texts to embed, of which some are done."""

    number: int
    texts: Sequence[str]
    query: bool
    vectors: dict[int, Any] = field(default_factory=dict)
    left: deque[int] = field(init=False)
    """Places of the texts that are not done, the shortest first: neighbours are then padded little."""

    def __post_init__(self) -> None:
        self.left = deque(sorted(range(len(self.texts)), key=lambda place: len(self.texts[place])))

    def take(self, places: int) -> list[int]:
        """Return the places of the next texts."""
        return [self.left.popleft() for _ in range(places)]


class Waiting:
    """Requests in the order in which they are worked on. Filled by one thread, emptied by another."""

    def __init__(self) -> None:
        self._queries: deque[EmbeddingRequest] = deque()
        self._batches: deque[EmbeddingRequest] = deque()
        self._changed = Condition()

    def put(self, request: EmbeddingRequest) -> None:
        """Add one behind its like."""
        with self._changed:
            (self._queries if request.query else self._batches).append(request)
            self._changed.notify()

    def first(self) -> EmbeddingRequest:
        """Return the request to work on now; wait for one if need be. It stays until it is removed."""
        with self._changed:
            while not (self._queries or self._batches):
                self._changed.wait()
            return (self._queries or self._batches)[0]

    def remove(self, request: EmbeddingRequest) -> None:
        """Remove a finished request."""
        with self._changed:
            (self._queries if request.query else self._batches).remove(request)
