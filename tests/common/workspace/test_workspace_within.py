"""A folder of a workspace as a workspace by itself."""

from pathlib import Path

import pytest

from goclaw.common.workspace import Workspace
from goclaw.errors import ToolError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "ws" / "outer.txt").write_text("outer")
    (tmp_path / "ws" / "tree" / "a.txt").write_text("inner")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "ws"


async def test_its_paths_begin_there_and_none_leads_out(root: Path) -> None:
    (root / "tree" / "up").symlink_to("../outer.txt")
    async with Workspace(root) as outer, outer.within("tree") as inner:
        assert inner.root == root / "tree" and await inner.folder("sub") == root / "tree" / "sub"
        assert await inner.read_bytes("a.txt") == b"inner"
        await inner.write_bytes("b.txt", b"new")
        for path in ("../outer.txt", str(root / "outer.txt"), "up"):
            with pytest.raises(ToolError):
                await inner.read_bytes(path)
    assert (root / "tree" / "b.txt").read_text() == "new"


async def test_a_link_to_a_folder_elsewhere_is_none(root: Path, tmp_path: Path) -> None:
    (root / "elsewhere").symlink_to(tmp_path)
    async with Workspace(root) as outer:
        with pytest.raises(ToolError):
            async with outer.within("elsewhere"):
                pass
        with pytest.raises(ToolError):
            async with outer.within("outer.txt"):
                pass


async def test_it_is_seen_with_the_same_eyes_and_has_the_same_files_denied(root: Path, tmp_path: Path) -> None:
    (root / "tree" / "state").hardlink_to(tmp_path / "secret.txt")
    async with Workspace(root, [tmp_path / "secret.txt"]) as everything:
        async with everything.seen_by("memory:anna").within("tree") as inner:
            assert inner.viewer == "memory:anna"
            with pytest.raises(ToolError):
                await inner.read_bytes("state")


async def test_commands_are_not_run_where_another_folder_took_its_place(root: Path) -> None:
    async with Workspace(root) as outer, outer.within("tree") as inner:
        (root / "tree").rename(root / "old")
        (root / "tree").mkdir()
        with pytest.raises(ToolError, match="moved or replaced"):
            await inner.folder(".")
