"""The notes of somebody else: not to be read, changed, listed or told from what is not there, under any name."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from goclaw.core.clock import SteppedClock
from goclaw.errors import ToolError
from goclaw.workspace import PathCompleter, Workspace
from tests.tables import table
from tests.workspace.ways import WAYS, force

ANN, BOB = "telegram:5", "telegram:6"
NOTE = "bob's secret"


async def used(workspace: Workspace, path: str) -> object:
    """Read it among others."""
    [made] = await workspace.use_each({path: lambda opened: opened.file.read()})
    if isinstance(made, ToolError):
        raise made
    return made


Use = Callable[[Workspace, str], Awaitable[object]]
READING: Mapping[str, Use] = {
    "read": lambda workspace, path: workspace.read_bytes(path),
    "use each": used,
    "stat": lambda workspace, path: workspace.stat(path),
    "folder": lambda workspace, path: workspace.folder(path),
}
WRITING: Mapping[str, Use] = {
    "write": lambda workspace, path: workspace.write_bytes(path, b"x"),
    "keep": lambda workspace, path: workspace.keep_bytes(path, b"x"),
}
BEHIND = ("n.md", "n.md/x", "sub/deep.md", "missing", "missing/x", "pipe", "sub", "link", "loop", "a" * 250)
"""What is, or is not, in Bob's folder."""
WAYS_IN = (
    "memory/users/{bob}", "./memory//users/./{bob}", "memory/users/{ann}/../{bob}", "{root}/memory/users/{bob}",
    "@memory/users/{bob}", "to-bob", "to-users/{bob}", "to-memory/users/{bob}", "memory/users/{ann}/to-bob",
    "memory/users/carol", "memory/users/nobody", "renamed/users/{bob}",
)  # fmt: skip


@pytest.fixture(params=WAYS)
async def shared(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workspace]:
    """A workspace of several people, with links of all kinds to what is Bob's."""
    force(request.param, monkeypatch)
    users = tmp_path / "memory" / "users"
    for key in (ANN, BOB):
        (users / key / "sub").mkdir(parents=True)
        (users / key / "n.md").write_text(NOTE if key == BOB else "ann's own")
        (users / key / "sub" / "deep.md").write_text(NOTE if key == BOB else "ann's own")
    os.mkfifo(users / BOB / "pipe")
    (users / BOB / "link").symlink_to("n.md")
    (users / BOB / "loop").symlink_to("loop")
    (users / "stray.md").write_text(NOTE)
    (users / "carol").symlink_to(BOB)
    (users / ANN / "to-bob").symlink_to(f"../{BOB}")
    (tmp_path / "to-bob").symlink_to(f"memory/users/{BOB}")
    (tmp_path / "to-users").symlink_to("memory/users")
    (tmp_path / "to-memory").symlink_to("memory")
    (tmp_path / "hard.md").hardlink_to(users / BOB / "n.md")
    (users / ANN / "hard.md").hardlink_to(users / BOB / "sub" / "deep.md")
    async with Workspace(tmp_path) as workspace:
        yield workspace


def snapshot(workspace: Workspace) -> list[tuple[str, str]]:
    """What is in Bob's folder."""
    bob = next(path for path in workspace.root.glob(f"*/users/{BOB}") if path.is_dir())
    files = (path for path in bob.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted((str(path.relative_to(bob)), path.read_text()) for path in files)


async def answer(use: Awaitable[object]) -> str:
    try:
        return f"done: {await use}"
    except ToolError as error:
        return str(error)


@pytest.mark.promise("P-memory-own-notes")
@pytest.mark.parametrize("way_in", WAYS_IN)
async def test_whatever_the_name_somebody_elses_notes_are_not_there(way_in: str, shared: Workspace) -> None:
    ann, before = shared.seen_by(ANN), snapshot(shared)
    if way_in.startswith("renamed"):
        (shared.root / "memory").rename(shared.root / "renamed")
    folder = way_in.format(ann=ANN, bob=BOB, root=shared.root)
    for behind in BEHIND:
        path = f"{folder}/{behind}"
        for name, use in READING.items():
            said = await answer(use(ann, path))
            hidden = said == f"file not found: {path}"
            by_link = shared._resolver.workspace_root.by_walk and said.startswith("path traversal detected: ")
            assert hidden or by_link, (name, path, said)
        for name, use in WRITING.items():
            said = await answer(use(ann, path))
            assert said.startswith(("permission denied: ", "path traversal detected: ")), (name, path, said)
    assert snapshot(shared) == before
    assert await ann.paths_in(folder) == []


@pytest.mark.promise("P-memory-own-notes")
async def test_a_hard_link_to_a_note_is_that_note(shared: Workspace) -> None:
    ann, before = shared.seen_by(ANN), snapshot(shared)
    for path in ("hard.md", f"memory/users/{ANN}/hard.md"):
        for use in READING.values():
            assert await answer(use(ann, path)) == f"file not found: {path}"
        assert await answer(ann.write_bytes(path, b"x")) == f"permission denied: {path}"
    assert snapshot(shared) == before


@pytest.mark.promise("P-memory-own-notes")
async def test_no_listing_has_a_name_of_somebody_elses_notes(shared: Workspace) -> None:
    ann, completion = shared.seen_by(ANN), PathCompleter(SteppedClock())
    assert BOB in "\n".join(await completion.matching(shared, BOB)), "the owner's listing is kept for a while"
    seen = [
        *await ann.paths(),
        *await ann.paths_in("memory/users"),
        *(entry.path for entry in await ann.walk(["**/*", "memory/users/**/*.md", f"memory/users/{BOB}/*"])),
        *[path for begun in (BOB, "deep", "memory/users/", "stray") for path in await completion.matching(ann, begun)],
    ]
    assert f"memory/users/{ANN}/n.md" in seen
    assert [path for path in seen if BOB in path or "stray" in path or "hard" in path] == []


@pytest.mark.promise("P-memory-own-notes")
async def test_ones_own_notes_are_read_written_and_begun(shared: Workspace) -> None:
    ann, carl = shared.seen_by(ANN), shared.seen_by("telegram:7")
    assert await ann.read_bytes(f"memory/users/{ANN}/n.md") == b"ann's own"
    await ann.write_bytes(f"memory/users/{ANN}/sub/new.md", b"more")
    await ann.write_bytes(f"memory/users/{ANN}/n.md", b"other")
    await carl.write_bytes("memory/users/telegram:7/first.md", b"one")
    assert await ann.read_bytes(f"memory/users/{ANN}/n.md") == b"other"
    assert await carl.read_bytes("memory/users/telegram:7/first.md") == b"one"
    assert await answer(ann.read_bytes("memory/users/telegram:7/first.md")) == (
        "file not found: memory/users/telegram:7/first.md"
    )
    assert (await ann.stat("memory/users")).is_folder
    assert [path for path in await ann.paths_in("memory/users") if BOB in path] == []


async def test_the_owner_of_the_state_folder_sees_everybodys_notes(shared: Workspace) -> None:
    assert await shared.read_bytes(f"memory/users/{BOB}/n.md") == NOTE.encode()
    assert f"memory/users/{BOB}/n.md" in await shared.paths()


@table("key", ["", ".", "..", "a/b", f"{ANN}/../{BOB}", f"../users/{BOB}", "carol", "stray.md"])
async def test_an_odd_key_owns_nobodys_notes(key: str, shared: Workspace) -> None:
    odd = shared.seen_by(key)
    for path in (f"memory/users/{BOB}/n.md", "memory/users/carol/n.md", "to-bob/n.md"):
        assert NOTE not in await answer(odd.read_bytes(path))


async def test_notes_begun_after_the_workspace_was_opened_are_as_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Workspace(tmp_path) as workspace:
        await workspace.seen_by(BOB).write_bytes(f"memory/users/{BOB}/n.md", b"bob's")
        (tmp_path / "memory").rename(tmp_path / "elsewhere")
        await workspace.seen_by(ANN).write_bytes(f"memory/users/{ANN}/n.md", b"ann's")
        for path in (f"elsewhere/users/{BOB}/n.md", f"memory/users/{BOB}/n.md"):
            assert await answer(workspace.seen_by(ANN).read_bytes(path)) == f"file not found: {path}"
        assert await workspace.seen_by(BOB).read_bytes(f"elsewhere/users/{BOB}/n.md") == b"bob's"
