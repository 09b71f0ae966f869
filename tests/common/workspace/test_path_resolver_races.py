"""Names that are exchanged while they are used; the long form is `races`, by hand."""

import os
from pathlib import Path

import pytest

from goclaw.common.workspace import notes, path_resolver
from tests.common.workspace.races import Report, race
from tests.common.workspace.ways import WAYS, force

SWAPS = 60_000


@pytest.mark.promise("P-paths-inside")
@pytest.mark.promise("P-memory-own-notes")
@pytest.mark.parametrize("way", WAYS)
async def test_nothing_is_reached_by_being_quick(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    force(way, monkeypatch)

    report = await race(tmp_path, SWAPS)

    assert report.escapes == []
    assert report.done["read"] and report.refused["read"], "the race took place"


async def test_the_race_is_lost_without_the_check_of_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes.Notes, "shows", lambda *given: True)
    assert _kinds(await race(tmp_path, 5_000)) >= {"read"}


async def test_the_race_is_lost_where_paths_are_looked_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def naive(folder: int, path: str, flags: int, **options: bool) -> int:
        return os.open(path, flags & ~os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)

    monkeypatch.setattr(path_resolver, "open_beneath", naive)
    monkeypatch.setattr(
        path_resolver.PathResolver, "_chain", lambda *given: []
    )  # it would see that the folder is not below
    assert _kinds(await race(tmp_path, 20_000)) >= {"read"}


def _kinds(report: Report) -> set[str]:
    return {escape.partition(":")[0] for escape in report.escapes}
