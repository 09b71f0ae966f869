"""Where a matrix looks for its models: one server with a folder for each model, and several that are none."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from goclaw.common.net import client
from goclaw.llm import http_streams
from tests.acceptance.faults.model_faults import ELSEWHERE, Place
from tests.llm.fake_provider import Reply
from tests.ports import free_port

NOWHERE = "nobody.invalid"
"""A name that nothing has (RFC 6761)."""


@dataclass
class Servers:
    """Answers the requests below `/<model>/` with what that model's server is to say now."""

    urls: dict[Place, str] = field(default_factory=dict)
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    """By model; the last one stays."""
    elsewhere: list[str] = field(default_factory=list)
    """Requests that were sent where a redirect pointed."""

    def url(self, place: Place, model: str) -> str:
        """The base address of a model."""
        return f"{self.urls[place]}/{model}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        await request.read()
        if request.path.startswith(ELSEWHERE):
            self.elsewhere.append(request.path)
            return web.Response(status=500)
        if request.path.endswith("/api/show"):
            return web.json_response({"capabilities": ["completion", "tools"], "model_info": {}})
        if request.method == "GET":  # what a server says of its models: this one knows nothing of that
            return web.Response(status=404)
        waiting = self.replies[request.path.split("/")[1]]
        reply = waiting[0] if len(waiting) == 1 else waiting.pop(0)
        response = web.StreamResponse(status=reply.status, headers={"content-type": reply.type, **reply.headers})
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            for piece in reply.pieces:
                await response.write(piece)
            if reply.end == "cut" and request.transport:
                request.transport.abort()
            elif reply.end == "hang":
                await asyncio.Event().wait()
            await response.write_eof()
        return response


async def _garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x16\x03 what do you want?\r\n\r\n")
    await writer.drain()
    writer.close()


async def _mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.transport.abort()


@asynccontextmanager
async def open_servers(idle: float) -> AsyncIterator[Servers]:
    """All of them, on ports of this machine; a server counts as dead after `idle` seconds without a byte."""
    servers = Servers()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", servers.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    garbage = await asyncio.start_server(_garbage, "127.0.0.1", 0)
    mute = await asyncio.start_server(_mute, "127.0.0.1", 0)
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        port = runner.addresses[0][1]
        servers.urls = {
            "server": f"http://127.0.0.1:{port}",
            "tls": f"https://127.0.0.1:{port}",
            "nobody": f"http://127.0.0.1:{free_port()}",
            "nowhere": f"http://{NOWHERE}",
            "garbage": f"http://127.0.0.1:{garbage.sockets[0].getsockname()[1]}",
            "mute": f"http://127.0.0.1:{mute.sockets[0].getsockname()[1]}",
        }
        with _short_waits(idle):
            yield servers
    finally:
        garbage.close()
        mute.close()
        await runner.cleanup()


@contextmanager
def _short_waits(idle: float) -> Iterator[None]:
    """Nobody waits for five minutes; the name that nothing has is not asked for outside."""
    look_up, on_this_machine = socket.getaddrinfo, client.is_loopback

    def found(host: object, *arguments: object, **named: object) -> object:
        if host in (NOWHERE, NOWHERE.encode()):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return look_up(host, *arguments, **named)  # type: ignore[arg-type]  # handed on as it came

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", found)
        patch.setattr(client, "is_loopback", lambda host: host == NOWHERE or on_this_machine(host))
        patch.setattr(client, "IDLE_TIMEOUT", idle)
        patch.setattr(http_streams, "BETWEEN_BYTES", idle)
        yield
