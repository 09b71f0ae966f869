"""The labels of files, as the store keeps them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goclaw.durable.store.database import Database
from goclaw.durable.store.file_labels import MAX_FILES, WHOLE, FileLabels
from goclaw.durable.store.open import open_database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(tmp_path / "a.db") as opened:
        yield opened


@pytest.mark.promise("P-guard")
async def test_labels_are_kept_by_folder_and_path(database: Database) -> None:
    labels = FileLabels(database)
    assert dict(await labels.of("/w")) == {}
    await labels.add("/w", {"a.md": "1:1", "b.md": "2:2"})
    await labels.add("/w", {"a.md": "3:3"})
    await labels.add("/v", {"c.md": "4:4"})
    for each in (labels, FileLabels(database)):
        assert dict(await each.of("/w")) == {"a.md": "3:3", "b.md": "2:2"}
    await labels.remove("/w", "b.md", "unknown.md")
    for each in (labels, FileLabels(database)):
        assert dict(await each.of("/w")) == {"a.md": "3:3"}
        assert dict(await each.of("/v")) == {"c.md": "4:4"}


@pytest.mark.promise("P-guard")
async def test_a_folder_with_too_many_is_labelled_as_a_whole(database: Database) -> None:
    labels = FileLabels(database)
    await labels.add("/w", {f"{number}": "1:1" for number in range(MAX_FILES)})
    assert WHOLE not in await labels.of("/w")
    await labels.add("/w", {"one more": "1:1"})
    assert WHOLE in await FileLabels(database).of("/w")
