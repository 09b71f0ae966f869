"""The order in which messages of a chat are taken: one after the other, and none past one that failed."""

import asyncio
from types import TracebackType

from goclaw.errors import StateError


class ChatOrder:
    """An async context manager: a message of the chat is being taken. Acquired in order.

    Where one cannot be kept, those that waited for it fail with the same error: Telegram sends all of them again, and
    a later one that was kept meanwhile would be answered first.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._users = 0
        """Messages that are being taken, or wait for that."""
        self._error: StateError | None = None
        """Set while messages wait after a failed one."""

    async def __aenter__(self) -> None:
        self._users += 1
        try:
            await self._lock.acquire()
        except asyncio.CancelledError:
            self._leave()
            raise
        if self._error is not None:
            error = self._error
            self._lock.release()
            self._leave()
            raise error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StateError):
            self._error = error
        self._lock.release()
        self._leave()

    def _leave(self) -> None:
        self._users -= 1
        if not self._users:
            self._error = None  # Telegram sends them again, in their order
