"""Tier A: commands in namespaces of their own, made by bubblewrap: files, processes, network and users apart.

The command sees the system's programs read-only, an empty /tmp of its own and the workspace. The first process of its
process namespace is ours; when that dies, the kernel immediately kills everything in the namespace.
"""

import asyncio
import json
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, aclosing, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import ClassVar

from goclaw.common.core.container import is_container
from goclaw.common.core.records import record
from goclaw.common.core.supervise import background, finish_despite_cancel
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox import broker_main, proxy_port, seccomp
from goclaw.tools.execution.sandbox.base import Limits, Policy, Process, SandboxCommand, Serve, Tier
from goclaw.tools.execution.sandbox.broker_main import be_nice, limits_of
from goclaw.tools.execution.sandbox.configuration_copy import ConfigurationCopy, open_configuration_copy
from goclaw.tools.execution.sandbox.descriptors import (
    StdinWriter,
    chunks,
    closing,
    file_of,
    input_of,
    reading,
    until_ended,
)
from goclaw.tools.execution.sandbox.layout import (
    CONFIGURATION,
    NETWORK_CONFIGURATION,
    SYSTEM,
    contained_root,
    identity,
    refuse_system,
)
from goclaw.tools.execution.sandbox.memory import LOOK_SECONDS, describe_excess, exceeds
from goclaw.tools.execution.sandbox.own_devices import binds, own_devices
from goclaw.tools.execution.sandbox.scratch import sweep

log = logging.getLogger(__name__)

_PLACES = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
"""The folders searched for bubblewrap: never the PATH of the user that started the daemon."""
_START = 10.0
_DEATH = 5.0
"""Seconds until a command must have started, and until a killed one must be gone."""
_PATIENCE = 0.01
"""Seconds that a killed namespace gets to vanish by itself."""
_COUNT_EVERY = 0.02
"""Seconds between two counts of the processes of a command that the kernel does not count for us."""
_UNIX = 1  # AF_UNIX
_MAX_REASON = 500


class BubblewrapProcess:
    """A command in its namespace: `outer` is bubblewrap itself, `first` the namespace's first process."""

    def __init__(
        self, popen: subprocess.Popen[bytes], output: asyncio.StreamReader, feed: StdinWriter, limits: Limits
    ) -> None:
        self._popen = popen
        self.write, self.close_input = feed.write, feed.close
        self._outer = os.pidfd_open(popen.pid)
        self._first = -1
        self._first_pid = 0
        self._limits = limits
        self._code: int | None = None
        self._told = asyncio.Event()
        self._gone = asyncio.Event()
        self._killed = False
        self._note = ""
        self._beginning = b""
        self.output: AsyncIterator[bytes] = self._output(output)

    async def wait(self) -> int:
        await self._gone.wait()
        await self._told.wait()
        if self._code is None and not self._killed:
            # Nothing ran, so that all output was its own.
            reason = self._beginning.decode(errors="replace").strip()
            raise SandboxUnavailable(f"bubblewrap ended without running the command: {reason or 'no reason given'}")
        return 128 + signal.SIGKILL if self._code is None else self._code

    async def kill(self) -> None:
        if self._popen.returncode is None:
            self._killed = True
            if self._first < 0:
                _kill_unborn(self._popen)
            for process in (self._first, self._outer):
                if process >= 0:
                    _signal(process, signal.SIGKILL)
        try:
            async with asyncio.timeout(_DEATH):
                while not await self._is_gone_soon():
                    await asyncio.to_thread(self._help_to_die)
        except TimeoutError:
            log.warning("a killed command is still not gone after %s s", _DEATH)

    async def _is_gone_soon(self) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._gone.wait()
        except TimeoutError:
            return False

    def _help_to_die(self) -> None:
        """Kill the processes too: among a thousand forkers the first process hardly gets the processor to do so."""
        for pid in broker_main.descendants(self._first_pid) if self._first_pid else ():
            broker_main.kill(pid)

    async def born(self, status: asyncio.StreamReader, output: asyncio.StreamReader) -> None:
        """Return when the namespaces exist and limits are set; SandboxUnavailable when not. The command waits."""
        try:
            async with asyncio.timeout(_START):
                first_line = await status.readline()
                if not first_line:
                    raise SandboxUnavailable(_with_cause(await output.read()))
        except TimeoutError:
            raise SandboxUnavailable(f"bubblewrap did not start the command within {_START:g} s") from None
        try:
            self._first_pid = int(json.loads(first_line)["child-pid"])
        except (ValueError, KeyError, TypeError):
            raise SandboxUnavailable("bubblewrap did not say what it started") from None
        try:
            self._first = os.pidfd_open(self._first_pid)
            be_nice(self._first_pid)
            _limit(self._first_pid, self._limits)
        except ProcessLookupError as error:
            raise SandboxUnavailable(_with_cause(await output.read())) from error

    def inlet(self, serve: Serve) -> AbstractAsyncContextManager[None]:
        """Answer the command's connections to the proxy's port."""
        return proxy_port.inlet(self._first_pid, self._first, serve)

    async def follow(self, status: asyncio.StreamReader) -> None:
        """Take in the exit code that bubblewrap reports."""
        async for line in status:
            self._code = json.loads(line).get("exit-code", self._code)
        self._told.set()

    async def reap(self) -> None:
        """Notice when everything is dead."""
        await until_ended(self._outer)
        self._popen.wait()
        if self._first >= 0:
            # The namespace's first process ends after everything else in it.
            await until_ended(self._first)
        self._gone.set()

    async def count_beside(self, stack: AsyncExitStack) -> None:
        """Have what the kernel does not bound counted until `stack` is left: memory and, for root, processes."""
        if os.geteuid() == 0:
            await stack.enter_async_context(
                background(self.count(_COUNT_EVERY, self._count_processes), "count of a command's processes")
            )
        await stack.enter_async_context(
            background(self.count(LOOK_SECONDS, self._count_memory), "count of a command's memory")
        )

    async def count(self, seconds: float, excess: Callable[[list[int]], str]) -> None:
        """End the command when it has too much of something; the reason is what `excess` says of its processes."""
        while not self._note:
            await asyncio.sleep(seconds)
            if note := excess(broker_main.descendants(self._first_pid, self._limits.processes + 1)):
                self._note = note
                self._code = 128 + signal.SIGKILL
                self._help_to_die()
                await self.kill()

    def _count_processes(self, pids: list[int]) -> str:
        """The kernel does not apply its limit to root."""
        most = self._limits.processes
        return f"more than {most} processes" if len(pids) > most else ""

    def _count_memory(self, pids: list[int]) -> str:
        most = self._limits.memory_bytes
        return describe_excess(most) if exceeds(pids, most) else ""

    def close(self) -> None:
        for process in (self._first, self._outer):
            if process >= 0:
                os.close(process)

    async def _output(self, reader: asyncio.StreamReader) -> AsyncGenerator[bytes, None]:
        async with aclosing(chunks(reader)) as read:
            async for chunk in read:
                self._beginning += chunk[: _MAX_REASON - len(self._beginning)]
                yield chunk
        if self._note:
            yield f"\n[the sandbox ended the command: {self._note}]\n".encode()


@record
class Bubblewrap:
    """The installed program, of one version."""

    tier: ClassVar[str] = "bubblewrap"
    _program: str
    _version: tuple[int, ...]
    _configuration: ConfigurationCopy
    _devices: Path | None = None

    @asynccontextmanager
    async def run(self, command: SandboxCommand, policy: Policy) -> AsyncIterator[Process]:
        for folder in policy.workspaces:
            refuse_system(folder)
        if (policy.network == "proxy") != (policy.proxy is not None):
            raise SandboxUnavailable("the network `proxy` and who answers there belong together")
        async with AsyncExitStack() as stack:
            process = await self.start(command, policy, stack)
            await process.count_beside(stack)
            yield process

    async def describe_mounts(self, command: SandboxCommand, policy: Policy) -> Hashable:
        """Return the mounts that a command would have now: another folder of the same name is another mount."""
        places = (command.cwd, *policy.workspaces, *policy.readable)
        async with self._configuration.open_folder() as copy:
            return tuple(_mounts(policy, copy, self._devices)), tuple(map(identity, places))

    async def start(self, command: SandboxCommand, policy: Policy, stack: AsyncExitStack) -> BubblewrapProcess:
        """Start the command; leaving `stack` ends it. Every refusal of the machine is SandboxUnavailable."""
        try:
            given = stack.enter_context(ExitStack())  # what bubblewrap gets: ours is closed once it has its own
            status_read, status_write = os.pipe()
            given.enter_context(closing(status_write))
            status = await stack.enter_async_context(reading(status_read))
            output_read, output_write = os.pipe()
            given.enter_context(closing(output_write))
            output = await stack.enter_async_context(reading(output_read))
            block_read, block_write = os.pipe()
            given.enter_context(closing(block_read))
            stack.enter_context(closing(block_write))
            program = file_of(_filter(policy.network), "seccomp")
            given.enter_context(closing(program))
            copy = await stack.enter_async_context(self._configuration.open_folder()) if _is_usual(policy) else None
            options = [*self._options(command, policy, copy), "--seccomp", str(program)]
            options += ["--json-status-fd", str(status_write), "--block-fd", str(block_read)]
            arguments = file_of(b"".join(os.fsencode(option) + b"\0" for option in options), "options")
            given.enter_context(closing(arguments))
            stdin, feed = input_of(command.stdin, keeps=command.keeps_input)
            stack.callback(feed.close)
            given.enter_context(closing(stdin))
            passed = (arguments, program, status_write, block_read)
            streams = (stdin, output_write, output_write if command.stderr is None else command.stderr)
            popen = self._popen([str(arguments), "--", *command.argv], streams, passed)
            given.close()
            process = _watch(popen, output, feed, policy.limits)
            stack.callback(process.close)
            await stack.enter_async_context(background(process.reap(), "reaping of a command"))
            stack.push_async_callback(lambda: finish_despite_cancel(process.kill(), "end of a command"))
            await process.born(status, output)
            if policy.proxy is not None:
                await stack.enter_async_context(process.inlet(policy.proxy))
            os.write(block_write, b"1")
            await stack.enter_async_context(background(process.follow(status), "watch of a command"))
            return process
        except OSError as error:
            raise SandboxUnavailable(f"the command cannot start in the sandbox: {error.strerror or error}") from error

    def _popen(
        self, arguments: list[str], streams: tuple[int, int, int], passed: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        stdin, output, errors = streams
        try:
            return subprocess.Popen(
                [self._program, "--args", *arguments],
                stdin=stdin, stdout=output, stderr=errors, cwd="/", env={}, pass_fds=passed,
            )  # fmt: skip
        except OSError as error:
            raise SandboxUnavailable(f"{self._program} cannot be started: {error.strerror}") from error

    def _options(self, command: SandboxCommand, policy: Policy, configuration: Path | None) -> Iterator[str]:
        """Passed through a file: environment values must not show up in the machine's list of processes."""
        yield from ("--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session")
        if self._version >= (0, 8):
            yield "--disable-userns"  # the filter refuses new namespaces as well, for older versions
        if policy.network == "host":
            yield "--share-net"
        yield "--clearenv"
        ways = proxy_port.VARIABLES if policy.network == "proxy" else {}
        usual = {"HOME": "/tmp", "TMPDIR": "/tmp", **contained_root()}  # noqa: S108 -- a fresh tmpfs
        for name, value in {**usual, **command.env, **ways}.items():
            yield from ("--setenv", name, value)
        yield from _mounts(policy, configuration, self._devices)
        yield from ("--chdir", str(command.cwd))


def _is_usual(policy: Policy) -> bool:
    """Whether the policy shows nothing of /etc but `CONFIGURATION`: nothing can be mounted into a copy of that."""
    paths = (policy.workspace, policy.workspace.resolve(), *policy.readable)
    return policy.network != "host" and not any(path.is_relative_to("/etc") for path in paths)


def _mounts(policy: Policy, configuration: Path | None, devices: Path | None) -> Iterator[str]:
    """Yield the options for all that is visible; `configuration` is a copy of /etc to show, if there is one."""
    size = str(policy.limits.file_bytes)
    yield from _system_mounts()
    if configuration:
        yield from ("--ro-bind", str(configuration), "/etc")
    else:
        for path in CONFIGURATION + (NETWORK_CONFIGURATION if policy.network == "host" else ()):
            yield from ("--ro-bind-try", path, path)
    yield from ("--size", size, "--tmpfs", "/tmp", "--dev", "/dev")  # noqa: S108 -- inside
    yield from binds(devices) if devices else ()
    # Read-only, because for root's user id the kernel settings in it are writable even without any capability.
    yield from ("--proc", "/proc", "--remount-ro", "/proc")
    yield from ("--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev")  # noqa: S108 -- inside
    yield from _workspace_and_hidden(policy)
    for readable in policy.readable:
        yield from ("--ro-bind", str(readable.resolve()), str(readable))
    yield from ("--remount-ro", "/")


@cache
def _system_mounts() -> tuple[str, ...]:
    """Return the options for the system's folders, which stay in place while the system runs."""
    mounts: list[str] = []
    for path in SYSTEM:
        is_link = Path(path).is_symlink()
        mounts += ["--symlink", str(Path(path).readlink()), path] if is_link else ["--ro-bind-try", path, path]
    return tuple(mounts)


def _workspace_and_hidden(policy: Policy) -> Iterator[str]:
    """Outer folders first: a workspace inside a hidden folder is visible, a hidden one inside the workspace is not."""
    bind = "--bind" if policy.writes else "--ro-bind"
    workspaces = {folder.absolute(): folder.resolve() for folder in policy.workspaces}
    real, covered = set(workspaces.values()), [path.resolve() for path in policy.hidden if path.is_dir()]
    for path in sorted({*real, *covered}, key=lambda path: len(path.parts)):
        if path in real and path not in covered:
            yield from (bind, str(path), str(path))
        elif any(path.is_relative_to(shown) for shown in (*real, *map(Path, SYSTEM))):
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
    for given, workspace in workspaces.items():
        if given != workspace and workspace not in covered:
            yield from (bind, str(workspace), str(given))


@cache
def _filter(network: str) -> bytes:
    # With the machine's network come its abstract Unix sockets; without, a socket leads nowhere but to the command.
    families = seccomp.INTERNET if network == "host" else (_UNIX, *seccomp.INTERNET)
    return seccomp.build(families, among_strangers=False)


def _limit(pid: int, limits: Limits) -> None:
    """Set the limits of the namespace's first process while it waits: the command inherits them."""
    wanted = limits_of(limits.cpu_seconds, limits.memory_bytes, limits.file_bytes)
    # Counted per user namespace (Linux 5.14), hence for this command alone, when it is set in there.
    for kind, value in [*wanted, (resource.RLIMIT_NPROC, limits.processes)]:
        hard = resource.prlimit(pid, kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, kind, (bound, bound))


def _watch(
    popen: subprocess.Popen[bytes], output: asyncio.StreamReader, feed: StdinWriter, limits: Limits
) -> BubblewrapProcess:
    try:
        return BubblewrapProcess(popen, output, feed, limits)
    except OSError:
        # It would never be ended, and it goes on when our end of the pipe is closed.
        _kill_unborn(popen)
        popen.kill()
        popen.wait()
        raise


def _kill_unborn(popen: subprocess.Popen[bytes]) -> None:
    """Kill the children of bubblewrap before it has reported its first process: they would wait forever."""
    # Not `popen.send_signal`, which reaps a process that has just ended: nothing would be left to wait for below.
    os.kill(popen.pid, signal.SIGSTOP)
    # Once it stands still it starts nothing more, and what it started can be seen.
    os.waitid(os.P_PID, popen.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    for pid in broker_main.children_of(popen.pid):
        broker_main.kill(pid)


def _with_cause(said: bytes) -> str:
    """Return bubblewrap's error about namespaces, with the cause found on this machine."""
    reason = said[:_MAX_REASON].decode(errors="replace").strip() or "no reason given"
    why = namespace_refusal(privileged=os.geteuid() == 0)
    return f"{reason}; {why}" if why else reason


def _signal(process: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(process, number)
    except ProcessLookupError:
        pass  # it has ended already


@asynccontextmanager
async def open_bubblewrap() -> AsyncIterator[Bubblewrap]:
    """Open the bubblewrap tier.

    Raises:
        SandboxUnavailable: not installed, or the processor has no filter.
    """
    program = _program()
    if program is None:
        raise SandboxUnavailable("bubblewrap is not installed")
    try:
        _filter("none")
    except seccomp.UnsupportedArchitecture as error:
        raise SandboxUnavailable(str(error)) from error
    version = await asyncio.to_thread(_version, program)
    async with (
        background(asyncio.to_thread(sweep), "sweep of temporary folders"),
        open_configuration_copy() as configuration,
        own_devices() as devices,
    ):
        yield Bubblewrap(program, tuple(map(int, re.findall(r"\d+", version))), configuration, devices)


def _program() -> str | None:
    return shutil.which("bwrap", path=_PLACES)


@cache
def _version(program: str) -> str:
    """`0.8.0`."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_START, env={}, check=False)
    return told.stdout.removeprefix("bubblewrap").strip() or "of unknown version"


def _describe() -> str:
    program = _program()
    counted = "; as root, the number of processes is watched but not limited by the kernel"
    return f"{_version(program) if program else ''}{counted if os.geteuid() == 0 else ''}"


SANDBOX = Tier(
    name="bubblewrap",
    open=open_bubblewrap,
    describe=_describe,
    remedy=(
        "install it (Debian, Ubuntu: apt install bubblewrap; Fedora: dnf install bubblewrap; Alpine: apk add "
        "bubblewrap). Where user namespaces are refused: on Ubuntu 24.04 give bwrap an AppArmor profile with `userns,` "
        "(/etc/apparmor.d/bwrap), elsewhere set the sysctl kernel.unprivileged_userns_clone=1, in Docker use the broker"
    ),
)


_APPARMOR = (
    "AppArmor refuses user namespaces to programs without a profile "
    "(kernel.apparmor_restrict_unprivileged_userns is 1): write `abi <abi/4.0>, include <tunables/global> profile "
    "bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` into /etc/apparmor.d/bwrap and run "
    "`apparmor_parser -r /etc/apparmor.d/bwrap`"
)
_FOR_EVERYBODY = {
    "proc/sys/user/max_user_namespaces": (
        "0",
        "user namespaces are switched off (user.max_user_namespaces is 0): `sysctl user.max_user_namespaces=10000`",
    ),
}
_FOR_PLAIN_USERS = {
    "proc/sys/kernel/unprivileged_userns_clone": (
        "0",
        "only root may make user namespaces (kernel.unprivileged_userns_clone is 0): "
        "`sysctl kernel.unprivileged_userns_clone=1`",
    ),
    "proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("1", _APPARMOR),
}
_CONTAINER = "this is a container, whose profile usually forbids namespaces; use the broker, which works in containers"


def namespace_refusal(*, privileged: bool, root: Path = Path("/")) -> str:
    """Return a sentence with cause and remedy; empty when the machine gives no hint.

    Args:
        privileged: whether this is root, for whom some of the switches do not count.
        root: where `/proc` and the marks of a container are looked for.
    """
    for name, (value, sentence) in (_FOR_EVERYBODY if privileged else _FOR_EVERYBODY | _FOR_PLAIN_USERS).items():
        try:
            found = (root / name).read_text().strip()
        except OSError:
            continue  # this kernel has no such switch
        if found == value:
            return sentence
    return _CONTAINER if is_container(root) else ""
