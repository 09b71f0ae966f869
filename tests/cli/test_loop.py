"""The process that the daemon's loop runs in."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

HEAPS = """
import asyncio, ctypes

from goclaw.cli.loop import run_daemon

async def work():
    # Too long for Python's own allocator, too short to be mapped one by one.
    await asyncio.gather(*(asyncio.to_thread(lambda: [bytes(2_000) for _ in range(1_000)]) for _ in range(4)))

run_daemon(work())
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other heaps")
def test_all_threads_of_the_daemon_share_one_heap() -> None:
    environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", HEAPS], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.count("<heap nr=") == 1
