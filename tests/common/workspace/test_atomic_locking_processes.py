"""Several processes edit one file: every edit that was answered is in it; the lock of a dead one holds up no other."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.adversarial.target import FIXED, Call, Target, edit
from tests.lanes import repeats

PROCESSES = 3
MOST = repeats(15, 200)
"""Edits of each process."""
SECONDS = repeats(60.0, 240.0)
HOLDER = """
import sys, time
from pathlib import Path
from goclaw.common.workspace.atomic import lock
with lock(Path(sys.argv[1]), (int(sys.argv[2]), int(sys.argv[3])), "file"):
    print("held", flush=True)
    time.sleep(120)
"""


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """A state folder and a workspace; `Target` refuses what is not its own user's."""
    found = Target(tmp_path, seconds=SECONDS)
    found.state.mkdir(mode=0o700)
    found.workspace.mkdir()
    found.config.write_text(f"state_dir: {found.state}\nworkspace: {found.workspace}\n")
    found.config.chmod(0o600)
    return found


@pytest.fixture
def file(target: Target) -> Path:
    path = target.workspace / "file.txt"
    path.write_text("".join(f"{who} {number} todo\n" for who in range(PROCESSES + 1) for number in range(MOST)))
    return path


def done_in(file: Path) -> int:
    return file.read_text().count("done")


def locks_of(target: Target) -> list[Path]:
    return [*(target.state / "locks").iterdir()]


def edits(who: int) -> list[Call]:
    # Both words are equally long: neither the size nor, for some, the inode or the time tells one version from another.
    return [edit("file.txt", f"{who} {number} todo\n", f"{who} {number} done\n") for number in range(MOST)]


@pytest.mark.deep
@pytest.mark.promise("P-edits-kept")
async def test_of_three_processes_that_edit_one_file_no_edit_is_lost(target: Target, file: Path) -> None:
    answers = await asyncio.gather(*(asyncio.to_thread(target.errors, *edits(who)) for who in range(PROCESSES)))
    assert [error for errors in answers for error in errors if error] == []
    assert done_in(file) == PROCESSES * MOST
    assert locks_of(target) == [], "no lock is left behind"


@pytest.mark.long
@pytest.mark.deep
@pytest.mark.promise("P-edits-kept")
async def test_a_server_of_tools_and_a_command_edit_one_file_side_by_side(target: Target, file: Path) -> None:
    environment = {**FIXED, "HOME": str(target.folder), "GOCLAW_CONFIG": str(target.config)}
    server = StdioServerParameters(command=sys.executable, args=["-P", "-m", "goclaw", "mcp", "serve"], env=environment)
    async with asyncio.timeout(SECONDS), Client(server) as client:
        beside = asyncio.create_task(asyncio.to_thread(target.errors, *edits(0)))
        for number in range(MOST):
            given = {"path": "file.txt", "old_string": f"1 {number} todo\n", "new_string": f"1 {number} done\n"}
            answer = await client.call_tool("edit", given)
            assert not answer.is_error, answer
        assert not any(await beside)
    assert done_in(file) == 2 * MOST


@pytest.fixture
def holder(target: Target, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock of the file."""
    found = file.stat()
    arguments = [sys.executable, "-c", HOLDER, str(target.state / "locks"), str(found.st_dev), str(found.st_ino)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.long
async def test_a_file_whose_lock_another_process_keeps_is_busy_after_five_seconds(
    target: Target, file: Path, holder: subprocess.Popen[bytes]
) -> None:
    (error,) = await asyncio.to_thread(target.errors, edits(0)[0])
    assert error == "busy: file.txt is being changed by another process; nothing was changed, try again"
    assert done_in(file) == 0


async def test_the_lock_of_a_process_that_was_killed_holds_up_nobody(
    target: Target, file: Path, holder: subprocess.Popen[bytes]
) -> None:
    holder.kill()
    holder.wait()
    assert len(locks_of(target)) == 1
    assert await asyncio.to_thread(target.errors, edits(0)[0]) == [""]
    assert done_in(file) == 1 and locks_of(target) == []
