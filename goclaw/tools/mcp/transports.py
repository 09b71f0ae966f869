"""Transports to a server: streamable HTTP to an address, or the standard input and output of a program.

An address from the operator is called as it is; one from a registry is checked by the guard for addresses when the
connection is made. Redirects are followed within the same origin alone (the library does that): headers with secrets go
nowhere else. Answers are bounded.

A program takes and gives a message per line, in place of the library's own transport: the environment has only the
named variables, messages are bounded, and the program's last lines on standard error are kept to explain its end.
"""

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import anyio
import httpcore2
import httpx2
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from goclaw.common.config.mcp import McpClientSettings
from goclaw.common.config.state import make_private
from goclaw.common.core.clock import Clock
from goclaw.common.core.supervise import background, finish_despite_cancel
from goclaw.common.net import UrlGuard, check_reachable
from goclaw.errors import ToolError
from goclaw.tools.mcp.base import LinkEnvironment
from goclaw.tools.mcp.salvage import whole_characters
from goclaw.tools.mcp.untrusted import ANSWER_WEIGHT, MAX_MESSAGE, UNASKED_WEIGHT, Throttle, shorten

CONNECT_SECONDS = 15.0
CONNECTIONS = 100
"""Simultaneous connections to one server: the library's own value."""
SILENCE_SECONDS = 300.0
"""Seconds that a stream of events may be silent, at least: the library's own value."""

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables of ours that a program gets: without them hardly any finds its parts."""
GRACE_SECONDS = 1.0
"""Seconds for a program to end by itself when its input ends, and again after the signal (the protocol, "Shutdown")."""
_LARGE = 256 << 10
"""Bytes of a message that is read in a thread."""
_LAST_WORDS = 1_000
_ANSWERS = (mcp_types.JSONRPCResponse, mcp_types.JSONRPCError)


class ResponseTooLarge(httpx2.StreamError):
    """A server's answer exceeds the bound."""


class _BoundedBody(httpx2.AsyncByteStream):
    """The body of an answer, in whole lines: of half a character the library would refuse the whole message."""

    def __init__(self, inner: httpx2.AsyncByteStream, throttle: Throttle | None) -> None:
        """`throttle`: for a stream of messages, each followed by an empty line."""
        self._inner = inner
        self._throttle = throttle

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, line = 0, bytearray()
        async for piece in self._inner:
            if self._throttle and (ends := piece.count(b"\n\n") + piece.count(b"\n\r\n")):
                await self._throttle.acquire(ends * UNASKED_WEIGHT)
                size = 0
            size += len(piece)
            if size > MAX_MESSAGE:
                raise ResponseTooLarge(f"it sent a message of more than {MAX_MESSAGE >> 20} MB")
            line += piece
            if end := line.rfind(b"\n") + 1:
                yield whole_characters(bytes(line[:end]))
                del line[:end]
        yield whole_characters(bytes(line))

    async def aclose(self) -> None:
        await self._inner.aclose()


class _GuardedBackend(httpcore2.AnyIOBackend):
    """A backend that connects to the addresses that the guard has checked, without a second lookup of the name."""

    def __init__(self, guard: UrlGuard) -> None:
        super().__init__()
        self._guard = guard

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        failed: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in await self._guard.addresses(host, port):
            try:
                return await super().connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore2.ConnectError as error:
                failed = error
        raise failed


class _HttpTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, clock: Clock, guard: UrlGuard | None) -> None:
        super().__init__()
        self._throttle = Throttle(clock)
        if guard:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=httpx2.create_ssl_context(),
                max_connections=CONNECTIONS,
                network_backend=_GuardedBackend(guard),
            )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        body = cast("httpx2.AsyncByteStream", response.stream)
        is_events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _BoundedBody(body, self._throttle if is_events else None)
        return response


@asynccontextmanager
async def open_address(settings: McpClientSettings, environment: LinkEnvironment) -> AsyncIterator[TransportStreams]:
    """Connect to the server at the address until the block ends.

    Raises:
        ConfigError: it may not be reached from here (`net.check_reachable`).
    """
    check_reachable(urlsplit(settings.url or "").hostname or "")
    headers = {"Accept-Encoding": "identity"}
    headers |= {name: value.get_secret_value() for name, value in settings.headers.items()}
    silence = max(SILENCE_SECONDS, settings.timeout + CONNECT_SECONDS)
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=silence)
    async with httpx2.AsyncClient(
        headers=headers, timeout=timeout, transport=_HttpTransport(environment.clock, environment.guard)
    ) as client:
        async with streamable_http_client(
            settings.url or "", http_client=client, max_sse_event_size=MAX_MESSAGE
        ) as streams:
            yield streams


@dataclass(slots=True)
class ServerProcess:
    """The program serving a connection."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it sends nothing more."""
    fault: str = ""
    """The fault for which we ended it."""
    said: bytes = b""

    def last_words(self) -> str:
        """Return why it ended, as far as it said so."""
        lines = [line for line in self.said.decode(errors="replace").splitlines() if line.strip()]
        return self.fault or shorten(" ".join(lines[-3:]))


def environment(settings: McpClientSettings) -> Mapping[str, str]:
    """Return all variables that a program gets."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(settings.variables())


@asynccontextmanager
async def open_program(
    settings: McpClientSettings, around: LinkEnvironment, program: ServerProcess
) -> AsyncIterator[TransportStreams]:
    """Start the program and connect to it, until the block ends: then it and all its children are ended.

    Raises:
        ToolError: it cannot be started.
    """
    process = await _start(settings, around)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with (
            background(_listen(process, incoming, program, Throttle(around.clock)), "an MCP server's messages"),
            background(_speak(process, outgoing, program), "messages for an MCP server"),
            background(_record_last_words(process, program), "an MCP server's errors"),
        ):
            yield read_stream, write_stream
    finally:
        for stream in (incoming, read_stream, write_stream, outgoing):
            stream.close()
        await finish_despite_cancel(_end(process), "ending an MCP server")


async def _start(settings: McpClientSettings, around: LinkEnvironment) -> Process:
    variables = environment(settings)
    command = settings.command or ""
    path = await asyncio.to_thread(shutil.which, command, path=variables.get("PATH"))
    if path is None:
        raise ToolError(f"there is no program {shorten(command)} on the PATH of the daemon")
    try:
        folder = settings.cwd
        if folder is None:  # a folder to start programs in that have none of their own
            await asyncio.to_thread(make_private, around.state, "mcp")
            folder = around.state / "mcp"
        return await asyncio.create_subprocess_exec(
            path,
            *settings.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=variables,
            cwd=folder,
            start_new_session=True,
            limit=MAX_MESSAGE,
        )
    except OSError as error:
        raise ToolError(f"it cannot be started: {error.strerror or error}") from None


async def _listen(
    process: Process,
    incoming: "MemoryObjectSendStream[SessionMessage | Exception]",
    program: ServerProcess,
    throttle: Throttle,
) -> None:
    output = cast("asyncio.StreamReader", process.stdout)
    try:
        while True:
            line = await output.readuntil(b"\n")
            message = await asyncio.to_thread(_parse, line) if len(line) > _LARGE else _parse(line)
            answers = isinstance(message, SessionMessage) and isinstance(message.message, _ANSWERS)
            await throttle.acquire(ANSWER_WEIGHT if answers else UNASKED_WEIGHT)
            await incoming.send(message)
    except asyncio.LimitOverrunError:
        program.fault = f"it sent a message of more than {MAX_MESSAGE >> 20} MB"
    except (asyncio.IncompleteReadError, anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        pass  # its output or our session has ended
    finally:
        incoming.close()
        program.ended.set()


def _parse(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _speak(
    process: Process, outgoing: "MemoryObjectReceiveStream[SessionMessage]", program: ServerProcess
) -> None:
    given = cast("asyncio.StreamWriter", process.stdin)
    try:
        async for session_message in outgoing:
            text = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
            given.write(text.encode() + b"\n")
            await given.drain()
    except (OSError, RuntimeError, anyio.ClosedResourceError):  # uvloop: RuntimeError of a pipe that is closed
        program.ended.set()


async def _record_last_words(process: Process, program: ServerProcess) -> None:
    errors = cast("asyncio.StreamReader", process.stderr)
    while piece := await errors.read(_LARGE):
        program.said = (program.said + piece)[-_LAST_WORDS:]


async def _end(process: Process) -> None:
    """Close its input, signal its whole group to end, then kill it: each step only if the one before was not enough."""
    cast("asyncio.StreamWriter", process.stdin).close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _ends(process):
            break
        _signal(process, number)
    # Even if it has ended: children that it left behind are in its group.
    _signal(process, signal.SIGKILL)
    await _ends(process)
    # A pipe not read to its end, or held by a survivor, stays open; nothing public closes it.
    if (transport := getattr(process, "_transport", None)) is not None:
        transport.close()


async def _ends(process: Process) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            await process.wait()
    return process.returncode is not None


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
