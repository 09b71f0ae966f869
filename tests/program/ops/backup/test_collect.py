"""A backup holds what cannot be made again, no secret unless asked for, and appears whole or not at all."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from goclaw.errors import StateError
from goclaw.program.ops.backup.archive import read_archive
from tests.parts import sql
from tests.program.ops.backup.support import TOKEN, Home, members_of, tree


def only_files(folder: Path) -> list[str]:
    """What lies directly in a folder, hidden files among them."""
    return sorted(path.name for path in folder.iterdir() if path.is_file() or path.name.startswith("."))


@pytest.mark.promise("P-backup-whole")
def test_everything_is_in_it_but_secrets_and_what_can_be_made_again(home: Home) -> None:
    (home.state / "logs").mkdir()
    (home.state / "logs" / "goclaw.log").write_text("a line")
    (home.state / "memory.db").write_bytes(b"an index")
    made = home.back_up()
    members = members_of(home.folder / "backup.tar.gz")
    picture = next(name for name in members if name.startswith("media/") and not name.endswith(".type"))
    assert sorted(members) == [
        "config.yaml",
        "goclaw.db",
        "manifest.json",
        picture,
        f"{picture}.type",
        "notes/telegram:5/tea.md",
        "users.json",
        "workspace/MEMORY.md",
    ]
    assert members[picture] == b"\x89PNG a picture"
    assert made.manifest.schema == json.loads(members["manifest.json"])["schema"]
    assert made.notes == []
    assert TOKEN not in str(members)


def test_the_file_is_private_and_nothing_else_is_left(home: Home) -> None:
    made = home.back_up()
    file = home.folder / "backup.tar.gz"
    assert file.stat().st_mode & 0o777 == 0o600
    assert made.size == file.stat().st_size
    assert only_files(home.folder) == ["backup.tar.gz"]


def test_secrets_come_along_when_they_are_asked_for(home: Home) -> None:
    home.configure(telegram={"token": TOKEN, "enabled": False})
    without, given = home.back_up("without.gz"), home.back_up("with.gz", secrets=True)
    assert without.manifest.config_without == ["telegram.token"]
    assert TOKEN.encode() not in members_of(home.folder / "without.gz")["config.yaml"]
    assert given.manifest.config_without == []
    members = members_of(home.folder / "with.gz")
    assert TOKEN.encode() in members["config.yaml"]
    assert members["secrets/telegram_token"] == TOKEN.encode()


def test_the_workspace_can_be_left_out(home: Home) -> None:
    home.back_up(workspace=False)
    assert not any(name.startswith("workspace") for name in members_of(home.folder / "backup.tar.gz"))


def test_a_workspace_that_was_never_made_is_no_hindrance(home: Home) -> None:
    shutil.rmtree(home.workspace)
    assert home.back_up().notes == []


def test_a_workspace_keeps_empty_folders_rights_links_and_odd_names(home: Home) -> None:
    (home.workspace / "run.sh").write_text("#!/bin/sh")
    (home.workspace / "run.sh").chmod(0o755)
    (home.workspace / "me").symlink_to("run.sh")
    (home.workspace / "folder").symlink_to("/etc")
    odd = os.fsencode(home.workspace) + b"/caf\xe9 \xf0\x9f\x98\x80"
    with open(odd, "wb") as file:  # noqa: PTH123 -- a name that is no text
        file.write(b"odd")
    home.back_up()
    into = home.folder / "out"
    into.mkdir()
    read_archive(home.folder / "backup.tar.gz", into)
    assert tree(into / "workspace") == tree(home.workspace)
    assert (into / "workspace" / "memory").is_dir()
    assert (into / "workspace" / "run.sh").stat().st_mode & 0o777 == 0o755


def test_pipes_and_what_may_not_be_read_are_named(home: Home) -> None:
    os.mkfifo(home.workspace / "pipe")
    made = home.back_up()
    assert made.notes == ["workspace/pipe: a pipe, a socket or a device"]


def test_a_link_put_in_the_place_of_a_file_is_not_followed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent may change the workspace between the look and the opening."""
    outside = home.folder / "private"
    outside.write_text("nobody's business")
    victim = home.workspace / "MEMORY.md"
    opened = os.open

    def swap_and_open(path: str, *arguments: int, **options: int) -> int:
        if path == "MEMORY.md":
            victim.unlink()
            victim.symlink_to(outside)
        return opened(path, *arguments, **options)

    monkeypatch.setattr("goclaw.program.ops.backup.collect.os.open", swap_and_open)
    made = home.back_up()
    assert "MEMORY.md" in made.notes[0]
    assert not any(b"nobody's business" in content for content in members_of(home.folder / "backup.tar.gz").values())


def test_own_workspaces_of_users_come_along_once(home: Home) -> None:
    for name in ("ann", "ann/inner"):
        (home.folder / name).mkdir()
        (home.folder / name / "note.md").write_text(name)
    home.add_users(
        {
            "telegram:5": {"workspace": str(home.folder / "ann")},
            "telegram:6": {"workspace": str(home.folder / "ann" / "inner")},
            "telegram:7": {"workspace": str(home.folder / "ann")},
            "telegram:8": {"workspace": str(home.folder)},
        }
    )
    made = home.back_up()
    names = sorted(name for name in made.manifest.members if name.startswith("workspaces/"))
    assert names == ["workspaces/1/inner/note.md", "workspaces/1/note.md"]
    assert made.manifest.own_workspaces == {"workspaces/1": "telegram:5"}
    # It would hold the state folder, and the daemon refuses it, too.
    assert "is inside the workspace" in made.notes[0]


def test_a_broken_users_file_is_kept_and_named(home: Home) -> None:
    (home.state / "users.json").write_text("{")
    made = home.back_up()
    assert members_of(home.folder / "backup.tar.gz")["users.json"] == b"{"
    assert "users.json" in made.notes[0] and "broken" in made.notes[0]


def test_missing_and_damaged_pictures_are_counted(home: Home) -> None:
    home.say("another", picture=b"\x89PNG another")
    first, second = (path for path in (home.state / "blobs" / "media").iterdir() if not path.suffix)
    first.unlink()
    second.write_bytes(b"rotten")
    assert home.back_up().notes[0].startswith("2 of 2 pictures")


def test_a_picture_that_is_no_longer_kept_is_not_missed(home: Home) -> None:
    home.write(sql("UPDATE sessions SET context_start = 1000"))
    for path in (home.state / "blobs" / "media").iterdir():
        path.unlink()
    assert home.back_up().notes == []
    assert not any(name.startswith("media/") for name in members_of(home.folder / "backup.tar.gz"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("state/backup.gz", "is inside the state folder"),
        ("state/workspace/backup.gz", "the agent could read"),
        ("nowhere/backup.gz", "no such folder"),
        ("state", "is a folder"),
    ],
)
def test_a_bad_place_is_refused(home: Home, name: str, words: str) -> None:
    with pytest.raises(StateError, match=words):
        home.back_up(name)


@pytest.mark.promise("P-backup-whole")
def test_a_file_that_exists_is_never_overwritten(home: Home) -> None:
    (home.folder / "backup.tar.gz").write_text("precious")
    with pytest.raises(StateError, match="never overwrites"):
        home.back_up()
    assert (home.folder / "backup.tar.gz").read_text() == "precious"


def test_a_file_that_appears_meanwhile_is_never_overwritten(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def make_it_first(path: Path) -> set[str]:
        (home.folder / "backup.tar.gz").write_text("precious")
        return set()

    monkeypatch.setattr("goclaw.program.ops.backup.collect.referred_media", make_it_first)
    with pytest.raises(StateError, match="another process has just created"):
        home.back_up()
    assert (home.folder / "backup.tar.gz").read_text() == "precious"
    assert only_files(home.folder) == ["backup.tar.gz"]


@pytest.mark.promise("P-backup-whole")
def test_a_disk_that_is_full_leaves_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("goclaw.program.ops.backup.archive.os.fsync", full)
    with pytest.raises(StateError, match=r"No space left on device\. Nothing was left behind"):
        home.back_up()
    assert only_files(home.folder) == []


def test_a_backup_that_cannot_be_read_back_is_not_kept(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def rotten(descriptor: int) -> None:
        os.pwrite(descriptor, b"\0" * 64, 2_000)

    monkeypatch.setattr("goclaw.program.ops.backup.archive.os.fsync", rotten)
    with pytest.raises(StateError, match="damaged"):
        home.back_up()
    assert only_files(home.folder) == []


def test_without_a_database_there_is_nothing_to_keep(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.state.mkdir()
    with pytest.raises(StateError, match="no database yet"):
        home.back_up()
    assert only_files(home.folder) == []


def test_a_place_without_links_gets_its_backup_too(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory stick knows no second names for a file."""

    def no_links(self: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    home.back_up()
    assert only_files(home.folder) == ["backup.tar.gz"]
    shutil.copy(home.folder / "backup.tar.gz", home.folder / "copy.gz")
    assert read_archive(home.folder / "copy.gz").schema
