"""A small file that is written whole: how often, and what is in it then."""

import asyncio
import os
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from goclaw.channels.telegram.state_files import JsonFile, read_file
from goclaw.errors import DiskError

_NUMBERS: TypeAdapter[list[int]] = TypeAdapter(list[int])


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each flush; they are made as well."""
    real, calls = os.fsync, list[int]()

    def counted(descriptor: int) -> None:
        calls.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    return calls


async def test_values_that_wait_for_the_disk_are_written_with_the_latest_one(
    tmp_path: Path, flushed: list[int]
) -> None:
    path = tmp_path / "numbers.json"
    keeper = JsonFile(path, flush=True)
    await asyncio.gather(*(keeper.write([*range(count)]) for count in range(10)))
    assert read_file(path, _NUMBERS, []) == [*range(9)]
    assert len(flushed) == 2 * 2, "file and folder, for the first value and for all others"
    await keeper.write([])
    assert read_file(path, _NUMBERS, [1]) == []


async def test_a_value_that_must_survive_a_power_cut_is_flushed_whatever_was_written_with_others(
    tmp_path: Path, flushed: list[int]
) -> None:
    keeper = JsonFile(tmp_path / "numbers.json", flush=False)
    await asyncio.gather(keeper.write([1]), keeper.write([1, 2]), keeper.write([1, 2, 3], flush=True))
    assert len(flushed) == 2


async def test_each_value_that_the_disk_refuses_fails(tmp_path: Path) -> None:
    path = tmp_path / "numbers.json"
    keeper, obstacle = JsonFile(path, flush=True), tmp_path / "numbers.json.new"
    obstacle.mkdir()
    results = await asyncio.gather(keeper.write([1]), keeper.write([1, 2]), return_exceptions=True)
    assert [type(result) for result in results] == [DiskError, DiskError]
    obstacle.rmdir()
    await keeper.write([1, 2, 3])
    assert read_file(path, _NUMBERS, []) == [1, 2, 3]
