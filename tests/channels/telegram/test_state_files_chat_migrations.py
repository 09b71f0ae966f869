"""The memory of groups that became supergroups."""

import stat
from pathlib import Path

import pytest

from goclaw.channels.telegram.state_files import ChatMigrations


async def test_the_next_daemon_knows_where_a_group_went_and_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "moved.json"
    await ChatMigrations(path).remember(-5, -1005)
    moved = ChatMigrations(path)
    assert (moved.current(-5), moved.current(-1005), moved.current(-6)) == (-1005, -1005, -6)
    assert (moved.origin(-1005), moved.origin(-5), moved.origin(-6)) == (-5, -5, -6)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_group_may_move_again_and_hears_of_it_twice(tmp_path: Path) -> None:
    moved = ChatMigrations(tmp_path / "moved.json")
    for old, new in [(-1, -2), (-2, -3), (-1, -2), (-3, -1), (-2, -2)]:
        await moved.remember(old, new)
    assert (moved.current(-1), moved.origin(-3)) == (-3, -1)


@pytest.mark.parametrize(
    ("content", "current"),
    [
        (b"[1]", -1),
        (b'{"-1": "soon"}', -1),
        (b'{"-1": -2, "-2": -1}', -2),
        (b'{"-1": -1}', -1),
        (b'{"-9": -2, "-1": -2}', -1),
    ],
)
async def test_a_file_that_makes_no_sense_leads_nowhere(tmp_path: Path, content: bytes, current: int) -> None:
    (tmp_path / "moved.json").write_bytes(content)
    assert ChatMigrations(tmp_path / "moved.json").current(-1) == current


async def test_a_move_that_cannot_be_written_holds_for_now(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    moved = ChatMigrations(tmp_path / "missing" / "moved.json")
    await moved.remember(-1, -2)
    assert moved.current(-1) == -2
    assert "a restart forgets" in caplog.text
