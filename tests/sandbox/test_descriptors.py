"""Descriptors of commands are closed once, whatever is cancelled."""

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from goclaw.sandbox.descriptors import reading

LOOPS = [pytest.param(uvloop.new_event_loop, id="uvloop"), pytest.param(asyncio.new_event_loop, id="asyncio")]


async def cancelled_while_connecting() -> int:
    """The descriptor of a pipe whose reader was cancelled before it was connected."""
    read, write = os.pipe()
    os.close(write)

    async def read_it() -> None:
        async with reading(read):
            raise AssertionError("connected before the cancellation")

    task = asyncio.create_task(read_it())
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(10):  # a loop closes what it was given in one of its next rounds
            await asyncio.sleep(0)
    return read


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_pipe_that_is_cancelled_while_connecting_is_closed_once(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        closed = runner.run(cancelled_while_connecting())
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(closed)
