"""How much memory is free, as Linux tells it."""

from pathlib import Path

import pytest

from goclaw.common.health.resources import MEMINFO, free_memory

TABLE = "MemTotal:       16314520 kB\nMemFree:          812416 kB\nMemAvailable:    9876544 kB\nBuffers: 1 kB\n"


def test_what_programs_can_still_have_is_free(tmp_path: Path) -> None:
    table = tmp_path / "meminfo"
    table.write_text(TABLE)
    assert free_memory(table) == 9_876_544 * 1_024


@pytest.mark.parametrize(
    "text", ["", "MemTotal: 1 kB\n", "MemAvailable:\n", "MemAvailable: lots\n", "MemAvailable: ü\n"]
)
def test_a_table_that_does_not_tell_is_no_number(tmp_path: Path, text: str) -> None:
    table = tmp_path / "meminfo"
    table.write_text(text, "latin-1")
    assert free_memory(table) is None


def test_a_system_without_the_table_does_not_tell(tmp_path: Path) -> None:
    assert free_memory(tmp_path / "nothing") is None


@pytest.mark.skipif(not MEMINFO.exists(), reason="this system has no /proc/meminfo")
def test_this_machine_tells() -> None:
    assert (free_memory() or 0) > 1 << 20
