"""Paths in and out of the workspace: what is read and written, and what never is."""

import ctypes
import os
import socket
import stat
import threading
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from goclaw.common.workspace import Workspace
from goclaw.common.workspace.openat2 import has_openat2
from goclaw.errors import StateError, ToolError
from tests.common.workspace.ways import WAYS, force
from tests.tables import table

SECRET = "secret outside"


@pytest.fixture(params=WAYS)
async def workspace(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workspace]:
    """Both ways of opening: by system call, and component by component where it is missing."""
    force(request.param, monkeypatch)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text(SECRET)
    async with Workspace(tmp_path / "workspace", [tmp_path / "state.json"]) as opened:
        if request.param == "openat2" and opened._resolver.workspace_root.by_walk:
            pytest.skip("this kernel has no openat2")
        assert opened._resolver.workspace_root.by_walk == (request.param != "openat2")
        yield opened


async def test_what_is_written_is_read(workspace: Workspace) -> None:
    written = await workspace.write_bytes("a/b/c.txt", b"one")
    again = await workspace.write_bytes("a/b/c.txt", b"two")

    assert (written.created, again.created, again.size, again.path) == (True, False, 3, "a/b/c.txt")
    assert await workspace.read_bytes("a/b/c.txt") == b"two"
    assert await workspace.read_bytes(str(workspace.root / "a/b/c.txt")) == b"two"
    assert await workspace.read_bytes("./a//b/../b/c.txt") == b"two"


@pytest.mark.promise("P-paths-inside")
@table(
    "path",
    [
        "../outside/file",
        "a/../../outside/file",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "..",
        "/",
        "a/../..",
        "{outside}/file",
        "{root}/../outside/file",
        "{root}x/file",
        "{root}-of-another/file",
    ],
)
async def test_a_path_that_leaves_is_refused(path: str, workspace: Workspace) -> None:
    path = path.format(root=workspace.root, outside=workspace.root.parent / "outside")

    for attempt in (workspace.read_bytes(path), workspace.write_bytes(path, b"x"), workspace.stat(path)):
        with pytest.raises(ToolError) as caught:
            await attempt
        assert str(caught.value) == f"path traversal detected: {path}"


@pytest.mark.parametrize(
    "target", ["../outside/file", "{outside}/file", "/proc/self/cwd/pyproject.toml", "../outside/new"]
)
async def test_a_symbolic_link_that_leaves_is_refused(target: str, workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "link").symlink_to(target.format(outside=tmp_path / "outside"))

    for attempt in (workspace.read_bytes("link"), workspace.write_bytes("link", b"x")):
        with pytest.raises(ToolError, match="path traversal detected: link"):
            await attempt

    assert (tmp_path / "outside" / "file").read_text() == SECRET
    assert not (tmp_path / "outside" / "new").exists()


@pytest.mark.parametrize("target", ["../outside", "{outside}"])
async def test_a_linked_folder_that_leaves_is_refused(target: str, workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "folder").symlink_to(target.format(outside=tmp_path / "outside"))

    for attempt in (workspace.read_bytes("folder/file"), workspace.write_bytes("folder/new/x", b"x")):
        with pytest.raises(ToolError, match="path traversal detected"):
            await attempt

    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]


async def test_a_link_that_stays_inside_is_followed_by_openat2(workspace: Workspace) -> None:
    await workspace.write_bytes("real/file", b"one")
    (workspace.root / "link").symlink_to("real/file")
    if workspace._resolver.workspace_root.by_walk:
        with pytest.raises(ToolError, match="path traversal detected"):
            await workspace.read_bytes("link")
        return

    assert await workspace.read_bytes("link") == b"one"
    await workspace.write_bytes("link", b"two")

    assert (workspace.root / "link").is_symlink(), "the write went through the link and left it"
    assert (workspace.root / "real/file").read_bytes() == b"two"


async def test_a_dangling_link_inside_is_not_written(workspace: Workspace) -> None:
    (workspace.root / "link").symlink_to("nowhere")

    with pytest.raises(ToolError, match=r"dangling symbolic link|path traversal"):
        await workspace.write_bytes("link", b"x")


async def test_a_link_on_the_way_is_told_whether_it_leads_anywhere_or_not(workspace: Workspace) -> None:
    root = workspace.root
    (root / "a").mkdir()
    (root / "a" / "file.md").touch()
    (root / "behind").symlink_to("a")
    (root / "a" / "link.md").symlink_to("file.md")
    (root / "a" / "dangling.md").symlink_to("nothing")
    for path, expected in {
        "a/file.md": False,
        "a/missing/at/all.md": False,
        "a/link.md": True,
        "a/dangling.md": True,
        "behind/file.md": True,
        "behind/new.md": True,
        f"{root}/a/file.md": False,
    }.items():
        assert await workspace.has_link(path) is expected, path


async def test_a_link_to_itself_is_an_error_in_words(workspace: Workspace) -> None:
    (workspace.root / "loop").symlink_to("loop")

    with pytest.raises(ToolError, match="path traversal detected: loop"):
        await workspace.read_bytes("loop")


@table("name", ["..foo", "...", "a..b", ".hidden", "-rf", "a b", "naïve.txt", "日本語", "😀", "%2e%2e", "a\\b"])
async def test_unusual_names_are_legal(name: str, workspace: Workspace) -> None:
    await workspace.write_bytes(f"{name}/{name}", b"x")

    assert await workspace.read_bytes(f"{name}/{name}") == b"x"


@table("path", ["a\0b", "a\nb", "a\x1bb", "\x7f", "a\ud800b", "", "   "])
async def test_names_with_control_characters_are_refused(path: str, workspace: Workspace) -> None:
    for attempt in (workspace.read_bytes(path), workspace.write_bytes(path, b"x")):
        with pytest.raises(ToolError, match=r"control characters|path is empty"):
            await attempt


@pytest.mark.parametrize("form", ["NFC", "NFD"])
async def test_both_spellings_of_a_name_reach_its_file(form: Literal["NFC", "NFD"], workspace: Workspace) -> None:
    on_disk = unicodedata.normalize(form, "Café.txt")
    (workspace.root / on_disk).write_bytes(b"x")

    assert await workspace.read_bytes(on_disk) == b"x"
    await workspace.write_bytes(on_disk, b"y")
    assert [path.name for path in workspace.root.iterdir()] == [on_disk], "no second file with the other spelling"


@pytest.mark.parametrize("folder_form", ["NFC", "NFD"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
async def test_a_name_in_one_spelling_finds_the_file_and_its_folder_in_the_other(
    folder_form: Literal["NFC", "NFD"], form: Literal["NFC", "NFD"], asked: Literal["NFC", "NFD"], workspace: Workspace
) -> None:
    folder, name = unicodedata.normalize(folder_form, "Möbel"), unicodedata.normalize(form, "Café.txt")
    (workspace.root / folder).mkdir()
    (workspace.root / folder / name).write_bytes(b"x")

    def path(name: str) -> str:
        return unicodedata.normalize(asked, f"Möbel/{name}")

    assert await workspace.read_bytes(path("Café.txt")) == b"x"
    assert (await workspace.write_bytes(path("Café.txt"), b"y")).path == f"{folder}/{name}"
    assert (await workspace.write_bytes(path("neu.txt"), b"z")).path == f"{folder}/neu.txt"
    assert workspace.real(path("Café.txt")) == str(workspace.root / folder / name)
    assert {each.name for each in workspace.root.rglob("*")} == {folder, name, "neu.txt"}, "no twin of either"


async def test_new_names_are_composed(workspace: Workspace) -> None:
    await workspace.write_bytes(unicodedata.normalize("NFD", "Café.txt"), b"x")

    assert [path.name for path in workspace.root.iterdir()] == [unicodedata.normalize("NFC", "Café.txt")]


async def test_only_regular_files_are_opened(workspace: Workspace) -> None:
    os.mkfifo(workspace.root / "pipe")
    (workspace.root / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(workspace.root / "socket"))
        for path, words in (("pipe", "not a regular file: pipe"), ("socket", "not a regular file: socket")):
            for attempt in (workspace.read_bytes(path), workspace.write_bytes(path, b"x")):
                with pytest.raises(ToolError, match=words):
                    await attempt
    for attempt in (workspace.read_bytes("folder"), workspace.write_bytes("folder", b"x"), workspace.read_bytes(".")):
        with pytest.raises(ToolError, match="is a directory"):
            await attempt


async def test_missing_and_forbidden_files_are_told_apart(workspace: Workspace) -> None:
    (workspace.root / "file").write_bytes(b"x")
    for path in ("missing", "missing/deeper", "file/below"):
        with pytest.raises(ToolError, match=f"^file not found: {path}"):
            await workspace.read_bytes(path)
    with pytest.raises(ToolError, match=r"name too long|too long"):
        await workspace.read_bytes("x" * 300)
    with pytest.raises(ToolError, match="too long"):
        await workspace.read_bytes("x/" * 3000)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_an_unreadable_file_is_permission_denied(workspace: Workspace) -> None:
    (workspace.root / "file").write_bytes(b"x")
    (workspace.root / "file").chmod(0)

    for attempt in (workspace.read_bytes("file"), workspace.write_bytes("file", b"y")):
        with pytest.raises(ToolError, match=r"^permission denied: file$"):
            await attempt


@pytest.mark.promise("P-paths-inside")
async def test_a_state_file_is_refused_under_every_name(workspace: Workspace, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("state")
    (workspace.root / "hard").hardlink_to(state)
    (workspace.root / "other").write_text("fine")

    for attempt in (workspace.read_bytes("hard"), workspace.write_bytes("hard", b"x"), workspace.stat("hard")):
        with pytest.raises(ToolError, match=r"^permission denied: hard$"):
            await attempt
    assert [entry.path for entry in await workspace.walk(["*"])] == ["other"]
    assert state.read_text() == "state"


async def test_a_state_file_that_appears_later_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    async with Workspace(tmp_path, [tmp_path / "users.json", tmp_path / "deep" / "config.yaml"]) as workspace:
        for path in ("users.json", "deep/config.yaml", "deep/../users.json"):
            with pytest.raises(ToolError, match="permission denied"):
                await workspace.write_bytes(path, b"{}")
        (tmp_path / "users.json").write_text("{}")
        with pytest.raises(ToolError, match="permission denied"):
            await workspace.read_bytes("users.json")


async def test_a_write_keeps_the_mode_and_leaves_no_scraps(workspace: Workspace) -> None:
    (workspace.root / "script").write_bytes(b"old")
    (workspace.root / "script").chmod(0o4750)

    await workspace.write_bytes("script", b"new")
    await workspace.write_bytes("fresh", b"new")

    assert stat.S_IMODE((workspace.root / "script").stat().st_mode) == 0o750
    assert stat.S_IMODE((workspace.root / "fresh").stat().st_mode) == 0o644
    assert sorted(path.name for path in workspace.root.iterdir()) == ["fresh", "script"]


async def test_a_failed_write_changes_nothing(workspace: Workspace) -> None:
    (workspace.root / "folder").mkdir()
    (workspace.root / "folder" / "file").write_bytes(b"old")

    with pytest.raises(ToolError):
        await workspace.write_bytes("folder", b"new")

    assert [path.name for path in workspace.root.iterdir()] == ["folder"]


async def test_a_write_can_insist_on_the_version_that_was_read(workspace: Workspace) -> None:
    await workspace.write_bytes("file", b"one")
    version = (await workspace.stat("file")).version
    await workspace.write_bytes("file", b"two")

    with pytest.raises(ToolError, match="the file changed since it was read: file"):
        await workspace.write_bytes("file", b"three", unless_changed=version)

    assert await workspace.read_bytes("file") == b"two"


async def test_a_file_above_the_limit_is_refused_without_reading_it(workspace: Workspace) -> None:
    with (workspace.root / "sparse").open("wb") as file:
        file.truncate(50 << 30)

    with pytest.raises(ToolError, match="file too large: sparse"):
        await workspace.read_bytes("sparse", limit=1000)
    assert (await workspace.stat("sparse")).size == 50 << 30


async def test_walking_finds_files_by_pattern_and_follows_no_link(workspace: Workspace) -> None:
    for path in ("MEMORY.md", "memory/a.md", "memory/deep/er/b.md", "memory/c.txt", "memory/.git/d.md", "e.md"):
        await workspace.write_bytes(path, b"xyz")
    (workspace.root / "memory" / "out").symlink_to(workspace.root.parent / "outside")
    (workspace.root / "memory" / "link.md").symlink_to("a.md")

    async def found(*patterns: str, limit: int = 100) -> list[str]:
        return [entry.path for entry in await workspace.walk(patterns, limit)]

    assert await found("MEMORY.md", "memory/*.md") == ["MEMORY.md", "memory/a.md"]
    assert await found("memory/**/*.md") == ["memory/a.md", "memory/deep/er/b.md"]
    assert await found("memory/**") == ["memory/a.md", "memory/c.txt", "memory/deep/er/b.md"]
    assert await found("../*", "/etc/*", "missing/*", "") == []
    assert await found("**/*.md", limit=2) == ["MEMORY.md", "e.md"]
    assert [entry.size for entry in await workspace.walk(["e.md"])] == [3]


async def test_a_folder_is_given_as_an_absolute_path(workspace: Workspace) -> None:
    await workspace.write_bytes("a/file", b"x")

    assert await workspace.folder("a") == workspace.root / "a"
    assert await workspace.folder(".") == workspace.root
    with pytest.raises(ToolError, match="not a directory: a/file"):
        await workspace.folder("a/file")


async def test_a_workspace_that_is_missing_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be used: No such file"):
        async with Workspace(tmp_path / "missing"):
            pass


class Swapper(threading.Thread):
    """Exchanges a folder with a link to the outside, over and over, as fast as the kernel does it."""

    def __init__(self, root: Path, times: int) -> None:
        super().__init__()
        self._names = (os.fsencode(root / "door"), os.fsencode(root / "evil"))
        self._times = times
        self.left = times

    def run(self) -> None:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
        while self.left:
            assert renameat2(-100, self._names[0], -100, self._names[1], 2) == 0  # AT_FDCWD, RENAME_EXCHANGE
            self.left -= 1


@pytest.mark.promise("P-paths-inside")
async def test_no_race_leads_outside(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.root / "door").mkdir()
    (workspace.root / "door" / "file").write_text("inside")
    (workspace.root / "evil").symlink_to(tmp_path / "outside")
    swapper = Swapper(workspace.root, 20_000)
    reads = refused = 0

    swapper.start()
    while swapper.left:
        try:
            assert workspace._use("door/file", lambda opened: opened.file.read()) == b"inside"
            workspace._write(f"door/new/{reads % 8}", b"x", None)
            reads += 1
        except ToolError:
            refused += 1
    swapper.join()

    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["file"]
    assert (tmp_path / "outside" / "file").read_text() == SECRET
    assert reads
    assert refused, "the race took place"


def test_this_machine_is_asked_for_openat2(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        assert has_openat2(folder) in (True, False)
    finally:
        os.close(folder)


@pytest.mark.parametrize(
    ("named", "meant"),
    [
        ("@notes.md", "notes.md"),
        ("@a/notes.md", "a/notes.md"),
        ("@./notes.md", "notes.md"),
        ("@/notes.md", "notes.md"),
        ("@{root}/notes.md", "notes.md"),
        ('@"my notes.md"', "my notes.md"),
        ("@'my notes.md'", "my notes.md"),
        ("@@notes.md", "@notes.md"),
    ],
)
async def test_a_path_with_the_mark_that_people_put_before_it_is_that_path(
    named: str, meant: str, workspace: Workspace
) -> None:
    named = named.format(root=workspace.root)

    written = await workspace.write_bytes(named, b"one")

    assert written.path == meant and written.created
    assert (workspace.root / meant).read_bytes() == b"one"
    assert await workspace.read_bytes(named) == b"one"
    assert (await workspace.stat(named)).path == meant


async def test_what_is_really_called_so_comes_before_the_mark(workspace: Workspace) -> None:
    (workspace.root / "@types").mkdir()
    (workspace.root / "types").mkdir()
    (workspace.root / "types" / "a").write_text("other")

    await workspace.write_bytes("@types/a", b"scoped")
    (workspace.root / "@link").symlink_to("../outside/file")

    assert (workspace.root / "@types" / "a").read_bytes() == b"scoped"
    assert (workspace.root / "types" / "a").read_text() == "other"
    with pytest.raises(ToolError, match="path traversal detected: @link"):
        await workspace.read_bytes("@link")


async def test_the_mark_alone_is_the_workspace(workspace: Workspace) -> None:
    assert await workspace.folder("@") == workspace.root / "."
    with pytest.raises(ToolError, match="is a directory: @"):
        await workspace.write_bytes("@", b"")


@pytest.mark.promise("P-paths-inside")
@pytest.mark.parametrize("path", ["@../outside/file", "@a/../../outside/file", '@"../outside/file"'])
async def test_the_mark_leads_nowhere_outside(path: str, workspace: Workspace) -> None:
    for attempt in (workspace.read_bytes(path), workspace.write_bytes(path, b"x"), workspace.stat(path)):
        with pytest.raises(ToolError, match="path traversal detected"):
            await attempt
    assert (workspace.root.parent / "outside" / "file").read_text() == SECRET
