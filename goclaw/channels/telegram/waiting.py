"""A bounded wait for one awaitable."""

import asyncio
from typing import Any

from goclaw.clock import Clock


async def done_within(clock: Clock, seconds: float, work: "asyncio.Future[Any]") -> bool:
    """Wait until `work` is done, at most so many seconds of the clock's time; says whether it is. Cancels nothing."""
    bell = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({work, bell}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        bell.cancel()
    return work.done()


async def set_within(clock: Clock, seconds: float, event: asyncio.Event) -> bool:
    """Wait for an event, with the same bound."""
    work = asyncio.ensure_future(event.wait())
    try:
        return await done_within(clock, seconds, work)
    finally:
        work.cancel()
