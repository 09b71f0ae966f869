"""The output of a task: all of it in a file up to a bound, and its end in memory."""

from collections import deque
from typing import BinaryIO

from goclaw.blobs import Spill


class Output:
    """The output of a task while it runs, and after."""

    def __init__(self, spill: Spill, most: int) -> None:
        self._spill = spill
        self._most = most
        self._tail: deque[bytes] = deque()
        self._held = 0
        self.total = 0
        """Bytes that it said."""

    @property
    def is_whole(self) -> bool:
        """Whether the file has all of it."""
        return not self._spill.truncated

    async def add(self, chunk: bytes) -> None:
        """Take in what the task wrote."""
        await self._spill.write(chunk)
        self._tail.append(chunk)
        self._held += len(chunk)
        self.total += len(chunk)
        while self._held - len(self._tail[0]) > self._most:
            self._held -= len(self._tail.popleft())

    def tail(self) -> bytes:
        """Return its last bytes, at least as many as are kept in memory."""
        return b"".join(self._tail)


def last_of(file: BinaryIO, most: int) -> bytes:
    """Return the last bytes of a file."""
    size = file.seek(0, 2)
    file.seek(max(0, size - most))
    return file.read(most)
