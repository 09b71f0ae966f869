"""A file gets its name when it is whole, is its owner's alone, and takes nobody's place."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from goclaw.errors import StateError
from goclaw.program.cli.sessions import open_target


def write(path: Path, meanwhile: Callable[[], object]) -> None:
    with open_target(str(path)) as target:
        target.write("mine")
        meanwhile()


def test_the_file_is_whole_and_private(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    with open_target(str(path)) as target:
        target.write("one\n")
        assert not path.exists()
        target.write("zwölf\n")
    assert path.read_bytes() == "one\nzwölf\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_is_overwritten_not_even_what_came_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    with pytest.raises(StateError, match=r"out\.md: already exists"):
        write(path, meanwhile=lambda: path.write_text("theirs"))
    assert path.read_text() == "theirs"
    with pytest.raises(StateError, match="already exists"), open_target(str(path)):
        raise AssertionError("nothing is begun")
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_that_leads_nowhere_is_somebodys_too(tmp_path: Path) -> None:
    (tmp_path / "out.md").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StateError, match="already exists"), open_target(str(tmp_path / "out.md")):
        raise AssertionError("nothing is begun")


def test_what_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "out.md", meanwhile=lambda: 1 // 0)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"no/out\.md: cannot be written: No such file"):
        with open_target(str(tmp_path / "no" / "out.md")):
            raise AssertionError("nothing is begun")


def test_a_file_system_without_links_works_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = tmp_path / "out.md"
    with open_target(str(path)) as target:
        target.write("whole")
    assert path.read_text() == "whole" and list(tmp_path.iterdir()) == [path]
    two = tmp_path / "two.md"
    with pytest.raises(StateError, match="already exists"):
        write(two, meanwhile=lambda: two.write_text("theirs"))
    assert two.read_text() == "theirs"


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with open_target("-") as target:
        target.write("said\n")
    assert capsys.readouterr().out == "said\n"
