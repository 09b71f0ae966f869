"""The Unix socket in the state folder: its file, and the wait for the first client.

Its server and the library underneath take 2 MB, which a daemon without terminals does not need: they are
loaded when the first client comes (0.1 s, once), which the kernel keeps waiting meanwhile.
"""

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.errors import StateError

if TYPE_CHECKING:
    from goclaw.gateway.servers.serving import ServingGateway

WAITING = 128
"""Clients that the kernel keeps waiting, as for every listener of aiohttp."""


@asynccontextmanager
async def open_socket(
    path: Path,
    gateway: "ServingGateway",
    clock: Clock,
    greeting: Callable[[], str],
    link: Callable[[str], Awaitable[str]] | None = None,
) -> AsyncIterator[None]:
    """Listen at `path` while the block runs, and serve those who come.

    `link`: returns a one-time link to the web page for a user; None: there are none.

    Raises:
        StateError: others could put their own socket into its place.
    """

    async def serve() -> None:
        await _first_client(listening)
        await asyncio.to_thread(import_module, "goclaw.gateway.servers.terminals")
        from goclaw.gateway.servers.terminals import serve_owner

        async with serve_owner(listening, gateway, clock, greeting, link):
            await asyncio.get_running_loop().create_future()

    with bound_socket(path) as listening:
        async with background(run_with_restarts("terminals", serve, clock), "terminals"):
            yield


async def _first_client(listening: socket.socket) -> None:
    """Wait until a client has come, and leave it where it is."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(listening)


@contextmanager
def bound_socket(path: Path) -> Iterator[socket.socket]:
    """Yield a socket that listens at `path` while the block runs. A leftover of an earlier run is replaced.

    Raises:
        StateError: others could put their own socket into its place.
    """
    listening, made = _bind(path)
    try:
        listening.setblocking(False)
        listening.listen(WAITING)
        yield listening
    finally:
        listening.close()
        _unlink(path, made)


def _bind(path: Path) -> tuple[socket.socket, tuple[int, int]]:
    """Return the socket, and the identity of its file. At no moment can another user reach or replace it."""
    folder = path.parent.stat()
    # A user who may write there could replace the socket; a sticky folder (/tmp) forbids that.
    if folder.st_uid not in (0, os.geteuid()) or (folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX):
        raise StateError(f"{path.parent}: others can change this folder, and so impersonate the daemon")
    path.unlink(missing_ok=True)  # also a link, never what it leads to
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.fchmod(listening.fileno(), 0o600)  # the file that `bind` makes has this mode from the first moment
    listening.bind(str(path))
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o177 or found.st_uid != os.geteuid():
        listening.close()
        raise StateError(f"{path}: this file system cannot keep it private; choose another `state_dir`")
    return listening, (found.st_dev, found.st_ino)


def _unlink(path: Path, made: tuple[int, int]) -> None:
    """Remove our own socket file, but no file that has taken its place."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == made:
            path.unlink()
