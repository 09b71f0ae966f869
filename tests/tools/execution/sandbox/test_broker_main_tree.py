"""How commands end: exit codes, whole trees, floods, limits; the same in every tier and without containment."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Limits, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.broker import Broker, open_off
from tests.descriptors import open_descriptors
from tests.lanes import repeats
from tests.together import together
from tests.tools.execution.sandbox.probes import INSIDE_PATH, program

pytestmark = pytest.mark.sandbox

HOSTILE_TREE = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
reader, writer = os.pipe()  # every exec closes a copy: at the end of file all are what they want to be
subprocess.Popen(['sleep', MARK])
subprocess.Popen(['setsid', 'sleep', MARK], env={'PATH': os.environ['PATH']})
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir('/'); [os.close(fd) for fd in (0, 1, 2)]
            os.execvp('sleep', ['sleep', MARK])
        os._exit(0)
    os.wait()
os.close(writer); os.read(reader, 1)
print('ready', flush=True)
time.sleep(1000)
"""


async def run(sandbox: Sandbox, workspace: Path, script: str, policy: Policy | None = None) -> tuple[int, bytes]:
    command = SandboxCommand(("/bin/bash", "-c", script), workspace, {"PATH": INSIDE_PATH})
    async with sandbox.run(command, policy or Policy(workspace)) as process:
        output = b"".join([chunk async for chunk in process.output])
        return await process.wait(), output


def sleepers(mark: str) -> list[int]:
    return [process.pid for process in marked(mark)]


def marked(mark: str) -> list[psutil.Process]:
    """The processes with this argument; zombies have none."""
    return [process for process in psutil.process_iter(["cmdline"]) if mark in (process.info["cmdline"] or [])]


@pytest.fixture
async def off() -> AsyncIterator[Sandbox]:
    async with open_off() as opened:
        yield opened


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("echo out; echo err >&2; exit 3", 3, b"out\nerr\n"),
        ("true", 0, b""),
        ("kill -9 $$", 137, b""),
        ("no-such-program", 127, b"/bin/bash: line 1: no-such-program: command not found\n"),
        ("cat", 0, b""),
        ("printf '\\377\\0x'", 0, b"\xff\0x"),
    ],
)
async def test_output_is_merged_and_the_exit_code_told(
    script: str, code: int, said: bytes, sandbox: Sandbox, tmp_path: Path
) -> None:
    assert await run(sandbox, tmp_path, script) == (code, said)


async def test_standard_input_is_what_was_given(sandbox: Sandbox, tmp_path: Path) -> None:
    given = os.urandom(1 << 20)
    command = SandboxCommand(("/bin/bash", "-c", "sha256sum; wc -c"), tmp_path, {"PATH": INSIDE_PATH}, stdin=given)

    async with sandbox.run(command, Policy(tmp_path)) as process:
        output = b"".join([chunk async for chunk in process.output])

    assert output.endswith(b"-\n0\n"), "the second reader finds the end of the input"


async def test_the_environment_is_what_was_given(sandbox: Sandbox, tmp_path: Path) -> None:
    command = SandboxCommand(("/usr/bin/env",), tmp_path, {"COLOUR": "blue and\nred"})

    async with sandbox.run(command, Policy(tmp_path)) as process:
        output = b"".join([chunk async for chunk in process.output]).decode()

    names = {line.partition("=")[0] for line in output.splitlines() if "=" in line}
    assert "COLOUR=blue and\nred" in output
    assert names <= {"COLOUR", "HOME", "TMPDIR", "PWD", "TAR_OPTIONS"}


async def test_the_workspace_is_written_and_a_scratch_folder_is_there(sandbox: Sandbox, tmp_path: Path) -> None:
    code, output = await run(
        sandbox, tmp_path, 'echo x > file && mkdir -p a/b && echo y > "$TMPDIR/z" && cat "$TMPDIR/z"'
    )

    assert (code, output, (tmp_path / "file").read_text()) == (0, b"y\n", "x\n")


async def test_a_workspace_inside_a_hidden_folder_stays_usable(sandbox: Sandbox, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "users.json").write_text("secret")

    policy = Policy(workspace, hidden=(tmp_path,))
    code, output = await run(sandbox, workspace, "echo ok > file && cat file; cat ../users.json", policy)

    assert b"ok" in output
    assert b"secret" not in output
    assert code == 1


async def test_a_workspace_that_contains_the_system_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxUnavailable, match="folder of its own"):
        await run(sandbox, Path("/"), "true")


@pytest.mark.skipif(not program(), reason="no python3 in /usr")
@pytest.mark.promise("P-exec-timeout")
@pytest.mark.parametrize("tier", ["contained", "off"])
async def test_a_kill_takes_the_whole_tree_within_half_a_second(
    tier: str, sandbox: Sandbox, off: Sandbox, tmp_path: Path
) -> None:
    mark = f"{os.getpid() % 10_000 + 70_000}.{time.monotonic_ns() % 10**9}"
    chosen = sandbox if tier == "contained" else off
    command = SandboxCommand(
        (program(), "-c", HOSTILE_TREE.replace("MARK", repr(mark))), tmp_path, {"PATH": INSIDE_PATH}
    )

    async with asyncio.timeout(20), chosen.run(command, Policy(tmp_path)) as process:
        async for chunk in process.output:
            if b"ready" in chunk:
                break
        assert len(sleepers(mark)) == 4
        async with asyncio.timeout(5):
            await process.kill()
        code = await process.wait()

    assert sleepers(mark) == []
    assert code == 137


@pytest.mark.parametrize("tier", ["contained", "off"])
async def test_a_detached_process_does_not_outlive_its_command(
    tier: str, sandbox: Sandbox, off: Sandbox, tmp_path: Path
) -> None:
    mark = f"{os.getpid() % 10_000 + 80_000}.{time.monotonic_ns() % 10**9}"
    chosen = sandbox if tier == "contained" else off

    async with asyncio.timeout(10):
        code, output = await run(chosen, tmp_path, f"(setsid sleep {mark} &) ; sleep {mark} & echo done")

    assert (code, output) == (0, b"done\n")
    assert sleepers(mark) == []


async def test_leaving_the_block_early_kills_the_command(sandbox: Sandbox, tmp_path: Path) -> None:
    mark = f"{os.getpid() % 10_000 + 90_000}.{time.monotonic_ns() % 10**9}"
    command = SandboxCommand(("/bin/bash", "-c", f"echo up; sleep {mark}"), tmp_path, {"PATH": INSIDE_PATH})

    async with asyncio.timeout(10), sandbox.run(command, Policy(tmp_path)) as process:
        assert await anext(process.output) == b"up\n"

    assert sleepers(mark) == []


async def test_cancelling_while_a_command_starts_leaves_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    mark = f"{os.getpid() % 10_000 + 30_000}.{time.monotonic_ns() % 10**9}"
    command = SandboxCommand(("/bin/sleep", mark), tmp_path, {"PATH": INSIDE_PATH})

    async def start() -> None:
        async with sandbox.run(command, Policy(tmp_path)):
            pass

    async with asyncio.timeout(40):
        for step in range(60):
            starting = asyncio.create_task(start())
            await asyncio.wait([starting], timeout=step * 0.0002)
            starting.cancel()
            await asyncio.wait([starting])
        # A supervisor that is cut off ends its tree by itself, a moment later.
        _, alive = await asyncio.to_thread(psutil.wait_procs, marked(mark), 20)

    assert alive == []


@pytest.mark.deep
async def test_a_flood_of_output_costs_no_memory(sandbox: Sandbox, tmp_path: Path) -> None:
    size = repeats(256 << 20, 1 << 30)
    before = psutil.Process().memory_info().rss
    total = most = looked = 0
    command = SandboxCommand(("/usr/bin/head", "-c", str(size), "/dev/zero"), tmp_path, {"PATH": INSIDE_PATH})

    async with sandbox.run(command, Policy(tmp_path)) as process:
        async for chunk in process.output:
            total += len(chunk)
            if total - looked > 1 << 23:  # not the peak of the process, which an earlier test may have set
                looked, most = total, max(most, psutil.Process().memory_info().rss)

    assert total == size
    assert most - before < 20 << 20


# Never a real fork bomb: the kernel does not limit root's processes, and a test that gets away takes the whole machine
# with it. This grows in a straight line and stops by itself at a number that harms nobody.
@pytest.mark.parametrize("start", ["sleep {mark} &", "(setsid sleep {mark} &)"])
async def test_too_many_processes_end_a_command(start: str, sandbox: Sandbox, tmp_path: Path) -> None:
    mark = f"{os.getpid() % 10_000 + 60_000}.{time.monotonic_ns() % 10**9}"
    script = f"for n in $(seq 120); do {start.format(mark=mark)} done 2>/dev/null; echo survived; sleep 20"
    command = SandboxCommand(("/bin/bash", "-c", script), tmp_path, {"PATH": INSIDE_PATH})
    output = b""

    async with asyncio.timeout(20), sandbox.run(command, Policy(tmp_path, limits=Limits(processes=32))) as process:
        try:
            async with asyncio.timeout(15 if os.geteuid() == 0 else 3):
                output = b"".join([chunk async for chunk in process.output])
        except TimeoutError:
            # Where the kernel counts (a plain user in bubblewrap) forking fails instead, and the command goes on.
            assert os.geteuid() != 0
            assert 0 < len(sleepers(mark)) <= 32
        else:
            assert b"more than 32 processes" in output
            assert await process.wait() == 137

    assert sleepers(mark) == []


async def test_limits_end_a_command(sandbox: Sandbox, tmp_path: Path) -> None:
    async def ended(row: tuple[str, Limits]) -> None:
        script, limits = row
        async with asyncio.timeout(20):
            code, output = await run(sandbox, tmp_path, script, Policy(tmp_path, limits=limits))
        assert code != 0
        assert b"written" not in output
        assert b"held" not in output

    rows = {
        "time": ("while :; do :; done", Limits(cpu_seconds=1)),
        "file": ("head -c 2M /dev/zero > big && echo written", Limits(file_bytes=1 << 20)),
        "memory": ("x=$(head -c 300M /dev/zero | tr '\\0' x); echo held", Limits(memory_bytes=64 << 20)),
    }
    await together(ended, rows)


HOLDERS = """
import os, sys, time
own, common = bytearray(b'x') * (int(sys.argv[1]) << 20), int(sys.argv[2])
for _ in range(3):
    if os.fork() == 0:
        kept = own if common else bytearray(b'y') * len(own)
        print('held', flush=True)
        time.sleep(float(sys.argv[3]))
        os._exit(0)
time.sleep(float(sys.argv[3])); print('survived', flush=True)
"""


@pytest.mark.parametrize("start", ["exec", "setsid -f"])
async def test_processes_that_hold_too_much_memory_together_end_the_command(
    start: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Each is far below the bound of one process; three of 1.4 GB passed a bound of 2 GB."""
    script = f'{start} python3 -c "$0" 40 0 60; sleep 60'
    command = SandboxCommand(("/bin/bash", "-c", script, HOLDERS), tmp_path, {"PATH": INSIDE_PATH})
    policy = Policy(tmp_path, limits=Limits(memory_bytes=96 << 20))
    async with asyncio.timeout(20), sandbox.run(command, policy) as process:
        output = b"".join([chunk async for chunk in process.output])
        assert await process.wait() == 137
    assert b"held more than 96 MB of memory together (tools.exec.memory_mb)" in output
    assert b"survived" not in output


async def test_memory_that_processes_have_in_common_counts_once(sandbox: Sandbox, tmp_path: Path) -> None:
    """Four processes see the same 40 MB, for longer than two looks."""
    command = SandboxCommand(
        ("/bin/bash", "-c", 'exec python3 -c "$0" 40 1 1.2', HOLDERS), tmp_path, {"PATH": INSIDE_PATH}
    )
    async with (
        asyncio.timeout(20),
        sandbox.run(command, Policy(tmp_path, limits=Limits(memory_bytes=96 << 20))) as process,
    ):
        output = b"".join([chunk async for chunk in process.output])
        assert (await process.wait(), b"survived" in output) == (0, True), output


async def test_many_commands_at_once_do_not_mix(sandbox: Sandbox, tmp_path: Path) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(run(sandbox, tmp_path, f"echo {n}; sleep 0.1; exit {n}")) for n in range(20)]

    assert [task.result() for task in running] == [(n, f"{n}\n".encode()) for n in range(20)]


async def test_nothing_is_left_open(sandbox: Sandbox, tmp_path: Path) -> None:
    await run(sandbox, tmp_path, "true")
    before = open_descriptors()

    for _ in range(20):
        await run(sandbox, tmp_path, "true")

    # Fewer is right: what cleans up after the first command may still have been at work.
    assert open_descriptors() <= before


async def test_the_broker_is_replaced_when_it_dies(tmp_path: Path) -> None:
    broker = Broker(contained=False)
    broker.start()
    try:
        assert await run(broker, tmp_path, "echo 1") == (0, b"1\n")
        for child in psutil.Process().children():
            if "broker_main" in " ".join(child.cmdline()):
                child.kill()
                child.wait(5)

        assert await run(broker, tmp_path, "echo 2") == (0, b"2\n")
    finally:
        broker.close()


async def test_standard_error_goes_where_it_was_told_to(sandbox: Sandbox, tmp_path: Path) -> None:
    script = "echo out; echo err >&2; cat"
    with tempfile.TemporaryFile() as errors:
        what = SandboxCommand(
            ("/bin/bash", "-c", script), tmp_path, {"PATH": INSIDE_PATH}, stdin=b"in\n", stderr=errors.fileno()
        )
        async with sandbox.run(what, Policy(tmp_path)) as process:
            output = b"".join([chunk async for chunk in process.output])
            assert await process.wait() == 0
        errors.seek(0)
        assert (output, errors.read()) == (b"out\nin\n", b"err\n")


async def test_a_file_that_is_made_readable_is_seen_and_stays_as_it_is(sandbox: Sandbox, tmp_path: Path) -> None:
    workspace, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    (elsewhere / "shown").write_text("yes\n")
    (elsewhere / "other").write_text("secret\n")
    script = 'cat "$1/shown"; echo x > "$1/shown"; cat "$1/other"'
    command = SandboxCommand(("/bin/bash", "-c", script, "bash", str(elsewhere)), workspace, {"PATH": INSIDE_PATH})

    async with sandbox.run(command, Policy(workspace, readable=(elsewhere / "shown",))) as process:
        output = b"".join([chunk async for chunk in process.output])

    assert output.startswith(b"yes\n") and b"secret" not in output
    assert (elsewhere / "shown").read_text() == "yes\n"
