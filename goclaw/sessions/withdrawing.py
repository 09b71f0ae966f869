"""Withdrawal of a request when a further message comes right behind its message (see `queueing.burst`)."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from goclaw.engine.base import Turn


class Withdrawn(Exception):
    """The request was taken back before the model had begun to answer it."""


class Withdrawal:
    """Around a request; ends it with `Withdrawn` for as long as the model has not begun to answer."""

    def __init__(self, turn: Turn, wanted: Callable[[], object]) -> None:
        """Watch the queue behind `turn`; `wanted` returns the messages that continue the requested ones."""
        self._turn = turn
        self._wanted = wanted
        self._timeout = asyncio.timeout(None)
        self.is_open = False
        """Whether the request may still be taken back."""

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self.is_open = True
        self._turn.watch(self._look)
        self._look()  # it may have come while the context was made to fit
        return self

    async def begun(self) -> None:
        """The model has begun to answer: nothing is taken back from here on."""
        self._close()
        if self._timeout.expired():
            await asyncio.sleep(0)  # where the end that is under way arrives, before anything was shown
        else:
            self._timeout.reschedule(None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise Withdrawn from expired

    def _look(self) -> None:
        if self.is_open and not self._timeout.expired() and self._wanted():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def _close(self) -> None:
        self.is_open = False
        self._turn.watch(None)
