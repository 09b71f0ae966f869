"""Tier B: commands under Landlock and seccomp, started by a small process of their own; and the tier `off`.

The process is `broker_main`. For machines that refuse user namespaces (Docker's default profile, hardened kernels).
Weaker than bubblewrap: process ids and the names and sizes of files stay visible. Neither files nor processes nor
sockets outside can be read, written or reached; modes, owners, times and attributes are changed by the command's
supervisor, in the workspace and the temporary folder alone (`metadata_calls`).

With `tools.exec.sandbox: off` commands run with all rights of the daemon's user. An own environment, limits and the
certain end of the whole tree remain: the same process ensures them, without dropping or restricting anything.
"""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from goclaw.common.core.supervise import background, finish_despite_cancel, result_of
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox import landlock, seccomp
from goclaw.tools.execution.sandbox.base import Policy, Process, SandboxCommand, Tier
from goclaw.tools.execution.sandbox.broker_main import PACKET, REQUEST
from goclaw.tools.execution.sandbox.descriptors import StdinWriter, chunks, closing, file_of, input_of, reading
from goclaw.tools.execution.sandbox.layout import DEVICES, contained_root, readable, refuse_system, visible
from goclaw.tools.execution.sandbox.scratch import scratch_folder, sweep

log = logging.getLogger(__name__)


_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]); from goclaw.tools.execution.sandbox.broker_main import main; "
    "main(int(sys.argv[2]), powerless=sys.argv[3] == '1')"
)
_PACKAGES = str(Path(__file__).parents[4])
_START = 10.0
"""Seconds until a command must have started."""
_DEATH = 5.0
"""Seconds that a killed tree may take to be gone before we stop waiting (uninterruptible sleep)."""


class BrokerProcess:
    """A command that a supervisor watches; `channel` leads to it."""

    def __init__(self, channel: socket.socket, output: asyncio.StreamReader, feed: StdinWriter) -> None:
        self._channel = channel
        self.write, self.close_input = feed.write, feed.close
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._gone = asyncio.Event()
        self._note = ""
        self.output: AsyncIterator[bytes] = self._output(output)

    async def wait(self) -> int:
        return await result_of(self._code)

    async def kill(self) -> None:
        try:
            self._channel.send(b"{}")
        except OSError:
            pass  # it has ended already
        try:
            async with asyncio.timeout(_DEATH):
                await self._gone.wait()
        except TimeoutError:
            log.warning("a killed command is still not gone after %s s", _DEATH)

    async def wait_for_start(self) -> None:
        """Return when the command runs; SandboxUnavailable with the reason when it does not."""
        try:
            async with asyncio.timeout(_START):
                message = await self._receive()
        except TimeoutError:
            raise SandboxUnavailable(f"the exec broker did not start the command within {_START:g} s") from None
        if "started" not in message:
            raise SandboxUnavailable(f"the command could not be started: {message.get('error', 'the broker ended')}")

    async def follow(self) -> None:
        """Process the supervisor's messages until the whole tree is dead."""
        while message := await self._receive():
            self._note = message.get("note", self._note)
            if "exit" in message:
                self._code.set_result(message["exit"])
        if not self._code.done():
            self._code.set_result(137)  # killed: 128 + SIGKILL
        self._gone.set()

    async def _receive(self) -> dict[str, Any]:
        """Return the next message; an empty one at the end of file."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self._channel, PACKET)
        except ConnectionError:
            return {}
        return json.loads(data) if data else {}

    async def _output(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
        async with aclosing(chunks(reader)) as read:
            async for chunk in read:
                yield chunk
        await self._gone.wait()
        if self._note:
            yield f"\n[the sandbox ended the command: {self._note}]\n".encode()


class Broker:
    """The connection to the broker process, which is started when first needed or with `start`."""

    def __init__(self, *, contained: bool = True) -> None:
        self._contained = contained
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def tier(self) -> str:
        return "broker" if self._contained else "off"

    def start(self) -> socket.socket:
        """Start the process, if it does not run, without waiting for it to be ready; the socket to it."""
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self.close()
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-I", "-S", "-B", "-c", _BOOT, _PACKAGES, str(theirs.fileno())]
        with ExitStack() as unless_started, theirs:
            unless_started.enter_context(mine)
            self._process = subprocess.Popen(
                [*command, str(int(self._contained))],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                cwd="/", env={}, pass_fds=(theirs.fileno(),), start_new_session=True,
            )  # fmt: skip
            unless_started.pop_all()
        mine.setblocking(False)
        self._control = mine
        return mine

    def close(self) -> None:
        """End the process; commands that still run are killed when their own sockets close."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @asynccontextmanager
    async def run(self, command: SandboxCommand, policy: Policy) -> AsyncIterator[Process]:
        if self._contained:
            for folder in policy.workspaces:
                refuse_system(folder)
            if policy.network == "proxy":
                raise SandboxUnavailable(
                    "the broker cannot limit commands to a proxy: that needs a network of their own, which only "
                    "bubblewrap makes (tools.exec.network: none works here)"
                )
        async with AsyncExitStack() as stack:
            yield await self._start(command, policy, stack)

    async def _start(self, command: SandboxCommand, policy: Policy, stack: AsyncExitStack) -> BrokerProcess:
        """Start the command; leaving `stack` ends it. Every refusal of the machine is SandboxUnavailable."""
        try:
            scratch = await stack.enter_async_context(scratch_folder())
            given = stack.enter_context(ExitStack())  # what the supervisor gets: ours is closed once it has its own
            # As a file: a packet has its bounds, and JSON writes some characters with six bytes.
            request = file_of(json.dumps(self._request(command, policy, scratch)).encode(), "request")
            given.enter_context(closing(request))
            channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(channel)
            given.enter_context(theirs)
            channel.setblocking(False)
            read_end, write_end = os.pipe()
            given.enter_context(closing(write_end))
            output = await stack.enter_async_context(reading(read_end))
            stdin, feed = input_of(command.stdin, keeps=command.keeps_input)
            stack.callback(feed.close)
            given.enter_context(closing(stdin))
            errors = write_end if command.stderr is None else command.stderr
            await self._send([theirs.fileno(), request, stdin, write_end, errors])
            given.close()
            process = BrokerProcess(channel, output, feed)
            await process.wait_for_start()
            await stack.enter_async_context(background(process.follow(), "watch of a command"))
            stack.push_async_callback(lambda: finish_despite_cancel(process.kill(), "end of a command"))
            return process
        except OSError as error:
            raise SandboxUnavailable(f"the command cannot be started: {error.strerror or error}") from error

    def _request(self, command: SandboxCommand, policy: Policy, scratch: Path) -> dict[str, Any]:
        limits = policy.limits
        usual = contained_root() if self._contained else {}
        request: dict[str, Any] = {
            "argv": command.argv,
            "env": {"HOME": str(scratch), "TMPDIR": str(scratch), **usual, **command.env},
            "cwd": str(command.cwd),
            "limits": [limits.cpu_seconds, limits.memory_bytes, limits.processes, limits.file_bytes],
            "contained": self._contained,
        }
        if self._contained:
            network = policy.network == "host"
            request |= {
                "grants": _grants(policy, scratch, network),
                "network": network,
                # Without a namespace around it, even a Unix socket leads to other programs of this machine.
                "families": list(seccomp.INTERNET) if network else [],
                "protected": [os.getpid()],
            }
        return request

    async def _send(self, descriptors: list[int]) -> None:
        try:
            control = self.start()
            async with asyncio.timeout(_START):
                while True:
                    try:
                        socket.send_fds(control, [REQUEST], descriptors)
                        return
                    except BlockingIOError:
                        await asyncio.sleep(0.002)
        except (OSError, TimeoutError) as error:
            raise SandboxUnavailable(f"the exec broker does not take the command: {error}") from error


def _grants(policy: Policy, scratch: Path, network: bool) -> list[tuple[str, int]]:
    workspaces = [folder.resolve() for folder in policy.workspaces]
    hidden = [path.resolve() for path in policy.hidden]
    for path in hidden:
        if workspace := next(filter(path.is_relative_to, workspaces), None):
            raise SandboxUnavailable(f"the broker cannot hide {path}, because it is inside the workspace {workspace}")
    grants = [(path, landlock.READ) for path in visible(readable(network), hidden)]
    grants += [(path, landlock.DEVICE) for path in DEVICES]
    grants += [(str(path.resolve()), landlock.READ) for path in policy.readable]
    own = landlock.WRITE if policy.writes else landlock.READ
    return [*grants, *((str(workspace), own) for workspace in workspaces), (str(scratch), landlock.WRITE)]


@asynccontextmanager
async def open_broker() -> AsyncIterator[Broker]:
    """Open the broker tier.

    Raises:
        SandboxUnavailable: the kernel has no Landlock, or the processor no filter.
    """
    if not landlock.abi():
        raise SandboxUnavailable("the kernel has no Landlock (Linux 5.13 or newer, with `landlock` in its `lsm=` list)")
    try:
        seccomp.build((), among_strangers=True)
    except seccomp.UnsupportedArchitecture as error:
        raise SandboxUnavailable(str(error)) from error
    async with running(Broker()) as broker:
        yield broker


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[Broker]:
    """Start a broker, and end it with the block."""
    broker.start()
    try:
        async with background(asyncio.to_thread(sweep), "sweep of temporary folders"):
            yield broker
    finally:
        broker.close()


def _describe() -> str:
    version = landlock.abi()
    signals = "" if version >= landlock.SCOPES_SINCE else ", other processes can be signalled"
    return (
        f"(Landlock ABI {version}, seccomp); process ids and file names stay visible, the number of "
        f"processes is watched but not limited by the kernel{signals}"
    )


BROKER = Tier(
    name="broker",
    open=open_broker,
    describe=_describe,
    remedy="run Linux 5.13 or newer with Landlock enabled, on x86-64 or aarch64; a proxy needs bubblewrap",
)


@asynccontextmanager
async def open_off() -> AsyncIterator[Broker]:
    """Run commands as they are."""
    async with running(Broker(contained=False)) as broker:
        yield broker


OFF = Tier(name="off", open=open_off, describe=lambda: "no containment", remedy="")
