"""Descriptors of commands are closed once, whatever is cancelled."""

import asyncio
import gc
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import uvloop

from goclaw.tools.execution.sandbox.descriptors import StdinWriter, reading

LOOPS = [pytest.param(uvloop.new_event_loop, id="uvloop"), pytest.param(asyncio.new_event_loop, id="asyncio")]


async def taken_by_another() -> None:
    """Let another file have the number of a pipe that was read, and expect it to stay open."""
    read, write = os.pipe()
    async with reading(read) as reader, asyncio.timeout(5):
        os.write(write, b"said")
        os.close(write)
        assert await reader.read() == b"said"
    other = os.open(os.devnull, os.O_RDONLY)
    assert other == read, "the pipe is closed when the block ends"
    del reader
    gc.collect()
    for _ in range(10):  # a loop closes what it was given in one of its next rounds
        await asyncio.sleep(0)
    os.close(other)


async def test_what_read_a_pipe_is_freed_without_the_garbage_collector() -> None:
    read, write = os.pipe()
    os.close(write)
    gc.disable()
    try:
        async with reading(read) as reader:
            kept = weakref.ref(reader)
        del reader
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("loop_factory", LOOPS)
def test_a_pipe_is_closed_once_so_that_the_next_file_of_its_number_stays_open(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(taken_by_another())


async def test_a_writer_waits_while_the_reader_has_enough() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    written = 0
    async with reading(read, 4096) as reader, asyncio.timeout(5):
        with suppress(BlockingIOError):
            while True:
                written += os.write(write, b"x" * 4096)
                await asyncio.sleep(0)
                assert written < 1_000_000, "nothing is held back"
        os.close(write)
        assert len(await reader.read()) == written


@pytest.fixture
def pipe() -> Iterator[tuple[int, StdinWriter]]:
    read, write = os.pipe()
    feed = StdinWriter(write)
    yield read, feed
    os.close(read)


async def test_a_feed_waits_for_its_reader_and_loses_nothing(pipe: tuple[int, StdinWriter]) -> None:
    read, feed = pipe
    async with asyncio.timeout(5), reading(os.dup(read)) as reader:
        writing = asyncio.create_task(feed.write(b"x" * 1_000_000))
        await reader.readexactly(1_000_000)
        await writing
        feed.close()
        assert await reader.read() == b""


async def test_who_waits_to_write_hears_that_the_feed_was_closed(pipe: tuple[int, StdinWriter]) -> None:
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
    feed = StdinWriter(write)
    async with asyncio.timeout(5):
        writing = asyncio.create_task(feed.write(b"x" * 1_000_000))
        await asyncio.sleep(0)
        os.close(read)
        with pytest.raises(BrokenPipeError):
            await writing
    feed.close()


async def test_a_cancelled_write_leaves_the_feed_usable(pipe: tuple[int, StdinWriter]) -> None:
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
