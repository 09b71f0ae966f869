"""A command of root's changes modes of its own devices, never of the machine's."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from goclaw.errors import SandboxUnavailable
from goclaw.tools.execution.sandbox.base import Policy, Sandbox, SandboxCommand
from goclaw.tools.execution.sandbox.bubblewrap import open_bubblewrap
from goclaw.tools.execution.sandbox.own_devices import own_devices
from tests.acceptance.waiting import eventually
from tests.tools.execution.sandbox.probes import INSIDE_PATH

DEVICE = Path("/dev/full")


def mode() -> int:
    return DEVICE.stat().st_mode & 0o7777


@pytest.fixture
def full() -> Iterator[int]:
    """The mode of the machine's device, which it has afterwards in any case."""
    before = mode()
    yield before
    if mode() != before:
        DEVICE.chmod(before)


async def said(sandbox: Sandbox, workspace: Path, line: str) -> str:
    command = SandboxCommand(("/bin/sh", "-c", f"({line}) 2>&1"), workspace, {"PATH": INSIDE_PATH})
    async with sandbox.run(command, Policy(workspace)) as process:
        return b"".join([chunk async for chunk in process.output]).decode()


@pytest.mark.sandbox
@pytest.mark.promise("P-exec-contained")
async def test_modes_of_the_machine_s_devices_stay(sandbox: Sandbox, tmp_path: Path, full: int) -> None:
    async with own_devices() as folder:
        if os.geteuid() == 0 and folder is None:
            pytest.skip("root may make no devices here")
    await said(sandbox, tmp_path, "chmod 600 /dev/full /dev/fd/../full")
    assert mode() == full
    looks = "stat -c %a /dev/full; echo x > /dev/full; echo y > /dev/null; head -c 2 /dev/zero /dev/urandom | wc -c"
    assert (await said(sandbox, tmp_path, looks)).startswith(f"{full:o}\n"), "the next command has them as they were"


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user may make no devices")
async def test_nothing_of_them_is_left() -> None:
    async with own_devices() as folder:
        if folder is None:
            pytest.skip("root may make no devices here")
        assert (folder / "null").is_char_device()
    assert not folder.exists()


KILLED = """
import asyncio, os, signal
from goclaw.tools.execution.sandbox.own_devices import own_devices
async def main():
    async with own_devices() as folder:
        print(folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a daemon leaves in a /tmp of its own that is killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", KILLED]
    killed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert list(tmp_path.iterdir()) == [Path(killed.stdout.strip())], killed.stderr
    return Path(killed.stdout.strip())


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user may make no devices")
async def test_those_of_a_killed_daemon_go_at_the_next_start(left: Path) -> None:
    folder = left.parent
    try:
        async with open_bubblewrap(), open_bubblewrap():
            await eventually(lambda: len(names(folder)) == 2 and not left.exists())
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    assert names(folder) == set()
