"""Process trees that do not want to die: TERM ignored, sessions of their own, double forks, ever new children.

By hand, for as many as one likes: `python -m tests.tools.execution.sandbox.trees --trees 1000`. The tests run a few.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil

from goclaw.common.core.clock import RealClock
from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Limits, Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.select import prove
from tests.tools.execution.sandbox.conftest import TIERS
from tests.tools.execution.sandbox.probes import INSIDE_PATH, program

_PRELUDE = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT): signal.signal(number, signal.SIG_IGN)
def sleeper():
    os.execvp('sleep', ['sleep', MARK])
def child(work):
    pid = os.fork()
    if pid == 0:
        try: work()
        finally: os._exit(0)
    return pid
"""
SHAPES = {
    "sessions of their own": "def detached():\n    os.setsid(); sleeper()\nfor _ in range(6): child(detached)\n",
    "double forks without descriptors": (
        "def gone():\n    os.setsid(); os.closerange(0, 10); child(sleeper)\n"
        "for _ in range(6): os.waitpid(child(gone), 0)\n"
    ),
    "a chain": (
        "def deeper(n):\n    if n: child(lambda: deeper(n - 1)); time.sleep(1000)\n    sleeper()\n"
        "child(lambda: deeper(8))\n"
    ),
    "stopped ones": (
        "def stopped():\n    os.kill(os.getpid(), signal.SIGSTOP)\nfor _ in range(3): child(stopped)\nchild(sleeper)\n"
    ),
    "ever new ones": (
        "def hare():\n    end = time.monotonic() + 30\n    while time.monotonic() < end:\n"
        "        if child(lambda: None) == 0: pass\n        while True:\n            try:\n"
        "                if os.waitpid(-1, os.WNOHANG)[0] == 0: break\n            except ChildProcessError: break\n"
        "for _ in range(3): child(hare)\nchild(sleeper)\n"
    ),
    "one that moves on": (
        "def relay():\n    for _ in range(20000):\n        if os.fork(): os._exit(0)\n        os.setsid()\n"
        "    sleeper()\nchild(relay); child(sleeper)\n"
    ),
}


def hostile(shape: str, mark: str) -> str:
    """A Python program that makes such a tree, says `ready` and stays."""
    return f"MARK = {mark!r}\n{_PRELUDE}{SHAPES[shape]}\nprint('ready', flush=True)\ntime.sleep(1000)\n"


async def kill_one(sandbox: Sandbox, workspace: Path, shape: str) -> tuple[float, int]:
    """Seconds until the whole tree was dead, and how many processes of it were left."""
    mark = f"{os.getpid() % 10_000 + 20_000}.{time.monotonic_ns() % 10**9}"
    before = {process.pid for process in psutil.process_iter()}
    command = SandboxCommand((program(), "-I", "-S", "-c", hostile(shape, mark)), workspace, {"PATH": INSIDE_PATH})
    async with asyncio.timeout(30), sandbox.run(command, Policy(workspace, limits=Limits(processes=200))) as process:
        said = await anext(process.output)
        if b"ready" not in said:
            raise RuntimeError(said.decode(errors="replace"))
        began = time.perf_counter()
        await process.kill()
        seconds = time.perf_counter() - began
    return seconds, len(survivors(before, mark))


def survivors(before: set[int], mark: str) -> list[int]:
    """Processes of the tree that still run: by their argument, or by what the program is called."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = " ".join(process.info["cmdline"] or [])
        if process.pid not in before and mark in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@asynccontextmanager
async def tiers(names: Sequence[str]) -> AsyncIterator[list[Sandbox]]:
    """Those of the tiers that work here."""
    async with AsyncExitStack() as stack:
        opened: list[Sandbox] = []
        for tier in map(TIERS.__getitem__, names):
            try:
                sandbox = await stack.enter_async_context(tier())
                await prove(sandbox, "none", RealClock())
                opened.append(sandbox)
            except SandboxUnavailable as error:
                sys.stdout.write(f"left out: {error}\n")
        yield opened


async def main(trees: int, names: Sequence[str]) -> int:
    """Kill so many trees in each tier; 1 when one outlived half a second or its command."""
    failed = False
    async with tiers(names) as opened:
        for sandbox in opened:
            times, left = [], 0
            for number in range(trees):
                with tempfile.TemporaryDirectory() as folder:
                    seconds, remaining = await kill_one(sandbox, Path(folder), list(SHAPES)[number % len(SHAPES)])
                times.append(1000 * seconds)
                left += remaining
            times.sort()
            p99 = times[int(0.99 * (len(times) - 1))]
            sys.stdout.write(
                f"{sandbox.tier}: {trees} trees, {left} survivors, p50 {times[len(times) // 2]:.0f} ms, "
                f"p99 {p99:.0f} ms, worst {times[-1]:.0f} ms\n"
            )
            sys.stdout.flush()
            failed = failed or left > 0 or times[-1] > 500
    return int(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--tier", action="append", choices=list(TIERS))
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.trees, given.tier or list(TIERS))))
