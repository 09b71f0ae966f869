"""The lock of a file between processes, as the workspace takes it; threads stand for processes, `flock` is the same."""

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from goclaw.common.workspace import ABSENT, FileChanged, Workspace, again_when_changed, atomic
from goclaw.common.workspace.atomic import lock
from goclaw.errors import ToolError


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    (tmp_path / "work").mkdir()
    async with Workspace(tmp_path / "work", (), tmp_path / "state" / "locks") as opened:
        await opened.write_bytes("file", b"one")
        yield opened


def left_in(locks: Path) -> list[Path]:
    return [*locks.iterdir()]


@contextmanager
def held(workspace: Workspace, locks: Path) -> Iterator[None]:
    """Hold the lock of `file` as another process does."""
    found = (workspace.root / "file").stat()
    with lock(locks, (found.st_dev, found.st_ino), "file"):
        yield


async def test_a_write_waits_for_the_lock_and_leaves_none_behind(workspace: Workspace, tmp_path: Path) -> None:
    locks = tmp_path / "state" / "locks"
    with ExitStack() as stack:
        stack.enter_context(held(workspace, locks))
        writing = asyncio.create_task(workspace.write_bytes("file", b"two"))
        done, _ = await asyncio.wait({writing}, timeout=0.05)
        assert not done and await workspace.read_bytes("file") == b"one"
    await writing
    assert await workspace.read_bytes("file") == b"two"
    assert left_in(locks) == []


async def test_who_waits_too_long_is_told_that_the_file_is_busy(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "PATIENCE_SECONDS", 0.02)
    version = (await workspace.stat("file")).version
    tries = {
        "write": workspace.write_bytes("file", b"two"),
        "edit": workspace.write_bytes("file", b"two", unless_changed=version),
        "remove": workspace.remove("file"),
    }
    with held(workspace, tmp_path / "state" / "locks"):
        errors = await asyncio.gather(*tries.values(), return_exceptions=True)
    assert [str(error)[:29] for error in errors] == ["busy: file is being changed b"] * 3
    assert await workspace.read_bytes("file") == b"one"


async def test_what_came_while_the_lock_was_waited_for_is_seen(workspace: Workspace, tmp_path: Path) -> None:
    """The lock is an inode's, and its holder has put another one in its place."""
    version = (await workspace.stat("file")).version
    with held(workspace, tmp_path / "state" / "locks"):
        edit = asyncio.create_task(workspace.write_bytes("file", b"mine", unless_changed=version))
        write = asyncio.create_task(workspace.write_bytes("file", b"whole"))
        await asyncio.wait({edit, write}, timeout=0.05)
        (workspace.root / "new").write_bytes(b"other")
        os.replace(workspace.root / "new", workspace.root / "file")  # noqa: PTH105 -- as a program does it
    with pytest.raises(FileChanged):
        await edit
    assert not (await write).created and await workspace.read_bytes("file") == b"whole"


async def test_a_file_that_is_gone_when_the_lock_comes_is_made_anew_by_a_write(
    workspace: Workspace, tmp_path: Path
) -> None:
    with held(workspace, tmp_path / "state" / "locks"):
        write = asyncio.create_task(workspace.write_bytes("file", b"whole"))
        await asyncio.wait({write}, timeout=0.05)
        (workspace.root / "file").unlink()
    assert (await write).created


async def test_two_versions_of_one_tick_and_one_size_differ(workspace: Workspace) -> None:
    """Inodes are used again at once: two edits later the number may be the same as before."""
    path = workspace.root / "file"
    soon = path.stat().st_mtime_ns + 500_000_000
    os.utime(path, ns=(soon, soon))
    for count in range(1, 4):
        await workspace.write_bytes("file", b"two")
        assert path.stat().st_mtime_ns == soon + count


async def test_a_time_far_ahead_is_not_carried_on(workspace: Workspace) -> None:
    path = workspace.root / "file"
    ahead = path.stat().st_mtime_ns + 3_600_000_000_000
    os.utime(path, ns=(ahead, ahead))
    await workspace.write_bytes("file", b"two")
    assert path.stat().st_mtime_ns < ahead - 1_000_000_000


async def test_a_folder_for_locks_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "locks").write_text("no folder")
    async with Workspace(tmp_path / "work", (), tmp_path / "locks") as workspace:
        await workspace.write_bytes("file", b"one")
        with pytest.raises(ToolError, match=r"^file cannot be locked: .*/locks: Not a directory$"):
            await workspace.write_bytes("file", b"two")


async def test_where_the_file_system_has_no_locks_that_is_said_and_no_descriptor_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        opened.append(descriptor)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    opened: list[int] = []
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ToolError, match=r"^file cannot be locked: .*: No locks available$"):
        with lock(tmp_path / "locks", (1, 2), "file"):
            pass
    (descriptor,) = opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


async def test_many_who_add_to_files_that_one_of_them_makes_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    places = [Workspace(tmp_path / "work", (), tmp_path / "locks") for _ in range(3)]

    async def add(workspace: Workspace) -> None:
        async def once(name: str) -> None:
            version, before = ABSENT, b""
            if await workspace.exists(name):
                version, before = (await workspace.stat(name)).version, await workspace.read_bytes(name)
            await workspace.write_bytes(name, before + b".", unless_changed=version)

        async with workspace:
            for number in range(20):
                await again_when_changed(partial(once, f"file{number // 2}"))

    async with asyncio.timeout(60):
        await asyncio.gather(*map(add, places))
    assert [path.stat().st_size for path in (tmp_path / "work").iterdir()] == [6] * 10


async def test_a_file_that_came_while_another_was_to_be_made_stays(workspace: Workspace, tmp_path: Path) -> None:
    folder = workspace.root.stat()
    with lock(tmp_path / "state" / "locks", (folder.st_dev, folder.st_ino), "new"):
        making = asyncio.create_task(workspace.write_bytes("new", b"mine", unless_changed=ABSENT))
        await asyncio.wait({making}, timeout=0.05)
        (workspace.root / "new").write_bytes(b"other")
    with pytest.raises(FileChanged):
        await making
    assert await workspace.read_bytes("new") == b"other"


async def test_a_change_is_tried_anew_only_where_the_file_changed_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(atomic, "PATIENCE_SECONDS", 0.02)
    tries: list[ToolError] = []

    async def never(error: ToolError) -> None:
        tries.append(error)
        raise error

    async with asyncio.timeout(10):
        with pytest.raises(ToolError, match=r"^busy: file is being changed"):
            await again_when_changed(lambda: never(FileChanged("file")))
        assert len(tries) > 1
        tries.clear()
        with pytest.raises(ToolError, match=r"^busy: by a lock"):
            await again_when_changed(lambda: never(ToolError("busy: by a lock")))
        assert len(tries) == 1


def test_a_lock_whose_file_went_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that opened the file before it went and locks it then is not let in beside the next holder."""
    monkeypatch.setattr(atomic, "PATIENCE_SECONDS", 0.02)
    opened = atomic._lock_file
    with lock(tmp_path, (1, 2), "file"):
        gone = [opened(tmp_path / "1-2")]
    monkeypatch.setattr(atomic, "_lock_file", lambda name: gone.pop() if gone else opened(name))
    with lock(tmp_path, (1, 3), "other"):
        assert not gone, "this one is another file, and begins anew"
    with lock(tmp_path, (1, 2), "file"):
        gone.append(os.open(tmp_path / "unnamed", os.O_RDWR | os.O_CREAT))
        (tmp_path / "unnamed").unlink()
        with pytest.raises(ToolError, match=r"^busy"), lock(tmp_path, (1, 2), "file"):
            pass
