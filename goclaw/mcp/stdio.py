"""A server that is a program: its standard input and output carry a message per line.

In place of the library's own transport: the environment has only the named variables, messages are bounded, and the
program's last lines on standard error are kept to explain its end.
"""

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from goclaw.config.mcp_servers import McpClientSettings
from goclaw.errors import ToolError
from goclaw.mcp.base import LinkEnvironment
from goclaw.mcp.limits import ANSWER, MAX_MESSAGE, UNASKED, Throttle
from goclaw.mcp.words import shown
from goclaw.state import make_private
from goclaw.supervise import background, see_through

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables of ours that a program gets: without them hardly any finds its parts."""
GRACE_SECONDS = 1.0
"""Seconds for a program to end by itself when its input ends, and again after the signal (the protocol, "Shutdown")."""
_LARGE = 256 << 10
"""Bytes of a message that is read in a thread."""
_LAST_WORDS = 1_000


@dataclass(slots=True)
class ServerProcess:
    """The program behind a connection."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it sends nothing more."""
    fault: str = ""
    """The fault for which we ended it."""
    said: bytes = b""

    def last_words(self) -> str:
        """Return why it ended, as far as it said so."""
        lines = [line for line in self.said.decode(errors="replace").splitlines() if line.strip()]
        return self.fault or shown(" ".join(lines[-3:]))


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
    process = await _started(settings, around)
    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with (
            background(_listen(process, incoming, program, Throttle(around.clock)), "an MCP server's messages"),
            background(_speak(process, outgoing, program), "messages for an MCP server"),
            background(_keep_last_words(process, program), "an MCP server's errors"),
        ):
            yield read_stream, write_stream
    finally:
        for stream in (incoming, read_stream, write_stream, outgoing):
            stream.close()
        await see_through(_end(process), "ending an MCP server")


async def _started(settings: McpClientSettings, around: LinkEnvironment) -> Process:
    variables = environment(settings)
    command = settings.command or ""
    path = await asyncio.to_thread(shutil.which, command, path=variables.get("PATH"))
    if path is None:
        raise ToolError(f"there is no program {shown(command)} that could be started (on the PATH of the daemon)")
    try:
        folder = settings.cwd or await asyncio.to_thread(_folder, around.state)
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


def _folder(state: Path) -> Path:
    """Return the folder in which programs without a folder of their own are started."""
    make_private(state, "mcp")
    return state / "mcp"


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
            message = await asyncio.to_thread(_parsed, line) if len(line) > _LARGE else _parsed(line)
            await throttle.take(ANSWER if _answers(message) else UNASKED)
            await incoming.send(message)
    except asyncio.LimitOverrunError:
        program.fault = f"it sent a message of more than {MAX_MESSAGE >> 20} MB"
    except (asyncio.IncompleteReadError, anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        pass  # its output or our session has ended
    finally:
        incoming.close()
        program.ended.set()


def _parsed(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _answers(message: SessionMessage | Exception) -> bool:
    answers = mcp_types.JSONRPCResponse | mcp_types.JSONRPCError
    return isinstance(message, SessionMessage) and isinstance(message.message, answers)


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


async def _keep_last_words(process: Process, program: ServerProcess) -> None:
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
