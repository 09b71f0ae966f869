"""A command's temporary folder goes with the command; what a killed daemon left goes when the next one starts."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from goclaw.tools.execution.sandbox.scratch import SCRATCH_PREFIX, scratch_folder, sweep

DAEMON = """
import asyncio
from goclaw.tools.execution.sandbox.scratch import scratch_folder
async def main():
    async with scratch_folder() as folder:
        (folder / "half").write_text("done")
        print(folder, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""
SELF_TEST = """
import time
from goclaw.tools.execution.sandbox.select import _stage
with _stage() as (workspace, hidden, port):
    (workspace.parent / "half").write_text("done")
    print(workspace.parent, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine's /tmp of its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(params=[DAEMON, SELF_TEST], ids=["a command", "the self-test"])
def daemon(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Another daemon, which runs a command or tests its sandbox."""
    with subprocess.Popen([sys.executable, "-c", request.param], stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_folder_goes_with_its_block_and_is_in_use_until_then(tmp: Path) -> None:
    async with scratch_folder() as folder:
        (folder / "a file").write_text("x")
        sweep()
        assert (folder / "a file").exists() and folder.stat().st_mode & 0o777 == 0o700
    assert names(tmp) == set()


def test_what_a_daemon_left_that_was_killed_is_swept_and_nothing_before_that(
    daemon: subprocess.Popen[str], tmp: Path
) -> None:
    assert daemon.stdout is not None
    folder = Path(daemon.stdout.readline().strip())
    sweep()
    assert (folder / "half").read_text() == "done"
    daemon.kill()
    daemon.wait()
    assert folder.exists()
    sweep()
    assert names(tmp) == set()


def test_only_folders_of_ours_are_swept(tmp: Path) -> None:
    elsewhere = tmp / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    (tmp / f"{SCRATCH_PREFIX}link").symlink_to(elsewhere)
    (tmp / f"{SCRATCH_PREFIX}file").write_text("x")
    (tmp / "other-exec-a").mkdir()
    sweep()
    assert names(tmp) == {"elsewhere", f"{SCRATCH_PREFIX}link", f"{SCRATCH_PREFIX}file", "other-exec-a"}
    assert (elsewhere / "kept").exists()


async def test_a_folder_that_is_swept_before_it_is_locked_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    real, made = tempfile.mkdtemp, 0

    def made_and_swept(prefix: str) -> str:
        nonlocal made
        made += 1
        folder = real(prefix=prefix)
        if made < 3:
            sweep()
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", made_and_swept)
    async with scratch_folder() as folder:
        assert folder.is_dir()
    assert made == 3
