"""What the kernel tells about memory files of a real workspace."""

import asyncio
import errno
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.workspace import Workspace, hints
from goclaw.errors import StateError
from goclaw.memory import watching
from goclaw.memory.watching import SAFETY_SECONDS, UNTOLD_SECONDS, WatchedFolders, folders_to_watch, watch


class HastyClock(SteppedClock):
    """Looks follow each other without a pause; any other wait ends when time is moved."""

    async def sleep(self, seconds: float) -> None:
        if seconds == watching.LOOK_SECONDS:
            await asyncio.sleep(0)
        else:
            await super().sleep(seconds)


@dataclass
class Sweeps:
    """Counts them."""

    clock: HastyClock = field(default_factory=HastyClock)
    number: int = 0
    fail: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def sweep(self) -> None:
        self.number += 1
        self._wake.set()
        if self.fail:
            self.fail = False
            raise StateError("the disk is full")

    async def after(self, number: int) -> int:
        """Wait for more than `number`; returns how many there were."""
        async with asyncio.timeout(10):
            while self.number <= number:
                self._wake.clear()
                await self._wake.wait()
        return self.number


class NoWatches:
    """`watchfiles.watch` where the kernel has no watches left."""

    def __next__(self) -> None:
        raise OSError(errno.ENOSPC, "OS file watch limit reached")

    def close(self) -> None:
        pass


LOCAL = "28 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw"
"""A line of `/proc/self/mountinfo`."""


def mounted(monkeypatch: pytest.MonkeyPatch, root: Path, *lines: str) -> None:
    """Have these file systems."""
    path = root.with_name("mountinfo")
    path.write_text("\n".join(lines))
    monkeypatch.setattr(hints, "MOUNTS", path)


@pytest.fixture(autouse=True)
def a_local_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, tmp_path / "workspace", LOCAL)


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Workspace]:
    (tmp_path / "workspace").mkdir()
    async with Workspace(tmp_path / "workspace") as opened:
        yield opened


@asynccontextmanager
async def watching_of(workspace: Workspace, *paths: str) -> AsyncIterator[Sweeps]:
    """Watched, and settled: each folder has its watch."""
    sweeps = Sweeps()
    async with watch(workspace, paths, sweeps.clock, sweeps.sweep):
        await sweeps.after(0)
        yield sweeps


async def settled(sweeps: Sweeps) -> int:
    """How many sweeps there were when hints have ceased to come for some looks."""
    before = -1
    async with asyncio.timeout(10):
        while before != sweeps.number:
            before = sweeps.number
            for _ in range(20):
                await asyncio.to_thread(os.getpid)
    return before


async def test_what_is_written_where_memory_is_leads_to_a_sweep(workspace: Workspace) -> None:
    root = workspace.root
    (root / "memory/deep").mkdir(parents=True)
    async with watching_of(workspace, "docs/notes", "todo.txt") as sweeps:
        for path in ("memory/a.md", "memory/deep/b.md", "MEMORY.md", "todo.txt"):
            number = await settled(sweeps)
            (root / path).write_text("the green fence")
            await sweeps.after(number)
        number = await settled(sweeps)
        (root / "memory/a.md").unlink()
        await sweeps.after(number)


async def test_in_a_persons_own_workspace_the_shared_folder_is_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, shared = tmp_path / "own", tmp_path / "all"
    own.mkdir()
    (shared / "memory").mkdir(parents=True)
    mounted(monkeypatch, tmp_path, LOCAL)
    async with Workspace(own, shared=shared) as opened, watching_of(opened, "docs") as sweeps:
        for path in (shared / "memory/a.md", shared / "MEMORY.md", own / "MEMORY.md"):
            number = await settled(sweeps)
            path.write_text("the green fence")
            await sweeps.after(number)
        number = await settled(sweeps)
        (shared / "other.md").write_text("nothing to search")
        assert await settled(sweeps) == number


async def test_folders_that_come_later_are_watched(workspace: Workspace) -> None:
    root = workspace.root
    async with watching_of(workspace, "docs/notes") as sweeps:
        for folder in ("memory", "memory/new", "docs/notes"):
            number = await settled(sweeps)
            (root / folder).mkdir(parents=True)
            await sweeps.after(number)
            number = await settled(sweeps)
            (root / folder / "a.md").write_text("the green fence")
            await sweeps.after(number)


async def test_a_folder_that_goes_and_comes_again_is_watched(workspace: Workspace) -> None:
    root = workspace.root
    (root / "memory").mkdir()
    async with watching_of(workspace) as sweeps:
        number = await settled(sweeps)
        shutil.rmtree(root / "memory")
        (root / "memory").mkdir()
        await sweeps.after(number)
        number = await settled(sweeps)
        (root / "memory/a.md").write_text("again")
        await sweeps.after(number)


async def test_other_files_of_the_workspace_lead_to_nothing(workspace: Workspace) -> None:
    root = workspace.root
    (root / "memory/.hidden").mkdir(parents=True)
    (root / "src").mkdir()
    async with watching_of(workspace) as sweeps:
        number = await settled(sweeps)
        for path in ("README.md", "src/a.md", "memory/.hidden/a.md", "memory/.a.md.swp"):
            (root / path).write_text("the green fence")
        assert await settled(sweeps) == number


async def test_the_workspace_is_never_watched_as_a_whole_nor_what_lies_behind_links(
    workspace: Workspace, tmp_path: Path
) -> None:
    root = workspace.root
    for folder in ("memory/a/b", "memory/.git", "src/deep", "docs"):
        (root / folder).mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "memory/out").symlink_to(tmp_path / "outside")
    (root / "memory/in").symlink_to(root / "src")
    (root / "linked").symlink_to(root / "src")
    sources = ("MEMORY.md", "memory", ".", "docs", "linked", "linked/deep", "../outside", "/etc", "later/on")
    foundation = await folders_to_watch(workspace, sources)
    assert foundation == WatchedFolders(
        frozenset({"memory", "memory/a", "memory/a/b", "docs"}),
        frozenset((".", name) for name in ("MEMORY.md", "memory", "docs", "linked", "later")),
    )
    assert foundation.all == [".", "docs", "memory", "memory/a", "memory/a/b"]


async def test_no_more_folders_than_the_bound_are_watched(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MAX_FOLDERS", 3)
    for number in range(6):
        (workspace.root / f"memory/{number}").mkdir(parents=True)
    assert len((await folders_to_watch(workspace, ("memory",))).whole) == 3


async def test_where_the_kernel_tells_all_a_sweep_without_a_reason_is_rare(workspace: Workspace) -> None:
    async with watching_of(workspace) as sweeps:
        number = await settled(sweeps)
        sweeps.clock.advance(SAFETY_SECONDS - 1)
        assert await settled(sweeps) == number
        sweeps.clock.advance(1)
        assert await sweeps.after(number) == number + 1


@pytest.mark.parametrize(("place", "sweeps_more"), [("memory/shared", 1), ("elsewhere", 0)])
async def test_in_a_network_folder_others_write_so_there_is_a_sweep_each_minute(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, place: str, sweeps_more: int
) -> None:
    """Also where only a part of memory is one."""
    (workspace.root / place).mkdir(parents=True)
    mounted(monkeypatch, workspace.root, LOCAL, f"37 28 0:50 / {workspace.root / place} rw - nfs4 server:/notes rw")
    async with watching_of(workspace) as sweeps:
        number = await settled(sweeps)
        sweeps.clock.advance(UNTOLD_SECONDS)
        if sweeps_more:
            await sweeps.after(number)
        assert await settled(sweeps) == number + sweeps_more


async def test_a_mount_whose_name_has_other_line_ends_in_it_does_not_end_the_watch(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel escapes only the ends of its own lines."""
    mounted(monkeypatch, workspace.root, LOCAL, "37 28 0:50 / /media/ann/My\x85Di\rsk rw,relatime - vfat /dev/sdb1 rw")
    async with watching_of(workspace) as sweeps:
        number = await settled(sweeps)
        (workspace.root / "MEMORY.md").write_text("the green fence")
        await sweeps.after(number)


@pytest.mark.parametrize("path", [".", "docs/*/notes"])
async def test_what_is_searched_but_not_watched_is_swept_each_minute(workspace: Workspace, path: str) -> None:
    async with watching_of(workspace, path) as sweeps:
        number = await settled(sweeps)
        sweeps.clock.advance(UNTOLD_SECONDS)
        assert await sweeps.after(number) == number + 1


async def test_after_a_flood_of_changes_there_is_a_sweep(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel drops what nobody reads in time."""
    monkeypatch.setattr(watching, "FLOOD", 1)
    async with watching_of(workspace) as sweeps:
        number = await settled(sweeps)
        (workspace.root / "README.md").touch()
        await sweeps.after(number)


async def test_without_watches_it_is_said_once_and_looked_at_now_and_then(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hints, "watch", lambda *paths, **options: NoWatches())
    with caplog.at_level(logging.WARNING):
        async with watching_of(workspace) as sweeps:
            for number in (1, 2):
                async with asyncio.timeout(10):
                    while not sweeps.clock.sleepers:
                        await asyncio.to_thread(os.getpid)
                sweeps.clock.advance(UNTOLD_SECONDS)
                assert await sweeps.after(number) == number + 1
    assert [record.message for record in caplog.records] == [
        "memory files cannot be watched, changes are looked for now and then"
    ]


async def test_a_sweep_that_fails_is_tried_again(workspace: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    sweeps = Sweeps(fail=True)
    async with watch(workspace, (), sweeps.clock, sweeps.sweep):
        await sweeps.after(0)
        async with asyncio.timeout(10):
            while not sweeps.clock.sleepers:
                await asyncio.to_thread(os.getpid)
        sweeps.clock.advance(SAFETY_SECONDS)
        await sweeps.after(1)


async def test_a_workspace_that_is_moved_away_ends_no_more_than_the_watching(workspace: Workspace) -> None:
    async with watching_of(workspace) as sweeps:
        workspace.root.rename(workspace.root.with_name("moved"))
        await settled(sweeps)
