"""The Unix socket in the state folder, for the terminal clients of the user who runs the daemon.

Whoever connects must have the daemon's own uid: the kernel says so, the client cannot. That person is the owner. What
a client gets then is in `servers.serving`.
"""

import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from goclaw.clock import Clock
from goclaw.events import Actor
from goclaw.servers.serving import Serving, ServingGateway
from goclaw.users import login_name
from goclaw.wire import PATH


def owner_key(session: str) -> str:
    """Whom the owner speaks as: `tui:<name>` of that session, or of his login in a session of another channel."""
    return session if session.startswith("tui:") else f"tui:{login_name()}"


@asynccontextmanager
async def open_socket(
    path: Path, gateway: ServingGateway, clock: Clock, greeting: Callable[[], str]
) -> AsyncIterator[Serving]:
    """Listen at `path` while the block runs. A socket that an earlier run left behind is replaced."""
    serving = Serving(gateway, clock, greeting)

    async def serve(request: web.Request) -> web.WebSocketResponse:
        if _peer_uid(request) != os.getuid():
            raise web.HTTPForbidden(text="this socket belongs to another user")
        return await serving.serve(request, _owner)

    async def end(_: web.Application) -> None:
        await serving.end()

    application = web.Application()
    application.router.add_get(PATH, serve)
    application.on_shutdown.append(end)
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, _bind(path)).start()
        yield serving
    finally:
        await runner.cleanup()
        _unlink(path)


def _owner(session: str) -> Actor:
    return Actor(owner_key(session), "socket", owner=True, name=login_name())


def _peer_uid(request: web.Request) -> int:
    """The uid of the process at the other end, from the kernel (unix(7), SO_PEERCRED)."""
    transport = request.transport
    if transport is None:
        return -1
    peer: socket.socket = transport.get_extra_info("socket")
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])


def _bind(path: Path) -> socket.socket:
    _unlink(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    path.chmod(0o600)
    return listening


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
