"""A TCP proxy on this machine that cuts what goes through it, or holds it back: the network between two processes."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

CHUNK = 65_536
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER of no seconds: closing sends RST (socket(7))."""


class TcpProxy:
    """Forwards connections to a port, or each to the next one of several that takes it. Made by `tcp_proxy`."""

    def __init__(self, targets: Sequence[int]) -> None:
        self.port = 0
        self._targets = deque(targets)
        self._open = asyncio.Event()
        self._open.set()
        self._lines: set[asyncio.StreamWriter] = set()

    def reset(self) -> int:
        """Cut every connection at once, so that both ends read of a reset; returns how many there were."""
        for writer in self._lines:
            with suppress(OSError):
                ending: socket.socket = writer.get_extra_info("socket")
                ending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
            writer.transport.abort()
        return len(self._lines) // 2

    def hold(self) -> None:
        """Let nothing through, in no direction, until `let_go`; no one is told. New connections hang, too."""
        self._open.clear()

    def let_go(self) -> None:
        """Let everything through, also what was sent meanwhile."""
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until it ends."""
        ends = {writer}
        self._lines.add(writer)
        try:
            await self._open.wait()
            there, back = await self._connected()
            ends.add(back)
            self._lines.add(back)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._forward(reader, back))
                group.create_task(self._forward(there, writer))
        except OSError:
            pass  # nothing listens there: the other end is cut, too
        finally:
            for each in ends:
                each.transport.abort()
                self._lines.discard(each)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the next target that takes a connection.

        Raises:
            OSError: none does.
        """
        for _ in range(len(self._targets) - 1):
            self._targets.rotate()
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self._targets[0])
        self._targets.rotate()
        return await asyncio.open_connection("127.0.0.1", self._targets[0])

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction: when one side ends, the other one is told."""
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            await self._open.wait()
            writer.close()


@asynccontextmanager
async def tcp_proxy(*targets: int) -> AsyncIterator[TcpProxy]:
    """Forward to these ports of 127.0.0.1 from a free one of this machine, for as long as the block lasts."""
    proxy = TcpProxy(targets)
    serving = set[asyncio.Task[None]]()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.serve(reader, writer), name="connection through the proxy")
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in set(serving):
            task.cancel()
        if serving:
            await asyncio.wait(set(serving))
