"""The daemon's own files: all of the state folder, as it is at that moment, under every name."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.state import private_paths
from goclaw.common.workspace import Workspace, forbidden_files
from goclaw.errors import StateError, ToolError
from tests.common.workspace.ways import WAYS, force
from tests.tables import table

STATE = (
    "goclaw.db", "goclaw.db-wal", "goclaw.db-shm", "goclaw.db.v2.bak", "goclaw.db.damaged-1", "goclaw.db.rescued-1",
    "memory.db", "memory.db-wal", "memory.db.broken", "users.json", "config.yaml", "goclaw.lock", "daemon.json",
    "secrets/telegram_token", "secrets/webhook", "logs/goclaw.log", "logs/goclaw.log.1", "logs/audit.jsonl",
    "logs/audit.jsonl.3", "logs/daemon.out", "telegram-grown.json", "telegram-moved.json", "tokens.json",
    "blobs/media/" + "0" * 64, "blobs/spills/0-1", "what/nobody/thought/of",
)  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A state folder with one of each; the default workspace is in it."""
    folder = tmp_path / "state"
    for name in STATE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    (folder / "workspace" / "sub").mkdir(parents=True)
    return Config(state_dir=folder)


@pytest.fixture(params=WAYS)
async def workspace(
    request: pytest.FixtureRequest, config: Config, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Workspace]:
    force(request.param, monkeypatch)
    async with Workspace(config.workspace_path, private_paths(config)) as opened:
        yield opened


async def refused(workspace: Workspace, path: str, *, is_listed: bool = False) -> None:
    """Nothing reads or changes it, and no listing has it."""
    for use in (
        workspace.read_bytes(path),
        workspace.write_bytes(path, b"x"),
        workspace.stat(path),
    ):
        with pytest.raises(ToolError, match=f"^permission denied: {path}$"):
            await use
    assert is_listed or path not in [entry.path for entry in await workspace.walk(["**/*"])]
    assert is_listed or path not in await workspace.paths()


@pytest.mark.promise("P-paths-inside")
@table("name", STATE)
async def test_a_hard_link_to_any_file_of_the_state_folder_is_that_file(
    name: str, workspace: Workspace, config: Config
) -> None:
    hard = workspace.root / "sub" / "hard"
    hard.unlink(missing_ok=True)
    hard.hardlink_to(config.state_dir / name)
    await refused(workspace, "sub/hard")
    assert (config.state_dir / name).read_text() == "secret"


@pytest.mark.promise("P-paths-inside")
async def test_a_state_file_that_is_made_later_is_denied_without_a_restart(
    workspace: Workspace, config: Config
) -> None:
    (config.state_dir / "new").mkdir()
    (config.state_dir / "new" / "kind").write_text("secret")
    (workspace.root / "hard").hardlink_to(config.state_dir / "new" / "kind")
    await refused(workspace, "hard")


async def test_files_of_ones_own_with_several_names_are_used_as_any(workspace: Workspace) -> None:
    (workspace.root / "one").write_text("mine")
    (workspace.root / "sub" / "two").hardlink_to(workspace.root / "one")
    assert await workspace.read_bytes("sub/two") == b"mine"
    await workspace.write_bytes("sub/two", b"other")
    assert [entry.path for entry in await workspace.walk(["**/*"])] == ["one", "sub/two"]


async def test_a_state_file_behind_a_link_in_the_state_folder_is_denied(
    workspace: Workspace, config: Config, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "etc"
    elsewhere.mkdir()
    (elsewhere / "users").write_text("secret")
    (config.state_dir / "linked.json").symlink_to(elsewhere / "users")
    (workspace.root / "hard").hardlink_to(elsewhere / "users")
    await refused(workspace, "hard")


async def test_with_too_many_state_files_whatever_has_several_names_is_denied(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forbidden_files, "_MAX_STATE_FILES", 3)
    (workspace.root / "one").write_text("mine")
    (workspace.root / "two").hardlink_to(workspace.root / "one")
    (workspace.root / "alone").write_text("mine")
    with pytest.raises(ToolError, match=r"^permission denied: two$"):
        await workspace.read_bytes("two")
    assert await workspace.read_bytes("alone") == b"mine"


@contextmanager
def mounted(what: Path, there: Path) -> Iterator[None]:
    """A second name for a file or folder, made by mounting it."""
    there.mkdir() if what.is_dir() else there.touch()
    done = subprocess.run(["mount", "--bind", what, there], capture_output=True, check=False, timeout=20)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", there], check=True, timeout=20)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_a_mount_of_the_state_folder_in_the_workspace_shows_nothing(workspace: Workspace, config: Config) -> None:
    with mounted(config.state_dir / "secrets", workspace.root / "mount"):
        await refused(workspace, "mount/telegram_token")
        for path in ("mount/new", "mount/deep/er/new"):
            with pytest.raises(ToolError, match="permission denied"):
                await workspace.write_bytes(path, b"x")
    with mounted(config.state_dir / "users.json", workspace.root / "users.txt"):
        await refused(workspace, "users.txt", is_listed=True)  # the name that whoever mounted it chose
    assert sorted(path.name for path in (config.state_dir / "secrets").iterdir()) == ["telegram_token", "webhook"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_other_mounts_in_the_workspace_are_used_as_folders(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("mounted")
    with mounted(tmp_path / "data", workspace.root / "data"):
        assert await workspace.read_bytes("data/a") == b"mounted"
        await workspace.write_bytes("data/sub/b", b"new")
        await workspace.write_bytes("data/a", b"changed")
        assert "data/sub/b" in [entry.path for entry in await workspace.walk(["**/*"])]
    assert (tmp_path / "data" / "a").read_text() == "changed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_a_workspace_that_shows_the_state_folder_by_a_mount_is_refused(config: Config, tmp_path: Path) -> None:
    with mounted(tmp_path, tmp_path / "again"), pytest.raises(StateError, match=r"contains .*state"):
        async with Workspace(tmp_path / "again", private_paths(config)):
            pass
    with mounted(config.state_dir, tmp_path / "same"), pytest.raises(StateError, match=r"contains .*state"):
        async with Workspace(tmp_path / "same", private_paths(config)):
            pass
