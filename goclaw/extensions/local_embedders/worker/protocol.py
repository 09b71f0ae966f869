"""The worker's protocol: the frames in its pipes, and the queue of the requests that come in them.

A frame is a head in JSON and bytes, after the length of each. A person waits for a query: it goes first, between the
portions of the rest.
"""

import json
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import RawIOBase
from threading import Condition
from typing import Any

LENGTHS = struct.Struct(">II")
MAX_HEAD, MAX_BODY = 64 << 20, 256 << 20
"""Bytes. More than that was written by something else."""

Head = dict[str, Any]


def frame(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(head).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def lengths(prefix: bytes) -> tuple[int, int]:
    """Return the lengths of head and body.

    Raises:
        ValueError: this is no beginning of a frame.
    """
    head, body = LENGTHS.unpack(prefix)
    if not 2 <= head <= MAX_HEAD or body > MAX_BODY:
        raise ValueError("no frame")
    return head, body


def head_of(text: bytes) -> Head:
    """Return the head. Raises ValueError for any other text."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no frame")
    return found


def read_frame(source: RawIOBase) -> tuple[Head, bytes] | None:
    """Return the next frame; None at the end of the pipe."""
    if (prefix := _exactly(source, LENGTHS.size)) is None:
        return None
    head, body = lengths(prefix)
    text, content = _exactly(source, head), _exactly(source, body)
    return None if text is None or content is None else (head_of(text), content)


def _exactly(source: RawIOBase, size: int) -> bytes | None:
    """Read so many bytes; None where the pipe ends before."""
    found = bytearray()
    while len(found) < size:
        piece = source.read(size - len(found))
        if not piece:
            return None
        found += piece
    return bytes(found)


@dataclass(slots=True)
class EmbeddingRequest:
    """Texts to embed, some of them done."""

    number: int
    texts: Sequence[str]
    query: bool
    vectors: dict[int, Any] = field(default_factory=dict)
    left: deque[int] = field(init=False)
    """Places of the texts that are not done, the shortest first: neighbours are then padded little."""

    def __post_init__(self) -> None:
        self.left = deque(sorted(range(len(self.texts)), key=lambda place: len(self.texts[place])))

    def next_places(self, places: int) -> list[int]:
        """Return the places of the next texts."""
        return [self.left.popleft() for _ in range(places)]


class Waiting:
    """Requests in the order of the work on them. Filled by one thread, emptied by another."""

    def __init__(self) -> None:
        self._queries: deque[EmbeddingRequest] = deque()
        self._batches: deque[EmbeddingRequest] = deque()
        self._changed = Condition()

    def put(self, request: EmbeddingRequest) -> None:
        """Add one after its like."""
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
