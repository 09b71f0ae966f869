"""A person's own workspace, and the folder that it shows as `shared/`."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.common.workspace import FileQuery, Workspace, link_shared, part_of_shared
from goclaw.errors import StateError, ToolError

OWN, SHARED, OTHERS = "state/people/ann", "state/workspace", "state/people/bob"


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Workspace]:
    for folder in (OWN, SHARED, OTHERS):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / OWN / "mine.md").write_text("mine")
    (tmp_path / SHARED / "news.md").write_text("news")
    (tmp_path / OTHERS / "secret.md").write_text("secret")
    (tmp_path / "state/users.json").write_text("{}")
    link_shared(tmp_path / OWN, tmp_path / SHARED)
    state = tmp_path / "state"
    async with Workspace(
        tmp_path / OWN, [state], notes=state / "notes", shared=tmp_path / SHARED, spared=[state / "people"]
    ) as opened:
        yield opened


async def test_the_shared_folder_is_read_written_and_listed_under_its_name(own: Workspace, tmp_path: Path) -> None:
    assert await own.read_bytes("shared/news.md") == b"news"
    written = await own.write_bytes("shared/new/x.md", b"x")
    assert written.path == "shared/new/x.md" and (tmp_path / SHARED / "new/x.md").read_text() == "x"
    assert await own.add_bytes("shared/new/x.md", b"y") == "shared/new/x-2.md"
    await own.remove("shared/new/x-2.md")
    assert await own.paths() == ["mine.md", "shared/", "shared/new/", "shared/news.md", "shared/new/x.md"]
    assert await own.paths_in("shared") == ["shared/new/", "shared/news.md"]
    assert [entry.path for entry in await own.walk(["**/*.md"])] == ["mine.md", "shared/news.md", "shared/new/x.md"]
    assert (await own.stat("shared")).is_folder and not await own.has_link("shared/new/x.md")
    assert await own.folder("shared/new") == tmp_path / SHARED / "new"
    assert own.real("shared/news.md") == str(tmp_path / SHARED / "news.md")


async def test_its_own_path_on_the_disk_names_it_too(own: Workspace, tmp_path: Path) -> None:
    news = tmp_path / SHARED / "news.md"
    assert (await own.stat(str(news))).path == "shared/news.md"
    assert (await own.stat(f"@{news}")).path == "shared/news.md"
    for path in (f"{tmp_path / SHARED}/../people/bob/secret.md", str(tmp_path / OTHERS / "secret.md")):
        with pytest.raises(ToolError, match="path traversal detected"):
            await own.stat(path)


@pytest.mark.promise("P-workspaces-per-person")
async def test_no_link_leads_out_of_the_shared_folder(own: Workspace, tmp_path: Path) -> None:
    (tmp_path / SHARED / "up").symlink_to("../people/bob")
    (tmp_path / SHARED / "whole").symlink_to(tmp_path / OTHERS)
    (tmp_path / SHARED / "file.md").symlink_to("../people/bob/secret.md")
    (tmp_path / SHARED / "near.md").symlink_to("news.md")
    for path in ("shared/up/secret.md", "shared/whole/secret.md", "shared/file.md"):
        with pytest.raises(ToolError, match="path traversal detected"):
            await own.read_bytes(path)
        with pytest.raises(ToolError, match="path traversal detected"):
            await own.write_bytes(path, b"x")
    assert await own.read_bytes("shared/near.md") == b"news"
    assert "secret" not in str(await own.paths())


@pytest.mark.promise("P-workspaces-per-person")
async def test_what_a_command_puts_at_its_name_is_not_looked_at(own: Workspace, tmp_path: Path) -> None:
    link = tmp_path / OWN / "shared"
    link.unlink()
    link.symlink_to("../bob")
    assert await own.read_bytes("shared/news.md") == b"news"
    with pytest.raises(ToolError, match="file not found"):
        await own.read_bytes("shared/secret.md")
    link.unlink()
    link.mkdir()
    (link / "fake.md").write_text("fake")
    assert await own.paths_in("shared") == ["shared/news.md"]
    assert await own.paths() == ["mine.md", "shared/", "shared/news.md"]


async def test_the_link_for_commands_is_made_anew_and_nothing_else_is_replaced(tmp_path: Path) -> None:
    root, shared = tmp_path / "own", tmp_path / "all"
    root.mkdir()
    shared.mkdir()
    assert link_shared(root, shared) and link_shared(root, shared)
    (root / "shared").unlink()
    (root / "shared").symlink_to("/etc")
    assert link_shared(root, shared) and (root / "shared").readlink() == shared
    (root / "shared").unlink()
    (root / "shared").mkdir()
    assert not link_shared(root, shared) and (root / "shared").is_dir()


async def test_rules_of_git_in_the_workspace_hide_nothing_of_the_shared_folder(own: Workspace, tmp_path: Path) -> None:
    (tmp_path / OWN / ".gitignore").write_text("shared\n*.md\n")
    (tmp_path / SHARED / ".gitignore").write_text("draft*\n")
    (tmp_path / SHARED / "draft.md").write_text("draft")
    assert await own.paths() == [".gitignore", "shared/", "shared/.gitignore", "shared/news.md"]
    found = await own.find(FileQuery())
    assert [entry.path for entry in found.entries] == [".gitignore", "shared/.gitignore", "shared/news.md"]
    assert await own.visible(["mine.md", "shared/news.md", "shared/draft.md"], FileQuery()) == ["shared/news.md"]


async def test_a_second_name_of_somebodys_file_is_that_file_and_one_of_the_daemons_is_refused(
    own: Workspace, tmp_path: Path
) -> None:
    os.link(tmp_path / OTHERS / "secret.md", tmp_path / SHARED / "published.md")
    os.link(tmp_path / "state/users.json", tmp_path / SHARED / "users.md")
    assert await own.read_bytes("shared/published.md") == b"secret"
    with pytest.raises(ToolError, match="permission denied"):
        await own.read_bytes("shared/users.md")
    assert "shared/users.md" not in await own.paths()


async def test_no_private_note_is_looked_for_in_the_shared_folder(own: Workspace, tmp_path: Path) -> None:
    (tmp_path / SHARED / "memory/users/bob").mkdir(parents=True)
    (tmp_path / SHARED / "memory/users/bob/tea.md").write_text("tea")
    (tmp_path / SHARED / "memory/soup.md").write_text("soup")
    with pytest.raises(ToolError, match="file not found"):
        await own.read_bytes("shared/memory/users/bob/tea.md")
    with pytest.raises(ToolError, match="permission denied"):
        await own.write_bytes("shared/memory/users/bob/new.md", b"x")
    assert await own.paths_in("shared/memory") == ["shared/memory/soup.md"]
    await own.seen_by("ann").write_bytes("memory/users/ann/tea.md", b"mine")
    assert (tmp_path / "state/notes/ann/tea.md").read_bytes() == b"mine"


async def test_without_a_shared_folder_the_name_is_an_ordinary_one(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/x.md").write_text("x")
    async with Workspace(tmp_path) as workspace:
        assert await workspace.read_bytes("shared/x.md") == b"x"
        assert workspace.shared is None and part_of_shared("shared") == "." and part_of_shared("shared2/x") is None


async def test_a_shared_folder_that_is_gone_or_moved_is_told(own: Workspace, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be used"):
        async with Workspace(tmp_path / OWN, shared=tmp_path / "none"):
            pass
    (tmp_path / SHARED).rename(tmp_path / "moved")
    (tmp_path / SHARED).mkdir()
    with pytest.raises(ToolError, match="was moved or replaced"):
        await own.folder(".")


async def test_a_folder_of_the_shared_one_is_opened_as_a_workspace_by_itself(own: Workspace, tmp_path: Path) -> None:
    await own.write_bytes("shared/tree/a.md", b"a")
    async with own.within("shared/tree") as inner:
        assert await inner.read_bytes("a.md") == b"a" and inner.root == tmp_path / SHARED / "tree"
        with pytest.raises(ToolError):
            await inner.read_bytes("shared/news.md")
