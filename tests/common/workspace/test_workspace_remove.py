"""A file is deleted only where the person may write, and never through a link."""

from pathlib import Path

import pytest

from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError


async def test_a_file_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    async with Workspace(tmp_path) as workspace:
        await workspace.remove("a.md")
        assert not (tmp_path / "a.md").exists()
        with pytest.raises(ToolError, match="file not found"):
            await workspace.remove("a.md")


async def test_what_is_missing_leaves_no_folder_behind(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as workspace:
        with pytest.raises(ToolError, match="file not found"):
            await workspace.remove("new/folder/a.md")
    assert not (tmp_path / "new").exists()


async def test_folders_links_and_what_lies_outside_stay(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.txt"
    (root / "folder").mkdir(parents=True)
    outside.write_text("o")
    (root / "real.md").write_text("r")
    (root / "link.md").symlink_to("real.md")
    (root / "out").symlink_to(outside)
    async with Workspace(root) as workspace:
        for path in ("folder", "link.md", "out", "../outside.txt", str(outside), "."):
            with pytest.raises(ToolError):
                await workspace.remove(path)
    assert outside.exists() and (root / "real.md").exists() and (root / "link.md").is_symlink()


async def test_nobody_elses_notes_and_no_file_of_the_daemons_is_deleted(tmp_path: Path) -> None:
    root, state = tmp_path / "root", tmp_path / "state"
    theirs = root / "memory/users/telegram:6/pin.md"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    state.mkdir()
    (state / "goclaw.db").write_text("db")
    (root / "hard").hardlink_to(state / "goclaw.db")
    async with Workspace(root, [state]) as workspace:
        mine = workspace.seen_by("telegram:5")
        for path in ("memory/users/telegram:6/pin.md", "hard"):
            with pytest.raises(ToolError):
                await mine.remove(path)
    assert theirs.exists() and (root / "hard").exists()
