"""The index file: made, kept, made anew."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from goclaw.errors import StateError
from goclaw.memory.chunks import Chunk
from goclaw.memory.index import SCHEMA_VERSION, SET_ASIDE, Document, Version, open_index

NOTE = Document(
    "memory/note.md", Version(1.5, 7, 9), "abc", 2, [(Chunk(1, 2, "Garden", "The fence is green."), "note")]
)


async def test_what_was_put_is_found_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with open_index(path) as index:
        await index.put("/w", [NOTE])
    async with open_index(path) as index:
        [hit] = await index.search("/w", "", '"fences"', 5)
        assert (hit.path, hit.start, hit.end, hit.heading, hit.score.score) == ("memory/note.md", 1, 2, "Garden", 1.0)
        assert await index.versions("/w") == {"memory/note.md": (Version(1.5, 7, 9), "abc")}


async def test_a_replaced_file_leaves_nothing_behind(tmp_path: Path) -> None:
    async with open_index(tmp_path / "memory.db") as index:
        await index.put("/w", [NOTE])
        await index.put("/w", [Document(NOTE.path, NOTE.version, "def", 1, [(Chunk(1, 1, "", "A red door."), "")])])
        assert await index.search("/w", "", '"fence"', 5) == []
        assert [hit.text for hit in await index.search("/w", "", '"door"', 5)] == ["A red door."]


async def test_a_removed_file_is_forgotten(tmp_path: Path) -> None:
    async with open_index(tmp_path / "memory.db") as index:
        await index.put("/w", [NOTE])
        await index.remove("/w", [NOTE.path])
        assert await index.search("/w", "", '"fence"', 5) == []
        assert await index.files("/w", "") == []


async def test_workspaces_do_not_mix(tmp_path: Path) -> None:
    async with open_index(tmp_path / "memory.db") as index:
        await index.put("/w", [NOTE])
        assert await index.search("/other", "", '"fence"', 5) == []
        assert await index.files("/other", "") == []
        await index.remove("/other", [NOTE.path])
        assert len(await index.search("/w", "", '"fence"', 5)) == 1


async def test_a_failed_put_changes_nothing(tmp_path: Path) -> None:
    async with open_index(tmp_path / "memory.db") as index:
        await index.put("/w", [NOTE])
        with pytest.raises(StateError):
            await index.put("/w", [NOTE, NOTE])
        assert len(await index.search("/w", "", '"fence"', 5)) == 1
        await index.put("/w", [NOTE])


async def test_hidden_passages_do_not_use_up_the_limit(tmp_path: Path) -> None:
    others = [
        Document(f"memory/users/telegram:6/{number}.md", Version(1, number, 1), "x", 1, NOTE.chunks)
        for number in range(20)
    ]
    async with open_index(tmp_path / "memory.db") as index:
        await index.put("/w", [*others, Document("memory/z.md", Version(1, 99, 1), "x", 1, NOTE.chunks)])
        assert [hit.path for hit in await index.search("/w", "telegram:5", '"fence"', 3)] == ["memory/z.md"]


@pytest.mark.parametrize("content", [b"this is no database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 8_000])
async def test_a_broken_file_is_set_aside_and_made_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(content)
    async with open_index(path) as index:
        await index.put("/w", [NOTE])
        assert len(await index.search("/w", "", '"fence"', 5)) == 1
    assert (tmp_path / f"memory.db{SET_ASIDE}").read_bytes() == content


async def test_an_index_of_another_version_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with open_index(path) as index:
        await index.put("/w", [NOTE])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    async with open_index(path) as index:
        assert await index.files("/w", "") == []
        await index.put("/w", [NOTE])
    assert not (tmp_path / f"memory.db{SET_ASIDE}").exists()


async def test_a_file_that_cannot_be_made_is_an_error_in_words(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="memory index cannot be used"):
        async with open_index(tmp_path / "missing" / "memory.db"):
            pass
