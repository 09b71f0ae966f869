"""Warm sandboxes: who gets one, what is found in it, and when it ends."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from goclaw.common.core.clock import RealClock, SteppedClock
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Limits, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.broker_main import children_of, descendants
from goclaw.tools.execution.sandbox.bubblewrap import Bubblewrap, BubblewrapProcess, open_bubblewrap
from goclaw.tools.execution.sandbox.layout import environment, shell
from goclaw.tools.execution.sandbox.select import prove
from goclaw.tools.execution.sandbox.warm import MAX_LINE, REST, WARM_SECONDS, WarmBubblewrap, open_warm_bubblewrap
from tests.acceptance.waiting import eventually

pytestmark = pytest.mark.sandbox

LOOK = """
for ns in user mnt pid ipc net uts cgroup; do [ $ns = mnt ] || readlink /proc/self/ns/$ns | cut -d: -f1; done
grep -E '^(NoNewPrivs|Seccomp|Cap|Sig|Threads)' /proc/self/status
ulimit -a; umask; env | sort; tr '\\0' ' ' < /proc/$$/cmdline; echo "$0 $$ $PPID $BASH_EXECUTION_STRING" | wc
ls -l /proc/self/fd | awk '{print $9, $10, $11}' | sed 's/[0-9][0-9][0-9]*//g'
cut -d' ' -f5- /proc/self/mountinfo | sed 's/[0-9][0-9]*//g' | sort
ls -A /tmp; pwd; cat; false | cat; exit 3
"""


class Watched(WarmBubblewrap):
    """Notes which commands ran in a warm sandbox."""

    def __init__(self, bubblewrap: Bubblewrap, clock: SteppedClock) -> None:
        super().__init__(bubblewrap, clock)
        self.clock = clock
        self.warm: list[bool] = []

    async def _run_warm(
        self, command: SandboxCommand, policy: Policy, stack: AsyncExitStack
    ) -> BubblewrapProcess | None:
        process = await super()._run_warm(command, policy, stack)
        self.warm.append(process is not None)
        return process

    @property
    def is_ready(self) -> bool:
        return self._warm is not None

    async def ready(self) -> None:
        """Wait until a sandbox is warm, whose making begins when some time has passed."""

        def look() -> bool:
            self.clock.advance(REST)
            return self.is_ready

        await eventually(look)


@asynccontextmanager
async def opened(clock: SteppedClock) -> AsyncIterator[Watched]:
    async with open_bubblewrap() as bubblewrap:
        sandbox = Watched(bubblewrap, clock)
        try:
            yield sandbox
        finally:
            await sandbox.close()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def sandbox(clock: SteppedClock) -> AsyncIterator[Watched]:
    try:
        async with opened(clock) as found:
            await prove(found, "none", RealClock())
            yield found
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap does not work here: {error}")


def line(text: str, folder: Path) -> SandboxCommand:
    return SandboxCommand((shell(), "-c", text), folder, environment(), repeats=True)


async def said(sandbox: Sandbox, command: SandboxCommand, policy: Policy) -> tuple[str, int]:
    async with asyncio.timeout(30), sandbox.run(command, policy) as process:
        output = b"".join([chunk async for chunk in process.output])
        return output.decode(), await process.wait()


async def warmed(sandbox: Watched, command: SandboxCommand, policy: Policy) -> tuple[str, int]:
    """Run a command, and wait until a sandbox like its own is warm."""
    found = await said(sandbox, command, policy)
    await sandbox.ready()
    return found


@pytest.mark.promise("P-exec-contained")
async def test_a_command_finds_in_a_warm_sandbox_what_it_finds_in_one_of_its_own(
    sandbox: Watched, tmp_path: Path
) -> None:
    policy = Policy(tmp_path, hidden=(tmp_path / "hidden",))
    cold = await warmed(sandbox, line(LOOK, tmp_path), policy)
    warm = await said(sandbox, line(LOOK, tmp_path), policy)
    assert sandbox.warm == [False, True]
    assert warm == cold
    assert "NoNewPrivs" in cold[0] and cold[1] == 3


async def test_each_command_has_a_sandbox_for_itself(sandbox: Watched, tmp_path: Path) -> None:
    policy = Policy(tmp_path)
    first = line(
        "touch /tmp/left /dev/shm/left; readlink /proc/self/ns/pid; (sleep 100 &) ; ls /tmp /dev/shm", tmp_path
    )
    second = line("ls /tmp /dev/shm; ls -d /proc/[0-9]* | wc -l", tmp_path)
    for _ in range(2):
        assert "left" in (await warmed(sandbox, first, policy))[0]
        shown, _ = await warmed(sandbox, second, policy)
        assert "left" not in shown
    assert sandbox.warm == [False, True, True, True]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'a\nb'\n\n# c\nprintf %s \"\\$x `echo y`\"",
        "echo é\x80\x81\x88 ‘’ ☃ \U0001f99e",
        "echo \x01\x02\x7f; nope; ((",
        "exit 7",
    ],
)
async def test_a_line_is_run_as_it_is_written(sandbox: Watched, tmp_path: Path, text: str) -> None:
    cold = await warmed(sandbox, line(text, tmp_path), Policy(tmp_path))
    assert await said(sandbox, line(text, tmp_path), Policy(tmp_path)) == cold
    assert sandbox.warm == [False, True]


async def test_a_long_line_and_a_command_of_another_kind_have_a_sandbox_of_their_own(
    sandbox: Watched, tmp_path: Path
) -> None:
    policy, plain = Policy(tmp_path), line("echo hi", tmp_path)
    await warmed(sandbox, plain, policy)
    others = [replace(plain, repeats=False), replace(plain, stdin=b"x"), replace(plain, argv=("/bin/echo", "hi"))]
    for command in (*others, line(f"echo hi {'#' * MAX_LINE}", tmp_path)):
        assert await said(sandbox, command, policy) == ("hi\n", 0)
    assert sandbox.warm == [False]
    assert sandbox.is_ready


@pytest.mark.promise("P-exec-contained")
async def test_what_is_allowed_now_counts_and_not_what_was_when_it_became_warm(
    sandbox: Watched, tmp_path: Path
) -> None:
    folder, other = tmp_path / "work", tmp_path / "other"
    inner = folder / "state"
    for each in (folder, other, inner):
        each.mkdir()
    policy, plain = Policy(folder), line("echo hi", folder)
    changed = [
        (plain, Policy(folder, writes=False)),
        (plain, Policy(folder, limits=Limits(memory_bytes=1 << 29))),
        (plain, Policy(folder, hidden=(inner,))),
        (plain, Policy(folder, shared=other)),
        (replace(plain, env={**plain.env, "A": "b"}), policy),
        (replace(plain, cwd=inner), policy),
    ]
    for command, now in changed:
        await warmed(sandbox, plain, policy)
        sandbox.warm.clear()
        await said(sandbox, command, now)
        assert sandbox.warm == [False], now
        await sandbox.ready()


async def test_a_folder_that_took_the_workspace_s_place_is_the_one_that_is_shown(
    sandbox: Watched, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    await warmed(sandbox, line("true", folder), Policy(folder))
    folder.rename(tmp_path / "old")
    folder.mkdir()
    (folder / "new.txt").touch()
    assert await said(sandbox, line("ls", folder), Policy(folder)) == ("new.txt\n", 0)
    assert sandbox.warm == [False, False]


async def test_a_warm_sandbox_ends_when_nothing_used_it(sandbox: Watched, clock: SteppedClock, tmp_path: Path) -> None:
    before = set(children_of(os.getpid()))
    await warmed(sandbox, line("true", tmp_path), Policy(tmp_path))
    (outer,) = set(children_of(os.getpid())) - before
    waiting = [outer, *descendants(outer)]

    def look() -> bool:
        clock.advance(WARM_SECONDS + 1)  # at each look: it may just begin to wait
        return not any(map(is_alive, waiting))

    await eventually(look, 10.0)
    assert await said(sandbox, line("echo hi", tmp_path), Policy(tmp_path)) == ("hi\n", 0)
    assert sandbox.warm == [False, False]


async def test_one_that_was_killed_while_it_waited_is_no_one_s_failure(sandbox: Watched, tmp_path: Path) -> None:
    before = set(children_of(os.getpid()))
    await warmed(sandbox, line("true", tmp_path), Policy(tmp_path))
    (outer,) = set(children_of(os.getpid())) - before
    inside = descendants(outer)
    os.kill(inside[-1], signal.SIGKILL)
    await eventually(lambda: not any(map(is_alive, inside)))
    assert await said(sandbox, line("echo hi", tmp_path), Policy(tmp_path)) == ("hi\n", 0)
    assert sandbox.warm == [False, False]


DAEMON = """
import asyncio, os, sys
from pathlib import Path
from goclaw.tools.execution.sandbox.base import Policy, SandboxCommand
from goclaw.tools.execution.sandbox.broker_main import descendants
from goclaw.tools.execution.sandbox.layout import environment, shell
from goclaw.tools.execution.sandbox.warm import open_warm_bubblewrap

async def main(folder):
    async with open_warm_bubblewrap() as sandbox:
        command = SandboxCommand((shell(), "-c", "true"), folder, environment(), repeats=True)
        async with sandbox.run(command, Policy(folder)) as process:
            await process.wait()
        while sandbox._warm is None:
            await asyncio.sleep(0.01)
        print(*descendants(os.getpid()), flush=True)
        if sys.argv[2] == "killed":
            os.kill(os.getpid(), 9)

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("how", ["ended", "killed"])
async def test_nothing_of_it_outlives_the_daemon(sandbox: Watched, tmp_path: Path, how: str) -> None:
    daemon = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DAEMON, str(tmp_path), how, stdout=asyncio.subprocess.PIPE
    )
    assert daemon.stdout is not None
    async with asyncio.timeout(30):
        waiting = list(map(int, (await daemon.stdout.read()).split()))
        await daemon.wait()
    assert waiting
    await eventually(lambda: not any(map(is_alive, waiting)))


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that merely was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_the_tier_opens_warm(tmp_path: Path) -> None:
    try:
        async with open_warm_bubblewrap() as found:
            assert await said(found, line("echo hi", tmp_path), Policy(tmp_path)) == ("hi\n", 0)
    except SandboxUnavailable as error:
        pytest.skip(f"bubblewrap does not work here: {error}")
