"""A connection to the daemon that breaks where a test wants it to: between frames, inside one, before or after one.

Like every stream it doubles nothing, changes no order, and loses only what was under way when it broke.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

Frame = dict[str, Any]


class BadLine:
    """Listens at one path and passes everything on to another. Made by `open_bad_line`."""

    def __init__(self, daemon: Path) -> None:
        self._daemon = daemon
        self.breaks = 0
        self.came: list[Frame] = []
        """Frames of the daemon that arrived whole at the client, over all connections."""
        self.break_after: int | None = None
        """Break once so many frames have come."""
        self.break_every: int | None = None
        """Break each connection once so many frames have come over it."""
        self.break_within: int | None = None
        """Break once so many bytes have come."""
        self.lose: Callable[[Frame], bool] | None = None
        """A frame of the client that is lost, and the connection with it; once."""
        self.deafen: Callable[[Frame], bool] | None = None
        """A frame of the client that still arrives, but nothing comes back any more; once."""
        self.up = asyncio.Event()
        """Cleared: nobody gets through any more."""
        self.up.set()
        self.flows = asyncio.Event()
        """Cleared: what the daemon sends stays under way."""
        self.flows.set()
        self._grown = asyncio.Event()
        self._bytes = 0
        self._writers: set[asyncio.StreamWriter] = set()

    def hang_up(self) -> None:
        """Break every connection, and let nobody through until `up` is set."""
        self.up.clear()
        self.breaks += 1
        for writer in self._writers:
            writer.transport.abort()

    async def until(self, event: str) -> None:
        """Wait until an event of that kind has come."""
        while all(frame.get("name") != event for frame in self.came):
            self._grown.clear()
            await self._grown.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        if not self.up.is_set():
            writer.close()
            return
        try:
            from_daemon, to_daemon = await asyncio.open_unix_connection(str(self._daemon))
        except OSError:
            writer.close()
            return
        self._writers |= {writer, to_daemon}
        ways = [
            asyncio.create_task(self._down(from_daemon, writer)),
            asyncio.create_task(self._up(reader, to_daemon)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._writers -= {writer, to_daemon}
            to_daemon.close()
            writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(await reader.readuntil(b"\r\n\r\n"))
            begun_at = len(self.came)
            while True:
                raw, frame = await _frame(reader)
                await self.flows.wait()
                if self.break_within is not None and self._bytes + len(raw) > self.break_within:
                    writer.write(raw[: self.break_within - self._bytes])
                    await writer.drain()
                    self.break_within = None
                    self.breaks += 1
                    return
                self._bytes += len(raw)
                writer.write(raw)
                await writer.drain()
                if frame is not None:
                    self.came.append(frame)
                    self._grown.set()
                if self.break_after is not None and len(self.came) >= self.break_after:
                    self.break_after = None
                    self.breaks += 1
                    return
                if self.break_every is not None and len(self.came) >= begun_at + self.break_every:
                    self.breaks += 1
                    return

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            writer.write(await reader.readuntil(b"\r\n\r\n"))
            while True:
                raw, frame = await _frame(reader)
                if frame is not None and self.lose is not None and self.lose(frame):
                    self.lose = None
                    self.breaks += 1
                    return
                if frame is not None and self.deafen is not None and self.deafen(frame):
                    self.deafen = None
                    self.breaks += 1
                    writer.write(raw)
                    await writer.drain()
                    return
                writer.write(raw)
                await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> tuple[bytes, Frame | None]:
    """One frame of a WebSocket (RFC 6455, section 5.2) as it is, and what it says if that is text."""
    raw = await reader.readexactly(2)
    is_masked, length = raw[1] & 0x80, raw[1] & 0x7F
    if length >= 126:
        more = await reader.readexactly(2 if length == 126 else 8)
        raw, length = raw + more, int.from_bytes(more)
    mask = await reader.readexactly(4) if is_masked else bytes(4)
    payload = await reader.readexactly(length)
    text = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if is_masked else payload
    raw += (mask if is_masked else b"") + payload
    return raw, json.loads(text) if raw[0] & 0x0F == 1 else None


@asynccontextmanager
async def open_bad_line(path: Path, daemon: Path) -> AsyncIterator[BadLine]:
    """A line at `path` to the daemon that listens at `daemon`."""
    line = BadLine(daemon)
    server = await asyncio.start_unix_server(line.serve, str(path), limit=1 << 24)
    try:
        yield line
    finally:
        server.close()
        for writer in list(line._writers):
            writer.transport.abort()
