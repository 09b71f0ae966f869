"""New files that never take another one's place."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError


def found(folder: Path) -> dict[str, bytes]:
    """Everything below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_file_is_kept_beside_others_of_its_name(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        assert await workspace.add_bytes("inbox/a.txt", b"one") == "inbox/a.txt"
        assert await workspace.add_bytes("inbox/a.txt", b"two") == "inbox/a-2.txt"
        assert await workspace.add_bytes("inbox/a.txt", b"two") == "inbox/a-2.txt"
        assert await workspace.add_bytes("inbox/a.txt", b"one") == "inbox/a.txt"
    assert found(tmp_path / "inbox") == {"a.txt": b"one", "a-2.txt": b"two"}, "and nothing half-done"


async def test_whoever_comes_at_the_same_moment_gets_another_name(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        names = await asyncio.gather(*(workspace.add_bytes("a.txt", str(number).encode()) for number in range(20)))
    assert len(set(names)) == 20
    assert {(tmp_path / name).read_bytes() for name in names} == {str(number).encode() for number in range(20)}


async def test_a_link_in_the_way_is_no_way_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    root.mkdir()
    outside.write_bytes(b"secret")
    (root / "a.txt").symlink_to(outside)
    (root / "folder").symlink_to(tmp_path)
    async with Workspace(root) as workspace:
        assert await workspace.add_bytes("a.txt", b"secret") == "a-2.txt"
        for path in ("folder/a.txt", "../a.txt", "/etc/a.txt"):
            with pytest.raises(ToolError, match=r"path traversal detected|permission denied"):
                await workspace.add_bytes(path, b"x")
    assert sorted(found(tmp_path)) == ["outside", "workspace/a-2.txt", "workspace/a.txt"]
    assert outside.read_bytes() == b"secret"


async def test_a_file_of_the_daemon_is_not_looked_into(tmp_path: Path) -> None:
    root, state = tmp_path / "workspace", tmp_path / "state.db"
    root.mkdir()
    state.write_bytes(b"rows")
    (root / "a.txt").hardlink_to(state)
    async with Workspace(root, [state]) as workspace:
        assert await workspace.add_bytes("a.txt", b"rows") == "a-2.txt"


async def test_there_is_an_end_to_numbers(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        for number in range(100):
            await workspace.add_bytes("a.txt", str(number).encode())
        with pytest.raises(ToolError, match=r"there are 100 files of that name already: a\.txt"):
            await workspace.add_bytes("a.txt", b"one more")


async def test_a_file_system_without_links_serves_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    async with Workspace(tmp_path) as workspace:
        assert await workspace.add_bytes("a.txt", b"one") == "a.txt"
        assert await workspace.add_bytes("a.txt", b"two") == "a-2.txt"
    assert found(tmp_path) == {"a.txt": b"one", "a-2.txt": b"two"}


async def test_a_disk_that_is_full_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    async with Workspace(tmp_path) as workspace:
        with pytest.raises(ToolError, match=r"No space|no space|disk"):
            await workspace.add_bytes("a.txt", b"one")
    assert found(tmp_path) == {}
