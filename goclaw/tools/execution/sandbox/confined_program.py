"""A program of our own that may read some places and nothing else, however names are exchanged while it runs.

Not for commands of a model: those run in the sandbox. It is for a program that we trust in surroundings that we do
not: ripgrep opens files by their names, and a folder that becomes a link meanwhile would lead it out of the
workspace. Landlock binds its reading to the folders as they are when it starts.
"""

import asyncio
import os
import stat
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from pathlib import Path

from goclaw.tools.execution.sandbox import landlock
from goclaw.tools.execution.sandbox.descriptors import reading
from goclaw.tools.execution.sandbox.layout import SYSTEM

_CHUNK = 1 << 18


@cache
def can_confine() -> bool:
    """Whether this kernel can restrict a program to its granted access."""
    return landlock.abi() > 0


@asynccontextmanager
async def running_confined(
    argv: Sequence[str], folder: Path, readable: Sequence[str]
) -> AsyncIterator[asyncio.StreamReader]:
    """Start a program that can read `readable` alone, and yield its output; it is dead when the block ends.

    Nothing of our environment is passed on, and nothing can be written to it.

    Args:
        argv: the program with its whole path, and its arguments.
        folder: where it runs.
        readable: files, and folders with all in them; symbolic links among them are left out. Of `folder` itself the
            names may be read anyway.

    Raises:
        OSError: it cannot be started, or not be confined.
    """
    started: list[subprocess.Popen[bytes]] = []
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        stack.callback(_end, started)
        # A thread of its own, which ends here: what it gives up it gives up for good, with all that it starts.
        thread = stack.enter_context(ThreadPoolExecutor(1, "confined"))
        process = await loop.run_in_executor(thread, _start, argv, folder, readable, started)
        thread.shutdown(wait=False)
        try:
            output = os.dup(process.stdout.fileno())  # type: ignore[union-attr]  # a pipe, see `_start`
            async with reading(output, _CHUNK) as reader:
                yield reader
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)


def _start(
    argv: Sequence[str], folder: Path, readable: Sequence[str], started: list[subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    with ExitStack() as stack:
        null = stack.enter_context(Path(os.devnull).open("r+b", buffering=0))  # soon nothing can be opened any more
        rules = landlock.ruleset(_grants(argv[0], folder, readable), network=False)
        stack.callback(os.close, rules)
        landlock.restrict(rules)
        process = subprocess.Popen(argv, cwd=folder, env={}, stdin=null, stdout=subprocess.PIPE, stderr=null)
        started.append(process)
        return process


def _grants(program: str, folder: Path, readable: Sequence[str]) -> Iterator[tuple[str, int]]:
    yield from ((path, landlock.READ) for path in (program, *SYSTEM))
    yield str(folder), landlock.LIST
    for path in readable:
        try:
            found = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile
        try:
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                yield f"/proc/self/fd/{found}", landlock.READ  # what it is now, whatever is put in its place
        finally:
            os.close(found)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Kill and reap the programs: their caller is gone."""
    for process in started:
        if process.poll() is None:
            process.kill()
        with process:
            pass  # its output is closed, and it is waited for
