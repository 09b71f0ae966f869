"""Files that are on disk whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from goclaw.common.core.files import FileLook, create_file, publish, replace_file


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_links(self: Path, target: Path) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def write_while_another_does(path: Path) -> None:
    with create_file(path) as file:
        file.write(b"ours")
        path.write_text("theirs")


@pytest.mark.parametrize("reuse", [False, True])
def test_a_file_is_replaced_and_closed_to_others(tmp_path: Path, reuse: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    replace_file(path, "né", reuse=reuse)
    assert path.read_text("utf-8") == "né" and mode(path) == 0o600
    replace_file(path, b"\xff", mode=0o640, reuse=reuse)
    assert path.read_bytes() == b"\xff" and mode(path) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("reuse", [False, True])
def test_what_was_there_stays_where_the_disk_is_full(
    tmp_path: Path, reuse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, "new", reuse=reuse)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    replace_file(path, "new", reuse=reuse, fsync=False)
    assert path.read_text() == "new"


def test_what_a_kill_left_is_written_over_by_the_only_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    (tmp_path / "a.json.new").write_text("a longer half")
    replace_file(path, "whole", reuse=True)
    assert path.read_text() == "whole" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_has_its_name_when_it_is_whole(tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    path = tmp_path / "a.md"
    with create_file(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_text() == "whole" and mode(path) == 0o600 and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_came_meanwhile_is_not_written_over(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    path = tmp_path / "a.md"
    with pytest.raises(FileExistsError):
        write_while_another_does(path)
    assert path.read_text() == "theirs" and list(tmp_path.iterdir()) == [path]


def test_a_finished_file_that_gets_no_name_stays_where_it_is(tmp_path: Path) -> None:
    finished, path = tmp_path / "finished", tmp_path / "a.md"
    finished.write_text("ours")
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        publish(finished, path)
    assert finished.read_text() == "ours" and path.is_symlink()


def test_a_file_is_read_twice_as_it_is_and_again_when_it_was_written_replaced_or_removed(tmp_path: Path) -> None:
    """Twice, because a second write within one tick of the file system's clock shows in nothing else."""
    path = tmp_path / "users.json"
    look = FileLook(path)

    def due() -> list[bool]:
        return [look.is_due() for _ in range(4)]

    known = [True, True, False, False]
    assert due() == known, "it is missing"
    path.write_text("one")
    assert due() == known, "it is there"
    os.utime(path, ns=(times := path.stat().st_atime_ns, times))
    path.write_text("two")
    os.utime(path, ns=(times, times))
    assert due() == known, "written with the same size and time"
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").replace(path)
    assert due() == known, "replaced"
    path.unlink()
    assert due() == known, "removed"
    look.forget()
    assert due() == known, "it could not be read"
