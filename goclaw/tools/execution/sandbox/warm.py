"""A warm sandbox: namespaces and mounts that were made before the command that runs in them came.

They are most of a short command's time. After a command that others are likely to follow, one sandbox like its own is
started. In it, a shell waits for one line at its standard input: the next command, which takes that shell's place. It
runs one command, as any sandbox does, and only one that would be shown the very same files. Without the daemon the line
never comes, the input ends, and so does the shell.
"""

import asyncio
import contextvars
import shlex
from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from goclaw.common.core.clock import Clock, RealClock
from goclaw.common.core.supervise import set_within
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox import bubblewrap
from goclaw.tools.execution.sandbox.base import Policy, Process, SandboxCommand
from goclaw.tools.execution.sandbox.bubblewrap import Bubblewrap, BubblewrapProcess, open_bubblewrap
from goclaw.tools.execution.sandbox.layout import shell

WARM_SECONDS = 300.0
"""For how long a sandbox waits for a command."""
REST = 0.01
"""Seconds between a command and the making of the next sandbox: first its result is recorded and the model asked."""
MAX_LINE = 4096
"""Bytes of the line that names the command: as many as a pipe takes at once or not at all (PIPE_BUF)."""
_WAITING = ("/bin/sh",)


@dataclass(frozen=True)
class _Warm:
    """A sandbox that waits until it is `taken`; leaving `stack` ends it."""

    key: Hashable
    process: BubblewrapProcess
    stack: AsyncExitStack
    taken: asyncio.Event


class WarmBubblewrap:
    """Bubblewrap with at most one warm sandbox: one for commands like the latest."""

    tier = Bubblewrap.tier

    def __init__(self, bubblewrap: Bubblewrap, clock: Clock) -> None:
        self._bubblewrap = bubblewrap
        self._clock = clock
        self._warm: _Warm | None = None
        self._starting = False
        self._tasks: set[asyncio.Task[None]] = set()
        """Sandboxes that start, wait or are being ended."""

    def run(self, command: SandboxCommand, policy: Policy) -> AbstractAsyncContextManager[Process]:
        has_streams = command.stdin is not None or command.keeps_input or command.stderr is not None
        # A file of the host's network configuration may be replaced at any time; a proxy belongs to one call.
        is_plain = not has_streams and policy.network == "none"
        if is_plain and command.repeats and command.argv[0] == shell() and len(_line(command)) <= MAX_LINE:
            return self._run(command, policy)
        return self._bubblewrap.run(command, policy)

    @asynccontextmanager
    async def _run(self, command: SandboxCommand, policy: Policy) -> AsyncIterator[Process]:
        async with AsyncExitStack() as stack:
            process: Process | None = await self._run_warm(command, policy, stack)
            if process is None:
                process = await stack.enter_async_context(self._bubblewrap.run(command, policy))
            yield process
        self._prepare_another(command, policy)

    async def _run_warm(
        self, command: SandboxCommand, policy: Policy, stack: AsyncExitStack
    ) -> BubblewrapProcess | None:
        """Run the command in the warm sandbox, which `stack` then ends; None: it is missing or unfit."""
        key = await self._key(command, policy) if self._warm else None
        # Nothing is awaited until it is ours: no other command takes the same one, and its time does not run out.
        warm, self._warm = self._warm, None
        if warm is None:
            return None
        warm.taken.set()
        if warm.key != key:
            return None
        stack.push_async_exit(warm.stack.pop_all())
        try:
            await warm.process.write(_line(command))
        except BrokenPipeError:
            return None  # something ended it while it waited
        warm.process.close_input()
        await warm.process.count_beside(stack)
        return warm.process

    def _prepare_another(self, command: SandboxCommand, policy: Policy) -> None:
        """Have a sandbox like that of `command` wait, unless one waits already."""
        if self._warm is not None or self._starting:
            return
        self._starting = True
        # Without the context of the call: its log fields, and all that they hold, would stay for minutes.
        task = asyncio.create_task(self._run_spare(command, policy), name="warm sandbox", context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_spare(self, command: SandboxCommand, policy: Policy) -> None:
        async with AsyncExitStack() as stack:
            try:
                await self._clock.sleep(REST)
                # Before the start: a change meanwhile makes it unfit.
                key = await self._key(command, policy)
                process = await self._bubblewrap.start(replace(command, argv=_WAITING, keeps_input=True), policy, stack)
            except SandboxUnavailable:
                return  # the next command gets the error
            finally:
                self._starting = False
            self._warm = warm = _Warm(key, process, stack, asyncio.Event())
            await set_within(warm.taken, self._clock, WARM_SECONDS)
            if self._warm is warm:
                self._warm = None

    async def _key(self, command: SandboxCommand, policy: Policy) -> Hashable:
        """Return a key that is equal for two commands if either may run in one and the same sandbox."""
        files = await self._bubblewrap.describe_mounts(command, policy)
        return command.cwd, tuple(command.env.items()), policy, files

    async def close(self) -> None:
        """End what waits."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _line(command: SandboxCommand) -> bytes:
    """Return the shell's line that becomes the command; its standard input is closed as that of others is."""
    return f"exec {shlex.join(command.argv)} </dev/null\n".encode()


@asynccontextmanager
async def open_warm_bubblewrap(clock: Clock | None = None) -> AsyncIterator[WarmBubblewrap]:
    """Open the bubblewrap tier with warm sandboxes, which end with the block; raises as `open_bubblewrap` does."""
    async with open_bubblewrap() as opened:
        warm = WarmBubblewrap(opened, clock or RealClock())
        try:
            yield warm
        finally:
            await warm.close()


SANDBOX = replace(bubblewrap.SANDBOX, open=open_warm_bubblewrap)
