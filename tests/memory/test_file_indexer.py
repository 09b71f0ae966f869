"""Sweeping a real workspace into a real index file."""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from goclaw.common.config.schema import MemorySettings
from goclaw.common.core.clock import SteppedClock
from goclaw.common.workspace import GlobMatch, Workspace
from goclaw.memory import file_indexer
from goclaw.memory.file_indexer import MAX_FILE, MAX_LINES, FileIndexer, name_of
from goclaw.memory.index import notes
from goclaw.memory.index.database import BrokenIndex, IndexFile, open_index


@dataclass
class Swept:
    """A workspace with its sweeper."""

    workspace: Workspace
    index: IndexFile
    sweeper: FileIndexer
    clock: SteppedClock

    def write(self, path: str, content: str | bytes = "the green fence") -> Path:
        target = self.workspace.on_disk(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    async def sweep(self) -> None:
        async with asyncio.timeout(30):
            await self.sweeper.sweep(self.workspace)

    async def files(self, actor: str = "telegram:5") -> list[str]:
        """What is listed for an actor after a sweep."""
        await self.sweep()
        name = name_of(self.workspace)
        return [file.path for file in await self.index.read(lambda corpus: notes.files(corpus, name, actor))]

    async def texts(self, path: str) -> list[str]:
        """What the index has of a file after a sweep."""
        await self.sweep()
        rows = await self.index.read(
            lambda corpus: corpus.execute(
                "SELECT text FROM note_passages JOIN note_documents ON id = place >> 24 WHERE path = ? ORDER BY place",
                (path,),
            ).fetchall()
        )
        return [text for (text,) in rows]


@pytest.fixture
async def swept(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Swept]:
    """Parametrized indirectly: the configured `memory.paths`."""
    (tmp_path / "workspace").mkdir()
    settings = MemorySettings(paths=getattr(request, "param", ()))
    async with (
        Workspace(tmp_path / "workspace", notes=tmp_path / "notes") as workspace,
        open_index(tmp_path / "memory.db") as index,
    ):
        clock = SteppedClock()
        yield Swept(workspace, index, FileIndexer(index, settings, clock), clock)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that are read, as they are."""
    paths: list[str] = []
    use_each = Workspace.use_each

    async def counted(self: Workspace, readers: Mapping[str, Any]) -> list[Any]:
        paths.extend(readers)
        return await use_each(self, readers)

    monkeypatch.setattr(Workspace, "use_each", counted)
    return paths


async def test_memory_md_and_all_of_the_memory_folder_are_swept(swept: Swept) -> None:
    for path in ("MEMORY.md", "memory/a.md", "memory/deep/er/b.md"):
        swept.write(path)
    for path in ("README.md", "memory/a.txt", "memory/.hidden/c.md", "other/memory/d.md"):
        swept.write(path)
    assert await swept.files() == ["MEMORY.md", "memory/a.md", "memory/deep/er/b.md"]


@pytest.mark.parametrize("swept", [("docs", "todo.txt", "../outside", "/etc", "missing")], indirect=True)
async def test_configured_paths_are_swept_below_the_workspace(swept: Swept) -> None:
    for path in ("docs/a.md", "docs/deep/b.md", "todo.txt", "notes.txt", "docs/c.txt", "../outside/d.md"):
        swept.write(path)
    assert await swept.files() == ["docs/a.md", "docs/deep/b.md", "todo.txt"]


@pytest.mark.promise("P-memory-own-notes")
async def test_what_was_written_changed_or_removed_is_seen_by_the_next_sweep(swept: Swept) -> None:
    assert await swept.files() == []
    note = swept.write("memory/a.md")
    assert await swept.texts("memory/a.md") == ["the green fence"]
    note.write_text("the green towers")
    assert await swept.texts("memory/a.md") == ["the green towers"]
    note.unlink()
    assert await swept.files() == []


async def test_a_replacement_of_the_same_size_and_time_is_noticed(swept: Swept) -> None:
    note = swept.write("memory/a.md", "the green fence")
    os.utime(note, ns=(10**18, 10**18))
    assert await swept.texts("memory/a.md") == ["the green fence"]
    other = swept.write("memory/new.tmp", "the green gates")
    os.utime(other, ns=(10**18, 10**18))
    other.replace(note)
    assert await swept.texts("memory/a.md") == ["the green gates"]


async def test_a_change_within_one_tick_of_the_file_clock_is_noticed(swept: Swept) -> None:
    note = swept.write("memory/a.md", "the green fence")
    now = (int(swept.clock.now()), int(swept.clock.now()))
    os.utime(note, now)
    await swept.sweep()
    note.write_text("the green gates")
    os.utime(note, now)
    assert await swept.texts("memory/a.md") == ["the green gates"]


async def test_an_unchanged_file_is_not_read_again(swept: Swept, read: list[str]) -> None:
    note = swept.write("memory/a.md")
    swept.write("memory/b.md", "the red door")
    await swept.sweep()
    read.clear()
    await swept.sweep()
    assert read == []
    os.utime(note, (1, 1))
    await swept.sweep()
    await swept.sweep()
    assert read == ["memory/a.md"]
    assert await swept.texts("memory/a.md") == ["the green fence"]
    [first, _] = await swept.index.read(lambda corpus: notes.files(corpus, name_of(swept.workspace), ""))
    assert first.modified == 1


async def test_another_daemon_goes_on_with_what_was_swept(swept: Swept, read: list[str]) -> None:
    swept.write("memory/a.md")
    await swept.sweep()
    read.clear()
    await FileIndexer(swept.index, MemorySettings(), swept.clock).fresh(swept.workspace)
    assert read == []


@pytest.mark.promise("P-memory-own-notes")
async def test_notes_of_a_user_are_that_users_only(swept: Swept) -> None:
    for path in ("users/telegram:5/a", "users/telegram:55/b", "users/stray", "all"):
        swept.write(f"memory/{path}.md")
    assert await swept.files("telegram:5") == ["memory/all.md", "memory/users/telegram:5/a.md"]
    assert await swept.files("telegram:55") == ["memory/all.md", "memory/users/telegram:55/b.md"]
    for stranger in ("", "telegram:6", "users", "%", "telegram:5/", "../telegram:5"):
        assert await swept.files(stranger) == ["memory/all.md"]


@pytest.mark.parametrize("swept", [("memory/users", ".")], indirect=True)
async def test_configured_paths_do_not_open_the_notes_of_others(swept: Swept) -> None:
    swept.write("memory/users/telegram:5/a.md")
    swept.write("memory/users/telegram:5/deep/b.md")
    assert await swept.files("telegram:6") == []


async def test_links_pipes_binaries_and_huge_files_are_left_out_and_told_once(
    swept: Swept, tmp_path: Path, caplog: pytest.LogCaptureFixture, read: list[str]
) -> None:
    (tmp_path / "secret.md").write_text("the green fence")
    swept.write("memory/users/telegram:6/own.md")
    folder = swept.write("memory/good.md").parent
    (folder / "out.md").symlink_to(tmp_path / "secret.md")
    (folder / "peek.md").symlink_to("users/telegram:6/own.md")
    (folder / "everything").symlink_to("users/telegram:6", target_is_directory=True)
    os.mkfifo(folder / "pipe.md")
    swept.write("memory/latin.md", "der grüne fence".encode("latin-1"))
    swept.write("memory/zeros.md", b"fence \0\0\0")
    swept.write("memory/lines.md", "\n" * (MAX_LINES + 1))
    with (folder / "huge.md").open("wb") as huge:
        huge.truncate(MAX_FILE + 1)
    with caplog.at_level(logging.WARNING):
        assert await swept.files() == ["memory/good.md"]
    told = {vars(record)["path"]: vars(record)["why"] for record in caplog.records}
    assert told == {
        "memory/huge.md": "it has 5242881 bytes, the limit is 5242880",
        "memory/latin.md": "it is not UTF-8: invalid start byte at byte 6",
        "memory/zeros.md": "it is binary: it has zero bytes",
        "memory/lines.md": "it has 100001 lines, the limit is 100000",
    }
    caplog.clear()
    read.clear()
    assert await swept.files() == ["memory/good.md"]
    assert (caplog.records, read) == ([], [])


async def test_a_file_that_cannot_be_read_now_is_tried_again_and_told_once(
    swept: Swept, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept.write("memory/a.md")
    refused = file_indexer._read_file

    def refuse(*arguments: Any, **named: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(file_indexer, "_read_file", refuse)
    with caplog.at_level(logging.WARNING):
        assert await swept.files() == await swept.files() == []
    assert len(caplog.records) == 1
    monkeypatch.setattr(file_indexer, "_read_file", refused)
    assert await swept.files() == ["memory/a.md"]


@pytest.mark.promise("P-memory-own-notes")
@pytest.mark.parametrize("target", ["users/telegram:6/own.md", "../private.txt"])
async def test_a_link_that_takes_a_files_place_during_the_sweep_leads_nowhere(
    swept: Swept, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    swept.write("memory/users/telegram:6/own.md")
    swept.write("private.txt")
    note = swept.write("memory/a.md")
    walk = Workspace.walk

    async def walk_then_swap(self: Workspace, patterns: Iterable[str], limit: int) -> list[GlobMatch]:
        entries = await walk(self, patterns, limit)
        note.unlink(missing_ok=True)
        note.symlink_to(target)
        return entries

    monkeypatch.setattr(Workspace, "walk", walk_then_swap)
    assert await swept.files("telegram:5") == []


async def test_a_file_that_is_replaced_or_goes_while_it_is_read_is_seen_as_it_is_then(
    swept: Swept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    swept.write("memory/a.md", "old")
    gone = swept.write("memory/gone.md")
    walk = Workspace.walk

    async def walk_then_replace(self: Workspace, patterns: Iterable[str], limit: int) -> list[GlobMatch]:
        entries = await walk(self, patterns, limit)
        if gone.exists():
            swept.write("memory/a.tmp", "new").replace(gone.with_name("a.md"))
            gone.unlink()
        return entries

    monkeypatch.setattr(Workspace, "walk", walk_then_replace)
    with caplog.at_level(logging.WARNING):
        assert await swept.texts("memory/a.md") == ["new"]
    assert caplog.records == []
    assert await swept.files() == ["memory/a.md"]


async def test_a_file_that_turns_into_no_text_is_forgotten(swept: Swept) -> None:
    note = swept.write("memory/a.md")
    assert await swept.files() == ["memory/a.md"]
    note.write_bytes(b"fence \xff\xfe")
    assert await swept.files() == []
    note.write_text("a fence again")
    assert await swept.files() == ["memory/a.md"]


async def test_more_files_than_the_bound_are_left_out_with_one_warning(
    swept: Swept, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(file_indexer, "MAX_FILES", 3)
    for number in range(5):
        swept.write(f"memory/{number}.md")
    with caplog.at_level(logging.WARNING):
        assert await swept.files() == ["memory/0.md", "memory/1.md", "memory/2.md"]
        await swept.sweep()
    assert [record.message for record in caplog.records] == ["too many memory files, the rest is not searched"]


async def test_a_large_file_is_whole_in_the_index(swept: Swept) -> None:
    swept.write("memory/large.md", "\n\n".join(f"# Room {number}\n\nIt is green." for number in range(1_000)))
    assert len(await swept.texts("memory/large.md")) == 1_000
    swept.write("memory/large.md", "# Hall\n\nIt is red.")
    assert await swept.texts("memory/large.md") == ["It is red."]


async def test_callers_that_come_while_one_sweeps_share_one_that_begins_later(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks, begun, go_on = 0, asyncio.Event(), asyncio.Event()
    walk = Workspace.walk

    async def counted(self: Workspace, patterns: Iterable[str], limit: int) -> list[GlobMatch]:
        nonlocal walks
        walks += 1
        entries = await walk(self, patterns, limit)
        begun.set()
        await go_on.wait()
        return entries

    monkeypatch.setattr(Workspace, "walk", counted)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(swept.sweep())
        await begun.wait()
        swept.write("memory/late.md")  # the one under way may be past it
        for _ in range(5):
            group.create_task(swept.sweep())
        await asyncio.sleep(0)
        go_on.set()
    assert walks == 2
    monkeypatch.undo()
    name = name_of(swept.workspace)
    assert [file.path for file in await swept.index.read(lambda corpus: notes.files(corpus, name, ""))] == [
        "memory/late.md"
    ]


async def test_a_sweep_that_is_cancelled_leaves_the_rest_to_the_next(swept: Swept) -> None:
    for number in range(200):
        swept.write(f"memory/{number:03}.md", f"note {number} about the fence")
    for turns in (1, 5, 20, 60):
        sweep = asyncio.create_task(swept.sweep())
        for _ in range(turns):
            await asyncio.sleep(0)
        sweep.cancel()
        await asyncio.gather(sweep, return_exceptions=True)
    assert len(await swept.files()) == 200


async def test_a_few_files_are_swept_before_each_search_many_only_when_something_changed(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_indexer, "SWEPT_AT_ONCE", 1)

    async def fresh() -> int:
        await swept.sweeper.fresh(swept.workspace)
        return len(await swept.index.read(lambda corpus: notes.versions(corpus, name_of(swept.workspace))))

    swept.write("memory/a.md")
    assert await fresh() == 1
    swept.write("memory/b.md")
    assert await fresh() == 2  # one was known
    swept.write("memory/c.md")
    assert await fresh() == 2
    swept.sweeper.on_change(swept.workspace)
    assert await fresh() == 3
    await swept.index.rebuild(BrokenIndex("the test says so", swept.index.generation))
    assert await fresh() == 3


async def test_a_damaged_index_is_told_and_filled_again_when_it_is_made_anew(swept: Swept, tmp_path: Path) -> None:
    for number in range(100):
        swept.write(f"memory/{number:03}.md", f"# Note {number}\n\nabout the fence\n" + f"filler {number} " * 200)
    await swept.sweep()

    def damage() -> None:
        with closing(sqlite3.connect(tmp_path / "memory.db")) as connection, connection:
            connection.execute("DELETE FROM note_words_data")

    await asyncio.to_thread(damage)
    swept.write("memory/000.md", "changed")
    with pytest.raises(BrokenIndex):
        await swept.sweep()
    await swept.index.rebuild(BrokenIndex("the test says so", swept.index.generation))
    assert len(await swept.files()) == 100
