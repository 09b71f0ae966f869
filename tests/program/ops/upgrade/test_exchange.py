"""Exchange of two folders in one system call."""

from pathlib import Path

import pytest

from goclaw.errors import StateError
from goclaw.program.ops.upgrade.exchange import check_exchange, exchange


def test_two_folders_exchange_their_places_with_all_that_is_in_them(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    exchange(one, other)
    assert [path.name for path in one.iterdir()] == ["other"]
    assert [path.name for path in other.iterdir()] == ["one"]


def test_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    one = tmp_path / "one"
    one.mkdir()
    with pytest.raises(FileNotFoundError):
        exchange(one, tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_a_trial_of_the_exchange_leaves_nothing(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "a" / "other"
    other.parent.mkdir()
    check_exchange(one, other)
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_places_that_cannot_be_exchanged_are_refused_with_the_way_by_hand(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"goclaw backup FILE.*installed this one"):
        check_exchange(Path("/proc/self/here"), tmp_path / "other")
