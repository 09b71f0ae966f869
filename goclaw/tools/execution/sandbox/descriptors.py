"""Descriptors on the event loop: a process that ends, a pipe that is read, bytes as a file."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

CHUNK = 1 << 16


@contextmanager
def closing(*descriptors: int) -> Iterator[None]:
    """Close the descriptors at the end of the block."""
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def file_of(data: bytes, name: str) -> int:
    """Return an anonymous file in memory that holds `data`, at its beginning."""
    descriptor = os.memfd_create(name)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class StdinWriter:
    """The writing end of a command's standard input, which it owns; without a descriptor it is closed already."""

    def __init__(self, descriptor: int = -1) -> None:
        self._descriptor = descriptor
        self._room: asyncio.Future[None] | None = None
        self._one_by_one = asyncio.Lock()
        if descriptor >= 0:
            os.set_blocking(descriptor, False)

    async def write(self, data: bytes) -> None:
        """Write all of the data, or as much as the reader takes until it closes.

        Raises:
            BrokenPipeError: the pipe has no reader.
        """
        left = memoryview(data)
        async with self._one_by_one:
            while left:
                if self._descriptor < 0:
                    raise BrokenPipeError
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:
                    await self._wait_for_room()

    async def _wait_for_room(self) -> None:
        loop, descriptor = asyncio.get_running_loop(), self._descriptor
        self._room = room = loop.create_future()
        loop.add_writer(descriptor, _set, room)
        try:
            await room
        finally:
            self._room = None
            if self._descriptor >= 0:
                loop.remove_writer(descriptor)

    def close(self) -> None:
        """Close the pipe: the reader gets the end of file, and a waiting writer gets BrokenPipeError."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if self._room is not None:
            asyncio.get_running_loop().remove_writer(descriptor)
            _set(self._room)
        os.close(descriptor)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def input_of(data: bytes | int | None, *, keeps: bool) -> tuple[int, StdinWriter]:
    """Return a command's standard input, which the caller closes, and its writer."""
    if keeps:
        reads, writes = os.pipe()
        return reads, StdinWriter(writes)
    if isinstance(data, int):
        return os.dup(data), StdinWriter()
    nothing = os.O_RDONLY | os.O_CLOEXEC
    return os.open(os.devnull, nothing) if data is None else file_of(data, "stdin"), StdinWriter()


class _Pipe(asyncio.ReadTransport):
    """The reading end of a pipe; it stands still while its reader has enough."""

    def __init__(self, descriptor: int, reader: asyncio.StreamReader) -> None:
        super().__init__()
        self._descriptor, self._reader = descriptor, reader
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)
        reader.set_transport(self)
        self.resume_reading()

    def pause_reading(self) -> None:
        self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Stop for good, and drop the reader: the two refer to each other."""
        self.pause_reading()
        del self._reader

    def _read(self) -> None:
        with suppress(BlockingIOError):
            if data := os.read(self._descriptor, CHUNK):
                self._reader.feed_data(data)
            else:
                self.pause_reading()
                self._reader.feed_eof()


@asynccontextmanager
async def reading(descriptor: int, limit: int = CHUNK) -> AsyncIterator[asyncio.StreamReader]:
    """Read the pipe `descriptor`, which is closed when the block ends.

    At most a few times `limit` bytes wait in memory; the writer waits, too.
    """
    # Not `connect_read_pipe`: uvloop and the file given to it close the same number, one after the other, and the
    # second time it may be another thread's file (https://github.com/MagicStack/uvloop/issues/763).
    reader = asyncio.StreamReader(limit)
    with closing(descriptor):
        pipe = _Pipe(descriptor, reader)
        try:
            yield reader
        finally:
            pipe.close()


async def chunks(reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
    """Yield chunks until the end of file."""
    while chunk := await reader.read(CHUNK):
        yield chunk


async def until_ended(process: int) -> None:
    """Return when the process of this process descriptor (pidfd) has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def notice() -> None:
        loop.remove_reader(process)
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(process, notice)
    try:
        await ended
    finally:
        loop.remove_reader(process)
