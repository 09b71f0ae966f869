"""What containment adds to a command, and what a hostile one costs: in the sandbox of this machine, in this process."""

import asyncio
import io
import mmap
import os
import sysconfig
import tarfile
import tempfile
import time
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from statistics import median

import psutil

from benchmarks.figures import Figure, Options, spread
from goclaw.common.config.tools import ExecSettings
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.broker import open_broker, open_off
from goclaw.tools.execution.sandbox.select import open_sandbox

COMMANDS = 60
WARM_UP = 3
ROUNDS = 5
RESIDENT = 500 << 20
"""Bytes that a daemon may have in memory: what is forked then is copied page by page, unless it is never forked."""
LOOK_EVERY = 0.001
"""Seconds between two looks at whether the event loop is late."""
UNPACKED = 10_000
"""Files of an archive."""
ALL_OF_IT = "-x --same-permissions --same-owner"
UNPACKINGS = (
    ("source files", "-xz"),
    ("source files", "-x"),
    ("files of 500 bytes", "-x"),
    ("files of 500 bytes", ALL_OF_IT),
)
"""An archive as people have it, and harder ones. Of each file tar sets the times; with `ALL_OF_IT` mode and owner, too,
in two more calls of the broker's supervisor."""
PATH = {"PATH": "/usr/bin:/bin"}
TREE = "trap '' TERM HUP; for n in 1 2 3; do (setsid sleep 1000 &); sleep 1000 & done; echo ready; sleep 1000"


async def measure_exec(options: Options) -> list[Figure]:
    """From the start of a command to its exit code, and how it ends; nothing where no tier works here."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as folder:
        workspace = Path(folder)
        try:
            async with open_sandbox(ExecSettings(sandbox="auto")) as sandbox:
                rounds = [await true_times(sandbox, workspace, options) for _ in range(ROUNDS)]
                growth = await growth_of_a_flood(sandbox, workspace)
                deaths = [await death_of_a_tree(sandbox, workspace) for _ in range(options.times(COMMANDS))]
                heavy = [await beside_much_memory(sandbox, workspace, options) for _ in range(ROUNDS)]
                tier = sandbox.tier
        except SandboxUnavailable as error:
            print(f"left out, no sandbox works here: {error}")
            return []
    stalls = [max(late) for _, late in heavy]
    return [
        *await unpacking(options),
        *spread(f"`true` in {tier}", "ms", rounds, 10, 25),
        *spread(f"`true` in {tier}, 500 MB resident", "ms", [times for times, _ in heavy], 10, 25),
        Figure("how late the loop was meanwhile, best round's worst", "ms", min(stalls), 10, detail={"rounds": stalls}),
        Figure("a killed tree of 7 is dead, worst", "ms", max(deaths), 500, detail={"trees": len(deaths)}),
        Figure("memory for 1 GiB of output, worst", "MB", growth / (1 << 20), 20),
    ]


async def unpacking(options: Options) -> list[Figure]:
    """How much longer `tar x` takes in the broker, whose supervisor makes the changes; nothing where it lacks."""
    with tempfile.TemporaryDirectory(prefix="goclaw-bench-") as scratch:
        workspace, files = Path(scratch), options.times(UNPACKED)
        contents = {"source files": _source_files(files), "files of 500 bytes": [b"x" * 500] * files}
        for name, line in UNPACKINGS:
            _pack(workspace / _archive(name, line), contents[name])
        try:
            async with open_off() as off, open_broker() as broker:
                times = [
                    await _unpacked((off, broker), workspace, f"{line} -f {workspace / _archive(name, line)}")
                    for name, line in UNPACKINGS
                ]
        except SandboxUnavailable as error:
            print(f"left out, the broker does not work here: {error}")
            return []
    label = f"`tar {{}}` of {files} {{}} in the broker, times that without a sandbox, medians"
    return [
        Figure(
            label.format(line, name),
            "x",
            median(found["broker"]) / median(found["off"]),
            target,
            detail=_rounded(found),
        )
        for (name, line), found, target in zip(UNPACKINGS, times, (2, None, None, None), strict=True)
    ]


def _archive(name: str, line: str) -> str:
    return f"{name.replace(' ', '-')}.tar{'.gz' if 'z' in line else ''}"


def _source_files(files: int) -> list[bytes]:
    """Return the contents of this Python's own source files, in turn, as often as it takes: 9 kB each on average."""
    found = sorted(path for folder in sysconfig.get_paths().values() for path in Path(folder).rglob("*.py"))
    return [path.read_bytes() for path, _ in zip(cycle(found), range(files), strict=False)]


async def _unpacked(sandboxes: tuple[Sandbox, ...], workspace: Path, line: str) -> dict[str, list[float]]:
    """Milliseconds in each sandbox, round by round, into ever new folders.

    Nothing is removed between rounds: ext4 passes over inodes that were just deleted, which takes it long.
    """
    times: dict[str, list[float]] = {sandbox.tier: [] for sandbox in sandboxes}
    for _ in range(ROUNDS):
        for sandbox in sandboxes:
            folder = tempfile.mkdtemp(dir=workspace)
            times[sandbox.tier].append(await _shell(sandbox, workspace, f"tar -C {folder} {line}"))
    return times


def _rounded(times: dict[str, list[float]]) -> dict[str, list[int]]:
    return {f"{tier} ms": [round(found) for found in rounds] for tier, rounds in times.items()}


def _pack(path: Path, bodies: list[bytes]) -> None:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for number, body in enumerate(bodies):
            entry = tarfile.TarInfo(f"folder{number // 100}/file{number}")
            entry.size, entry.mode, entry.mtime = len(body), 0o755 if number % 10 == 0 else 0o644, number
            entry.uid, entry.gid = os.getuid(), os.getgid()
            archive.addfile(entry, io.BytesIO(body))


async def _shell(sandbox: Sandbox, workspace: Path, line: str) -> float:
    """Milliseconds of a line that goes well."""
    began = time.perf_counter()
    command = SandboxCommand(("/bin/sh", "-ec", line), workspace, PATH)
    async with sandbox.run(command, Policy(workspace)) as process:
        said = b"".join([chunk async for chunk in process.output])
        if code := await process.wait():
            raise RuntimeError(f"{line} ended with {code}: {said.decode(errors='replace')}")
    return 1000 * (time.perf_counter() - began)


async def true_times(sandbox: Sandbox, workspace: Path, options: Options) -> list[float]:
    """Milliseconds of each command, the first ones left out."""
    return [await run_true(sandbox, workspace) for _ in range(WARM_UP + options.times(COMMANDS))][WARM_UP:]


async def run_true(sandbox: Sandbox, workspace: Path) -> float:
    """Milliseconds of one command."""
    began = time.perf_counter()
    async with sandbox.run(SandboxCommand(("/bin/true",), workspace, PATH), Policy(workspace)) as process:
        if code := await process.wait():
            raise RuntimeError(f"true ended with {code}")
    return 1000 * (time.perf_counter() - began)


async def beside_much_memory(sandbox: Sandbox, workspace: Path, options: Options) -> tuple[list[float], list[float]]:
    """Milliseconds of each command in a large process, and how late its event loop was meanwhile."""
    with mmap.mmap(-1, RESIDENT, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for page in range(0, RESIDENT, mmap.PAGESIZE):
            memory[page] = 1
        late: list[float] = []
        watch = asyncio.create_task(_look(late))
        times = await true_times(sandbox, workspace, options)
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch
    return times, late


async def _look(late: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(LOOK_EVERY)
        late.append(1000 * (time.perf_counter() - began - LOOK_EVERY))


async def death_of_a_tree(sandbox: Sandbox, workspace: Path) -> float:
    """Milliseconds from the order to kill until nothing of the tree is left."""
    async with sandbox.run(SandboxCommand(("/bin/bash", "-c", TREE), workspace, PATH), Policy(workspace)) as process:
        await anext(process.output)
        began = time.perf_counter()
        await process.kill()
        return 1000 * (time.perf_counter() - began)


async def growth_of_a_flood(sandbox: Sandbox, workspace: Path) -> int:
    """Bytes by which this process grew at most while a command wrote 1 GiB."""
    before = psutil.Process().memory_info().rss
    most = looked = total = 0
    flood = SandboxCommand(("/usr/bin/head", "-c", "1G", "/dev/zero"), workspace, PATH)
    async with sandbox.run(flood, Policy(workspace)) as process:
        async for chunk in process.output:
            total += len(chunk)
            if total - looked > 1 << 22:
                looked, most = total, max(most, psutil.Process().memory_info().rss)
    return max(0, most - before)
