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
        self._error: StateError | None = None

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        if self._error is not None:
            self._lock.release()
            raise self._error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, StateError):
            self._error = error
        self._lock.release()
