"""The Unix socket in the state folder, for the terminal clients of the user who runs the daemon.

A client must have the daemon's own uid, as the kernel reports it, and acts as the owner. `servers.serving` handles the
connection from there.
"""

import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from aiohttp import web

from goclaw.clock import Clock
from goclaw.errors import StateError
from goclaw.events import Actor
from goclaw.servers.serving import Peer, Serving, ServingGateway
from goclaw.users import login_name
from goclaw.wire import PATH


def owner_key(session: str) -> str:
    """Return the owner's actor key: `tui:<name>` of that session, or of his login in a session of another channel."""
    return session if session.startswith("tui:") else f"tui:{login_name()}"


@asynccontextmanager
async def open_socket(
    path: Path, gateway: ServingGateway, clock: Clock, greeting: Callable[[], str]
) -> AsyncIterator[Serving]:
    """Listen at `path` while the block runs. A socket that an earlier run left behind is replaced.

    Raises:
        StateError: others could put their own socket into its place.
    """
    serving = Serving(gateway, clock, greeting)

    async def serve(request: web.Request) -> web.WebSocketResponse:
        if _peer_uid(request) != os.getuid():
            raise web.HTTPForbidden(text="this socket belongs to another user")
        return await serving.serve(request, Peer(_owner, _always_welcome))

    async def end(_: web.Application) -> None:
        await serving.end()

    application = web.Application()
    application.router.add_get(PATH, serve)
    application.on_shutdown.append(end)
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    listening, made = _bind(path)
    try:
        await web.SockSite(runner, listening).start()
        yield serving
    finally:
        await runner.cleanup()
        _unlink(path, made)


def _owner(session: str) -> Actor:
    return Actor(owner_key(session), "socket", owner=True, name=login_name())


def _peer_uid(request: web.Request) -> int:
    """Return the uid of the process at the other end, from the kernel (unix(7), SO_PEERCRED)."""
    transport = request.transport
    if transport is None:
        return -1
    peer: socket.socket = transport.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _always_welcome() -> str:
    """Return no objection: the owner's rights may change, but not the access to the own machine."""
    return ""


def _bind(path: Path) -> tuple[socket.socket, tuple[int, int]]:
    """Return the socket, and the identity of its file. At no moment can another user reach or replace it."""
    folder = path.parent.stat()
    # A user who may write there could replace the socket; a sticky folder (/tmp) forbids that.
    if folder.st_uid not in (0, os.geteuid()) or (folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX):
        raise StateError(f"{path.parent}: others can change it, so that they could take the place of the daemon there")
    path.unlink(missing_ok=True)  # also a link, never what it leads to
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.fchmod(listening.fileno(), 0o600)  # the file that `bind` makes has this mode from the first moment
    listening.bind(str(path))
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or stat.S_IMODE(found.st_mode) & 0o177 or found.st_uid != os.geteuid():
        listening.close()
        raise StateError(f"{path}: cannot be kept private on this file system; choose another `state_dir`")
    return listening, (found.st_dev, found.st_ino)


def _unlink(path: Path, made: tuple[int, int]) -> None:
    """Remove our own socket file, but no file that has taken its place."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if (found.st_dev, found.st_ino) == made:
            path.unlink()
