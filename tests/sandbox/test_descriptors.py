"""Descriptors of commands are closed once, whatever is cancelled."""

import asyncio
import os
from collections.abc import Callable, Iterator

import pytest
import uvloop

from goclaw.sandbox.descriptors import Feed, reading

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


@pytest.fixture
def pipe() -> Iterator[tuple[int, Feed]]:
    read, write = os.pipe()
    feed = Feed(write)
    yield read, feed
    os.close(read)


async def test_a_feed_waits_for_its_reader_and_loses_nothing(pipe: tuple[int, Feed]) -> None:
    read, feed = pipe
    async with asyncio.timeout(5), reading(os.dup(read)) as reader:
        writing = asyncio.create_task(feed.write(b"x" * 1_000_000))
        await reader.readexactly(1_000_000)
        await writing
        feed.close()
        assert await reader.read() == b""


async def test_who_waits_to_write_hears_that_the_feed_was_closed(pipe: tuple[int, Feed]) -> None:
    _, feed = pipe
    async with asyncio.timeout(5):
        writing = asyncio.create_task(feed.write(b"x" * 1_000_000))
        await asyncio.sleep(0)
        feed.close()
        with pytest.raises(BrokenPipeError):
            await writing
        with pytest.raises(BrokenPipeError):
            await feed.write(b"more")
        feed.close()


async def test_a_reader_that_goes_away_ends_a_write() -> None:
    read, write = os.pipe()
    feed = Feed(write)
    async with asyncio.timeout(5):
        writing = asyncio.create_task(feed.write(b"x" * 1_000_000))
        await asyncio.sleep(0)
        os.close(read)
        with pytest.raises(BrokenPipeError):
            await writing
    feed.close()


async def test_a_cancelled_write_leaves_the_feed_usable(pipe: tuple[int, Feed]) -> None:
    read, feed = pipe
    async with asyncio.timeout(5):
        writing = asyncio.create_task(feed.write(b"x" * 1_000_000))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait([writing])
        os.read(read, 1_000_000)
        await feed.write(b"end")
        assert os.read(read, 10) == b"end"
    feed.close()
