"""The process that the daemon's loop runs in."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

HEAPS = """
import asyncio, ctypes

from goclaw.program.cli.loop import run_daemon

async def work():
    # Too long for Python's own allocator, too short to be mapped one by one.
    await asyncio.gather(*(asyncio.to_thread(lambda: [bytes(2_000) for _ in range(1_000)]) for _ in range(4)))

run_daemon(work())
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


FILES = """
import resource

from goclaw.program.cli.loop import run_daemon
from goclaw.common.net.client import open_client

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4_096))

async def work():
    async with open_client() as client:
        print(resource.getrlimit(resource.RLIMIT_NOFILE), client.connector.limit)

run_daemon(work())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other heaps")
def test_all_threads_of_the_daemon_share_one_heap() -> None:
    assert output(HEAPS).count("<heap nr=") == 1


def test_a_thousand_turns_at_once_have_a_connection_each() -> None:
    """Where the soft limit of open files is low, as it is nearly everywhere, and the hard one is not."""
    assert output(FILES) == "(4096, 4096) 2000\n"


def output(program: str) -> str:
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
