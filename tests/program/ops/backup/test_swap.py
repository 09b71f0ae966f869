"""Old or new, never something between: whenever the process is killed, and whoever comes next."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goclaw.program.ops.backup.swap import Move, aside_name, finish, fresh_name, is_ours, leftovers, pending, swap
from tests import house
from tests.lanes import repeats
from tests.program.ops.backup.support import tree

STAMP = "20261121T125000Z"


def moves(folder: Path) -> list[Move]:
    """A file and a folder that are replaced, one file that comes new, one that goes."""
    for name, content in {"file": "old", "folder/a": "old", "gone": "old"}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)
    for name in ("file", "folder", "new"):
        fresh = fresh_name(folder / name, STAMP)
        if name == "folder":
            fresh.mkdir()
            (fresh / "b").write_text("new")
        else:
            fresh.write_text("new")
    kept = [Move(folder / "gone", aside_name(folder / "gone", STAMP))]
    return [*kept, *(Move(path, aside_name(path, STAMP), fresh_name(path, STAMP)) for path in named(folder))]


def named(folder: Path) -> list[Path]:
    return [folder / name for name in ("file", "folder", "new")]


AFTER = {
    "file": b"new",
    f"file.before-restore-{STAMP}": b"old",
    "folder/b": b"new",
    f"folder.before-restore-{STAMP}/a": b"old",
    "new": b"new",
    f"gone.before-restore-{STAMP}": b"old",
}


def test_everything_changes_places(tmp_path: Path) -> None:
    swap(tmp_path, moves(tmp_path))
    assert tree(tmp_path) == AFTER
    assert not pending(tmp_path)


class Cut(Exception):
    """The power goes."""


@pytest.mark.parametrize("steps", range(7))
def test_a_swap_that_was_cut_is_finished_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    wanted, left = moves(tmp_path), steps

    def cut_after(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Path) -> Any:
            nonlocal left
            if left == 0:
                raise Cut
            left -= 1
            return original(*arguments)

        return call

    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "hardlink_to"):
            patch.setattr(Path, name, cut_after(getattr(Path, name)))
        with pytest.raises(Cut):
            swap(tmp_path, wanted)
    assert pending(tmp_path) == (steps > 0)
    if steps:
        finish(tmp_path)
        assert tree(tmp_path) == AFTER


def test_the_place_of_a_file_is_never_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that is missing for a moment would be another configuration."""
    wanted, seen = moves(tmp_path), list[bool]()
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        if target == tmp_path / "file":
            seen.append(target.exists())
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    swap(tmp_path, wanted)
    assert seen == [True]


def test_the_log_of_a_database_keeps_its_ending() -> None:
    assert aside_name(Path("/s/goclaw.db"), STAMP).name == f"goclaw.db.before-restore-{STAMP}"
    assert aside_name(Path("/s/goclaw.db-wal"), STAMP).name == f"goclaw.db.before-restore-{STAMP}-wal"
    assert is_ours(f"goclaw.db.before-restore-{STAMP}-shm")
    assert not is_ours("my.before-restore-notes.md")


def test_only_what_was_not_decided_is_left_over(tmp_path: Path) -> None:
    for name in (f"goclaw.db.restoring-{STAMP}", f"goclaw.db.before-restore-{STAMP}", "goclaw.db"):
        (tmp_path / name).touch()
    assert leftovers(tmp_path) == [tmp_path / f"goclaw.db.restoring-{STAMP}"]


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.promise("P-restore-whole")
def test_kill_9_at_any_change_of_the_disk_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    step = repeats(3, 1)
    command = [sys.executable, "-m", "tests.program.ops.backup.dying", str(tmp_path), str(step)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(house.ROOT)}
    done = subprocess.run(
        command, cwd=house.ROOT, env=environment, capture_output=True, text=True, timeout=55, check=False
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert len(lines) > 30 // step
    assert lines[-1] == "new ended"
    turn = lines.index("new")
    assert lines[:turn] == ["old"] * turn
    assert lines[turn:-1] == ["new"] * (len(lines) - turn - 1)
    assert turn < len(lines) - 5 // step, "no kill came between the decision and the end"
