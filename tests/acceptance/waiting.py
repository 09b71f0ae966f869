"""Waiting for what other processes do: look again and again, but never for ever."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from goclaw.common.core.clock import RealClock

ValueT = TypeVar("ValueT")

LOOK_SECONDS = 0.01
PATIENCE = 20.0
"""Seconds until a wait has failed: generous, because the machines that run tests are busy ones."""

clock = RealClock()


async def eventually(look: Callable[[], ValueT | None], seconds: float = PATIENCE) -> ValueT:
    """What `look` finds, asked until it is neither None nor False nor empty; `TimeoutError` after `seconds`."""
    async with asyncio.timeout(seconds):
        while not (found := look()):
            await clock.sleep(LOOK_SECONDS)
        return found


async def never(look: Callable[[], object], seconds: float) -> None:
    """Fail if `look` finds anything within `seconds`."""
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        assert not (found := look()), found
        await clock.sleep(LOOK_SECONDS)
