"""A way out of a network namespace that has none: a port of its loopback at which the daemon answers.

The socket is made inside and accepted outside, so nothing of ours runs in the sandbox and nothing is mounted for it. A
command that does not use the port reaches nothing at all.
"""

import asyncio
import os
import select
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from goclaw.common.core.supervise import finish_despite_cancel
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Serve
from goclaw.tools.execution.sandbox.descriptors import closing

PORT = 3128
"""The usual port of proxies; the network namespace is the command's own, so it is free."""
VARIABLES = {
    **dict.fromkeys(
        ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"), f"http://127.0.0.1:{PORT}"
    ),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
}
"""By these programs find it; what a command serves itself stays between its own processes."""

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from goclaw.tools.execution.sandbox.inlet_main import main; "
    "main(*map(int, sys.argv[2:]))"
)
_PACKAGES = str(Path(__file__).parents[4])
_START = 10.0
"""Seconds until the socket must be there."""
_BUFFER = 1 << 15
"""Bytes that wait in memory for each connection; also the longest head of a request."""


@asynccontextmanager
async def inlet(pid: int, process: int, serve: Serve) -> AsyncIterator[None]:
    """Answer connections to `PORT` in the network namespace of the process `pid`, with the pidfd `process`.

    Raises:
        SandboxUnavailable: the socket cannot be made there.
    """
    with ExitStack() as opened:

        async def open_it() -> socket.socket:
            return opened.enter_context(await asyncio.to_thread(_open_inside, pid, process))

        try:
            listener = await finish_despite_cancel(open_it(), "opening the proxy in the sandbox")
        except (OSError, TimeoutError) as error:
            raise SandboxUnavailable(f"the proxy cannot be opened in the sandbox: {error.strerror or error}") from error
        async with _answering(listener, serve):
            yield


def _open_inside(pid: int, process: int) -> socket.socket:
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with closing(network):
        waiting = select.poll()
        waiting.register(process, select.POLLIN)
        # Alive after the file was opened, so the number was its own; and the machine's network is not used.
        if waiting.poll(0) or os.path.samestat(os.fstat(network), Path("/proc/self/ns/net").stat()):
            raise ProcessLookupError(0, "the sandbox has ended")
        return _handed_back(network)


def _handed_back(network: int) -> socket.socket:
    mine, theirs = socket.socketpair()
    with mine:
        with theirs:
            command = [sys.executable, "-I", "-S", "-B", "-c", _BOOT, _PACKAGES, str(network), str(theirs.fileno())]
            helper = subprocess.Popen(
                [*command, str(PORT)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                cwd="/", env={}, pass_fds=(network, theirs.fileno()),
            )  # fmt: skip
        try:
            mine.settimeout(_START)
            said, descriptors, _, _ = socket.recv_fds(mine, 1000, 1)
        finally:
            helper.kill()
            helper.wait()
    if not descriptors:
        raise OSError(0, said.decode(errors="replace") or "its program ended at once")
    return socket.socket(fileno=descriptors[0])


@asynccontextmanager
async def _answering(listener: socket.socket, serve: Serve) -> AsyncIterator[None]:
    """Serve connections while the block runs; end them with the block."""
    serving: set[asyncio.Task[None]] = set()

    def start(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    listener.setblocking(False)
    server = await asyncio.start_server(start, sock=listener, limit=_BUFFER)
    try:
        yield
    finally:
        server.close()
        left = list(serving)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
