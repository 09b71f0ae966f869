"""Memory over a real workspace and a real index file."""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from goclaw.config.schema import MemorySettings
from goclaw.memory import service
from goclaw.memory.base import Hit
from goclaw.memory.service import LARGEST_FILE, Memory, open_memory
from goclaw.workspace import Entry, Opened, Workspace


@dataclass
class Notes:
    """A memory with its workspace."""

    memory: Memory
    workspace: Workspace
    database: Path

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.workspace.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    async def search(self, query: str, actor: str = "telegram:5", limit: int = 10) -> Sequence[Hit]:
        return (await self.memory.search(self.workspace, actor, query, limit)).hits

    async def found(self, query: str, actor: str = "telegram:5") -> list[str]:
        return [hit.path for hit in await self.search(query, actor)]

    async def files(self, actor: str = "telegram:5") -> list[str]:
        return [file.path for file in await self.memory.files(self.workspace, actor)]


@pytest.fixture
async def notes(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Notes]:
    """Parametrized indirectly: the configured `memory.paths`."""
    (tmp_path / "workspace").mkdir()
    settings = MemorySettings(paths=getattr(request, "param", ()))
    database = tmp_path / "memory.db"
    async with Workspace(tmp_path / "workspace") as workspace, open_memory(database, settings) as memory:
        yield Notes(memory, workspace, database)


async def test_memory_md_and_all_of_the_memory_folder_are_searched(notes: Notes) -> None:
    for path in ("MEMORY.md", "memory/a.md", "memory/deep/er/b.md"):
        notes.write(path, "the green fence")
    for path in ("README.md", "memory/a.txt", "memory/.hidden/c.md", "other/memory/d.md"):
        notes.write(path, "the green fence")
    assert await notes.found("fence") == ["MEMORY.md", "memory/a.md", "memory/deep/er/b.md"]
    assert await notes.files() == ["MEMORY.md", "memory/a.md", "memory/deep/er/b.md"]


@pytest.mark.parametrize("notes", [("docs", "todo.txt", "../outside", "/etc", "missing")], indirect=True)
async def test_configured_paths_are_searched_below_the_workspace(notes: Notes) -> None:
    for path in ("docs/a.md", "docs/deep/b.md", "todo.txt", "notes.txt", "docs/c.txt", "../outside/d.md"):
        notes.write(path, "the green fence")
    assert await notes.found("fence") == ["docs/a.md", "docs/deep/b.md", "todo.txt"]


@pytest.mark.promise("P-memory-own-notes")
async def test_a_note_is_found_as_soon_as_it_is_written_changed_or_removed(notes: Notes) -> None:
    assert await notes.found("fence") == []
    note = notes.write("memory/a.md", "the green fence")
    assert await notes.found("fence") == ["memory/a.md"]
    note.write_text("the green tower")
    assert await notes.found("fence") == []
    assert await notes.found("tower") == ["memory/a.md"]
    note.unlink()
    assert await notes.found("tower") == []
    assert await notes.files() == []


async def test_a_replacement_of_the_same_size_and_time_is_noticed(notes: Notes) -> None:
    note = notes.write("memory/a.md", "the green fence")
    os.utime(note, ns=(10**18, 10**18))
    assert await notes.found("fence") == ["memory/a.md"]
    other = notes.write("memory/new.tmp", "the green gates")
    os.utime(other, ns=(10**18, 10**18))
    other.replace(note)
    assert await notes.found("gates") == ["memory/a.md"]


async def test_an_unchanged_file_is_not_read_again(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    note = notes.write("memory/a.md", "the green fence")
    notes.write("memory/b.md", "the red door")
    await notes.search("fence")
    read = []
    use = notes.workspace.use

    async def counted(path: str, reader: Callable[[Opened], object]) -> object:
        read.append(path)
        return await use(path, reader)

    monkeypatch.setattr(notes.workspace, "use", counted)
    await notes.search("fence")
    assert read == []
    os.utime(note, (1, 1))
    [first, _] = await notes.memory.files(notes.workspace, "")
    assert read == ["memory/a.md"]
    assert first.modified == 1
    assert await notes.found("fence") == ["memory/a.md"]
    assert read == ["memory/a.md"]


@pytest.mark.promise("P-memory-own-notes")
async def test_notes_of_a_user_are_served_to_that_user_only(notes: Notes) -> None:
    notes.write("memory/users/telegram:5/a.md", "the green fence")
    notes.write("memory/users/telegram:55/b.md", "the green fence")
    notes.write("memory/users/stray.md", "the green fence")
    notes.write("memory/all.md", "the green fence")
    assert await notes.found("fence", "telegram:5") == ["memory/all.md", "memory/users/telegram:5/a.md"]
    assert await notes.found("fence", "telegram:55") == ["memory/all.md", "memory/users/telegram:55/b.md"]
    for stranger in ("", "telegram:6", "users", "%", "telegram:5/", "../telegram:5"):
        assert await notes.found("fence", stranger) == ["memory/all.md"]
        assert await notes.files(stranger) == ["memory/all.md"]


@pytest.mark.parametrize("notes", [("memory/users", ".")], indirect=True)
async def test_configured_paths_do_not_open_the_notes_of_others(notes: Notes) -> None:
    notes.write("memory/users/telegram:5/a.md", "the green fence")
    notes.write("memory/users/telegram:5/deep/b.md", "the green fence")
    assert await notes.found("fence", "telegram:6") == []


async def test_links_pipes_binaries_and_huge_files_are_skipped(
    notes: Notes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "secret.md").write_text("the green fence")
    notes.write("memory/users/telegram:6/own.md", "the green fence")
    folder = notes.write("memory/good.md", "the green fence").parent
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "peek.md").symlink_to("users/telegram:6/own.md")
    (folder / "everything").symlink_to("users/telegram:6", target_is_directory=True)
    os.mkfifo(folder / "pipe.md")
    notes.write("memory/latin.md", "der grüne fence".encode("latin-1"))
    with (folder / "huge.md").open("wb") as huge:
        huge.truncate(LARGEST_FILE + 1)
    async with asyncio.timeout(10):
        with caplog.at_level(logging.WARNING):
            assert await notes.found("fence") == ["memory/good.md"]
    assert sorted(vars(record)["path"] for record in caplog.records) == ["memory/huge.md", "memory/latin.md"]
    caplog.clear()
    assert await notes.found("fence") == ["memory/good.md"]
    assert caplog.records == []


async def test_a_link_that_takes_a_files_place_during_the_sweep_leads_nowhere(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.write("memory/users/telegram:6/own.md", "the green fence")
    note = notes.write("memory/a.md", "the green fence")
    walk = notes.workspace.walk

    async def walk_then_swap(patterns: Iterable[str], limit: int) -> list[Entry]:
        entries = await walk(patterns, limit)
        note.unlink(missing_ok=True)
        note.symlink_to("users/telegram:6/own.md")
        return entries

    monkeypatch.setattr(notes.workspace, "walk", walk_then_swap)
    assert await notes.found("fence", "telegram:5") == []


async def test_a_file_that_turns_into_no_text_is_forgotten(notes: Notes) -> None:
    note = notes.write("memory/a.md", "the green fence")
    assert await notes.found("fence") == ["memory/a.md"]
    note.write_bytes(b"fence \xff\xfe")
    assert await notes.found("fence") == []
    note.write_text("a fence again")
    assert await notes.found("fence") == ["memory/a.md"]


async def test_more_files_than_the_bound_are_left_out_with_one_warning(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "MOST_FILES", 3)
    for number in range(5):
        notes.write(f"memory/{number}.md", "the green fence")
    with caplog.at_level(logging.WARNING):
        assert await notes.found("fence") == ["memory/0.md", "memory/1.md", "memory/2.md"]
        await notes.search("fence")
    assert [record.message for record in caplog.records] == ["too many memory files, the rest is not searched"]


async def test_many_searches_at_once_agree(notes: Notes) -> None:
    for number in range(120):
        notes.write(f"memory/{number:03}.md", f"note {number} about the fence")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        searches = [group.create_task(notes.found("fence")) for _ in range(8)]
    assert all(len(search.result()) == 10 for search in searches)
    assert len(await notes.files()) == 120


async def test_a_search_that_is_cancelled_leaves_a_working_memory(notes: Notes) -> None:
    for number in range(200):
        notes.write(f"memory/{number:03}.md", f"note {number} about the fence")
    for turns in (1, 5, 20, 60):
        search = asyncio.create_task(notes.search("fence"))
        for _ in range(turns):
            await asyncio.sleep(0)
        search.cancel()
        await asyncio.gather(search, return_exceptions=True)
    async with asyncio.timeout(30):
        assert len(await notes.files()) == 200
        assert len(await notes.search("fence")) == 10


async def test_damage_found_while_running_is_mended(notes: Notes) -> None:
    for number in range(100):
        notes.write(f"memory/{number:03}.md", f"# Note {number}\n\nabout the fence\n" + f"filler {number} " * 200)
    await notes.search("fence")
    with closing(sqlite3.connect(notes.database)) as connection, connection:
        connection.execute("UPDATE chunk_words_data SET block = zeroblob(100) WHERE id > 10")
    assert len(await notes.search("fence")) == 10
    assert notes.database.with_name("memory.db.broken").exists()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("The deployments were rolled back.", "deployment"),
        ("Write to anna.smith@example.com.", "anna.smith@example.com"),
        ("See https://example.com/wiki/page?id=7", "https://example.com/wiki/page?id=7"),
        ("Version 2.31.4-rc1 is broken.", "2.31.4-rc1"),
        ("def get_user_name(): ...", "get_user_name"),
        ("calls HTTPServer.getUserName()", "UserName"),
        ("the authentication server", "auth"),
        ("我们讨论了认证和部署。", "认证"),
        ("我们讨论了认证和部署。", "昨天讨论了什么?"),
        ("京都でお茶を飲む", "お茶"),
        ("파이썬으로 만들었다", "파이썬"),
        ("ประชุมวันจันทร์", "วันจันทร์"),
        ("Party 🎉 at eight", "🎉"),
        ("Er wohnt in Köln.", "koln"),
        ("who are you", "who are you"),
        ("Budget: 40 €", "€"),
    ],
)
async def test_what_is_written_is_found(notes: Notes, text: str, query: str) -> None:
    notes.write("memory/hit.md", text)
    for number in range(5):
        notes.write(f"memory/{number}.md", "The cat sleeps on the sofa, purring.")
    assert (await notes.found(query))[:1] == ["memory/hit.md"]


async def test_headings_and_the_day_in_a_files_name_are_found(notes: Notes) -> None:
    notes.write("memory/2026-11-20.md", "Called the plumber.")
    notes.write("memory/2026-11-21.md", "# Garden\n## Fence\nPainted it green.")
    assert await notes.found("fence") == ["memory/2026-11-21.md"]
    assert (await notes.found("2026-11-20"))[0] == "memory/2026-11-20.md"


async def test_scores_fall_from_one_and_stay_above_nought(notes: Notes) -> None:
    for number in range(8):
        notes.write(f"memory/{number}.md", "fence " * (8 - number) + "filler " * 10 * number)
        notes.write(f"memory/other{number}.md", "nothing of the kind")
    scores = [hit.score.score for hit in await notes.search("fence")]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert 0 < scores[-1] < scores[1]
