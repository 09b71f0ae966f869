"""Memory that is switched off holds nothing, and keeps nothing of before when something is to be forgotten."""

from pathlib import Path

import pytest

from goclaw.memory.base import NoMemory


@pytest.mark.promise("P-forgotten")
async def test_an_index_of_before_goes_with_the_first_thing_that_is_forgotten(tmp_path: Path) -> None:
    def files() -> list[str]:
        return sorted(path.name for path in tmp_path.iterdir())

    for name in ("memory.db", "memory.db-wal", "memory.db.broken", "goclaw.db"):
        (tmp_path / name).write_bytes(b"secret")
    memory = NoMemory(tmp_path / "memory.db")
    assert len(files()) == 4
    assert await memory.forget() and await memory.forget()
    assert files() == ["goclaw.db"]
    assert await NoMemory().forget()
