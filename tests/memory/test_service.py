"""Memory over real files, a real index file and a fake embedder: what its users have of it."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import SteppedClock
from goclaw.common.workspace import Workspace
from goclaw.durable.store.reading import FeedRow, TranscriptFeed
from goclaw.errors import ToolError
from goclaw.memory.base import MemoryPort, MemoryStatus, NoteHit, TranscriptQuery
from goclaw.memory.chunks import Chunk, chunk_markdown
from goclaw.memory.embedding import DEADLINE, SLOW, Embedders
from goclaw.memory.file_indexer import DocumentText
from goclaw.memory.index import database
from goclaw.memory.index.database import BESIDE
from goclaw.memory.service import FRESH_SECONDS, START_AFTER, open_memory
from goclaw.memory.vector_search import SETTLE
from goclaw.testing import WordsEmbedder
from tests.memory.embedder_support import Rack, until

CARS = [("car", "vehicle", "automobile")]


@dataclass
class Transcripts(TranscriptFeed):
    """What was said, row by row: a `Feed`."""

    rows: list[FeedRow] = field(default_factory=list)
    word: asyncio.Event = field(default_factory=asyncio.Event)
    deletions: int = 0
    vectors: None = None

    def say(self, text: str, session: str = "tui:anna", sender: str = "tui:anna") -> None:
        row = len(self.rows) + 1
        self.rows.append(FeedRow(row, session, f"t{row}", "user", text, 1_750_000_000.0 + row, sender))
        self.word.set()

    async def after(self, row: int, *, many: bool = False) -> Sequence[FeedRow]:
        return self.rows[row : row + 100]

    async def extents(self) -> Mapping[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for each in self.rows:
            found[each.session] = (found.get(each.session, (each.row, 0))[0], each.row)
        return found

    async def end(self) -> int:
        return self.rows[-1].row if self.rows else 0

    async def time_of(self, row: int) -> float | None:
        return next((each.at for each in self.rows if each.row == row), None)

    async def news(self) -> None:
        await self.word.wait()
        self.word.clear()


@dataclass
class Home:
    """A memory with its workspace and its transcripts."""

    memory: MemoryPort
    workspace: Workspace
    said: Transcripts
    clock: SteppedClock
    index: Path

    def write(self, path: str, content: str, workspace: Workspace | None = None) -> Path:
        target = (workspace or self.workspace).on_disk(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        return target

    async def search(self, query: str, actor: str = "telegram:5", limit: int = 10) -> Sequence[NoteHit]:
        return (await self.memory.search(self.workspace, actor, query, limit)).hits

    async def found(self, query: str, actor: str = "telegram:5") -> list[str]:
        return [hit.path for hit in await self.search(query, actor)]

    async def mode(self, query: str) -> str:
        return (await self.memory.search(self.workspace, "telegram:5", query, 5)).mode

    async def heard(self, query: str, session: str = "tui:anna") -> list[str]:
        heard = await self.memory.search_transcripts(TranscriptQuery(query, [session]), 5)
        return [line.text for quote in heard.quotes for line in quote.lines if line.row == quote.row]

    async def embedded(self, texts: int) -> MemoryStatus:
        """Time passes until so many texts have their vectors."""
        async with asyncio.timeout(20):
            while True:
                status = await self.memory.status()
                if (status.embedded, status.to_embed, status.coming) == (texts, texts, ""):
                    return status
                self.clock.advance(SETTLE)
                await asyncio.sleep(0)


@asynccontextmanager
async def at_home(
    tmp_path: Path,
    rack: Rack | None = None,
    *,
    alone: bool = False,
    said: Transcripts | None = None,
    document_text: DocumentText | None = None,
    **settings: object,
) -> AsyncIterator[Home]:
    """Keyword arguments are keys of the section `memory`."""
    folder = tmp_path / "workspace"
    folder.mkdir(exist_ok=True)
    (tmp_path / "state").mkdir(exist_ok=True)
    config = Config.model_validate({"state_dir": tmp_path / "state", "workspace": folder, "memory": settings})
    rack, clock, said, index = rack or Rack(), SteppedClock(), said or Transcripts(), tmp_path / "state" / "memory.db"
    embedders = Embedders(rack.choose, rack.open)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(40))
        memory = await stack.enter_async_context(
            open_memory(index, config, clock, said, alone=alone, embedders=embedders, document_text=document_text)
        )
        workspace = await stack.enter_async_context(
            Workspace(folder, [tmp_path / "state"], notes=tmp_path / "state" / "notes")
        )
        yield Home(memory, workspace, said, clock, index)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """Without an embedder."""
    async with at_home(tmp_path) as home:
        yield home


@pytest.mark.promise("P-memory-own-notes")
async def test_a_note_is_found_as_soon_as_it_is_written_changed_or_removed(home: Home) -> None:
    assert await home.found("fence") == []
    note = home.write("memory/a.md", "the green fence")
    assert await home.found("fence") == ["memory/a.md"]
    note.write_text("the green tower")
    assert await home.found("fence") == []
    assert await home.found("tower") == ["memory/a.md"]
    note.unlink()
    assert await home.found("tower") == []
    assert await home.memory.files(home.workspace, "telegram:5") == []


@pytest.mark.promise("P-memory-own-notes")
async def test_notes_of_a_user_are_served_to_that_user_only(home: Home) -> None:
    home.write("memory/users/telegram:5/a.md", "the green fence")
    home.write("memory/users/telegram:55/b.md", "the green fence")
    home.write("memory/users/stray.md", "the green fence")
    home.write("memory/all.md", "the green fence")
    assert set(await home.found("fence", "telegram:5")) == {"memory/all.md", "memory/users/telegram:5/a.md"}
    assert set(await home.found("fence", "telegram:55")) == {"memory/all.md", "memory/users/telegram:55/b.md"}
    for stranger in ("", "telegram:6", "users", "%", "telegram:5/", "../telegram:5"):
        assert await home.found("fence", stranger) == ["memory/all.md"]
        listed = await home.memory.files(home.workspace, stranger)
        assert [file.path for file in listed] == ["memory/all.md"]


@pytest.mark.promise("P-memory-own-notes")
async def test_meaning_finds_nothing_of_others_either(tmp_path: Path) -> None:
    async with at_home(tmp_path, Rack(small=WordsEmbedder("small", CARS))) as home:
        home.write("memory/users/telegram:6/a.md", "my automobile")
        home.write("memory/all.md", "tea")
        assert await home.found("vehicle") == []
        await home.embedded(2)
        assert await home.mode("vehicle") == "hybrid"
        assert (await home.found("vehicle", "telegram:6"))[0] == "memory/users/telegram:6/a.md"
        assert "memory/users/telegram:6/a.md" not in await home.found("vehicle", "telegram:5")


async def test_two_workspaces_do_not_know_of_each_other(home: Home, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with Workspace(tmp_path / "other") as other:
        home.write("memory/a.md", "the green fence")
        home.write("memory/b.md", "the red fence", other)
        assert await home.found("fence") == ["memory/a.md"]
        found = await home.memory.search(other, "telegram:5", "fence", 5)
        assert [hit.path for hit in found.hits] == ["memory/b.md"]


async def test_a_synonym_is_found_once_texts_have_their_vectors(tmp_path: Path) -> None:
    async with at_home(tmp_path, Rack(small=WordsEmbedder("small", CARS))) as home:
        home.write("memory/a.md", "Anna bought a vehicle.")
        home.write("memory/b.md", "Bert drinks tea.")
        assert (await home.found("automobile"), await home.mode("automobile")) == ([], "keyword")
        status = await home.embedded(2)
        assert (status.embedder, status.trouble, status.files) == ("small", "", 2)
        assert await home.mode("automobile") == "hybrid"
        assert (await home.found("automobile"))[0] == "memory/a.md"


async def test_what_was_said_is_found_by_words_and_by_meaning(tmp_path: Path) -> None:
    async with at_home(tmp_path, Rack(small=WordsEmbedder("small", CARS))) as home:
        home.said.say("We take the automobile to Rome.")
        home.said.say("Nothing of the kind.", session="tui:ben", sender="tui:ben")
        assert await home.heard("Rome") == ["We take the automobile to Rome."]
        assert [talk.session for talk in await home.memory.talks()] == ["tui:anna", "tui:ben"]
        await home.embedded(2)
        assert await home.heard("vehicle") == ["We take the automobile to Rome."]
        heard = await home.memory.search_transcripts(
            TranscriptQuery("automobile to Rome", ["tui:anna"], phrase=True), 5
        )
        assert (heard.mode, len(heard.quotes)) == ("keyword", 1)


async def test_what_was_forgotten_is_in_no_file_of_the_index(tmp_path: Path) -> None:
    async with at_home(tmp_path, Rack(small=WordsEmbedder("small"))) as home:
        home.said.say("my secret hideout")
        home.said.say("other things", session="tui:ben")
        assert await home.heard("hideout") == ["my secret hideout"]
        await home.embedded(2)
        del home.said.rows[0]
        assert await home.memory.forget()
        assert await home.heard("hideout") == []
        for file in home.index.parent.iterdir():
            assert b"hideout" not in file.read_bytes()
        await home.embedded(1)


async def test_an_embedder_that_never_answers_still_gives_a_keyword_answer_and_is_named(tmp_path: Path) -> None:
    embedder = WordsEmbedder("small")
    async with at_home(tmp_path, Rack(small=embedder)) as home:
        home.write("memory/a.md", "the green fence")
        await home.found("fence")
        await home.embedded(1)
        embedder.answers.clear()
        search = asyncio.create_task(home.memory.search(home.workspace, "telegram:5", "fence", 5))
        await until(lambda: embedder.asked[-1] == ("fence",))
        for _ in range(3):
            await asyncio.sleep(0)
        home.clock.advance(DEADLINE)
        found = await search
        assert (found.mode, found.hits[0].path) == ("keyword", "memory/a.md")
        assert (await home.memory.status()).trouble == SLOW


async def test_searches_go_on_while_another_model_is_built_and_takes_over(tmp_path: Path) -> None:
    rack = Rack(small=WordsEmbedder("small", CARS), large=WordsEmbedder("large", CARS, batch=1))
    async with at_home(tmp_path, rack) as home:
        for number in range(20):
            home.write(f"memory/{number}.md", f"note {number} about a vehicle")
        await home.found("vehicle")
        await home.embedded(20)
    rack.wanted = "fake:large"
    async with at_home(tmp_path, rack) as home:
        modes = []
        while (await home.memory.status()).embedder != "large":
            found = await home.memory.search(home.workspace, "telegram:5", "automobile", 30)
            modes.append((found.mode, len(found.hits)))
            home.clock.advance(SETTLE)
        await home.embedded(20)
        assert await home.mode("automobile") == "hybrid"
    assert set(modes) <= {("keyword", 0), ("hybrid", 20)}
    assert rack.opened[-2:] == ["fake:large", "fake:small"]


async def test_a_search_goes_on_while_the_index_is_made_anew(tmp_path: Path) -> None:
    async with at_home(tmp_path, Rack(small=(embedder := WordsEmbedder("small")))) as home:
        home.said.say("a message about the fence")
        for number in range(30):
            home.write(f"memory/{number}.md", f"note {number} about the fence")
        assert len(await home.found("fence")) == 10
        await home.heard("fence")
        await home.embedded(31)
        asked = len(embedder.asked)
        with closing(sqlite3.connect(home.index)) as connection, connection:
            connection.execute("DELETE FROM note_passages WHERE rowid % 2")  # what a fault of ours could leave behind
        before = home.index.stat().st_ino
        await home.memory.reindex()
        while home.index.stat().st_ino == before:
            assert len(await home.heard("fence")) == 1
            home.clock.advance(1)
        await until(lambda: not home.index.with_name(home.index.name + BESIDE).exists())
        assert len(await home.search("fence", limit=50)) == 30
        assert len(await home.heard("fence")) == 1
        await home.embedded(31)
        texts = [text for call in embedder.asked[asked:] for text in call]
        assert set(texts) <= {"fence"}  # what was asked; the vectors of the texts were taken over


async def test_an_index_that_cannot_be_made_anew_serves_as_it_is(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.write("memory/a.md", "the green fence")
    assert await home.found("fence") == ["memory/a.md"]
    home.clock.advance(START_AFTER)
    home.workspace.root.rename(home.workspace.root.with_name("moved"))  # what is to be taken in is not there
    await home.memory.reindex()
    assert (await home.memory.status()).details
    await until(lambda: "could not be rebuilt" in caplog.text)
    assert (await home.memory.status()).details == ()
    assert (await home.memory.status()).files == 1
    assert not home.index.with_name(home.index.name + BESIDE).exists()


async def test_a_damaged_index_is_made_anew_in_the_middle_of_a_search(tmp_path: Path) -> None:
    async with at_home(tmp_path, Rack(small=WordsEmbedder("small"))) as home:
        home.said.say("a message about the fence")
        for number in range(40):
            home.write(f"memory/{number:03}.md", f"# Note {number}\n\nabout the fence\n" + f"filler {number} " * 100)
        await home.found("fence")
        await home.heard("fence")
        await home.embedded((await home.memory.status()).passages)
        with closing(sqlite3.connect(home.index)) as connection, connection:
            connection.execute("UPDATE note_words_data SET block = zeroblob(100) WHERE id > 10")
        found = await home.memory.search(home.workspace, "telegram:5", "fence", 5)
        assert found.mode == "keyword"
        assert found.hits
        assert home.index.with_name("memory.db.broken").exists()
        assert await home.heard("fence") == ["a message about the fence"]
        await home.embedded((await home.memory.status()).passages)
        assert await home.mode("fence") == "hybrid"


async def test_an_index_that_cannot_be_written_is_searched_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "BUSY_MS", 1)
    async with at_home(tmp_path) as home:
        home.write("memory/a.md", "the green fence")
        assert await home.found("fence") == ["memory/a.md"]
        home.write("memory/b.md", "another fence")
        with closing(sqlite3.connect(home.index)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert await home.found("fence") == ["memory/a.md"]
            other.rollback()
        assert "database is locked" in caplog.text
        assert set(await home.found("fence")) == {"memory/a.md", "memory/b.md"}


async def test_nothing_is_started_and_no_file_is_made_before_it_is_needed(tmp_path: Path) -> None:
    rack = Rack(small=WordsEmbedder("small"))
    async with at_home(tmp_path, rack) as home:
        await until(lambda: home.clock.sleepers == 1)
        assert (rack.opened, list(home.index.parent.iterdir())) == ([], [])
        home.write("MEMORY.md", "the green fence")
        home.clock.advance(START_AFTER)
        await home.embedded(1)


async def test_switched_off_it_has_no_index_and_says_so(tmp_path: Path) -> None:
    async with at_home(tmp_path, enabled=False) as home:
        home.write("memory/a.md", "the green fence")
        assert await home.found("fence") == []
        assert await home.memory.talks() == ()
        await home.memory.reindex()
        assert (await home.memory.status()).details == ("memory.enabled is false, so nothing is indexed or searched",)
        assert list(home.index.parent.iterdir()) == []


async def test_conversations_that_are_no_longer_to_be_searched_leave_the_index(tmp_path: Path) -> None:
    async with at_home(tmp_path) as home:
        home.said.say("my secret hideout")
        assert await home.heard("hideout") == ["my secret hideout"]
    async with at_home(tmp_path, transcripts=False) as home:
        home.clock.advance(START_AFTER)
        with pytest.raises(ToolError, match=r"memory\.transcripts"):
            await home.heard("hideout")
        await until(lambda: not any(b"hideout" in file.read_bytes() for file in home.index.parent.iterdir()))
        assert (await home.memory.status()).conversations == 0


async def test_a_single_command_uses_vectors_that_are_there_and_makes_none(tmp_path: Path) -> None:
    embedder = WordsEmbedder("small", CARS)
    async with at_home(tmp_path, Rack(small=embedder)) as home:
        home.write("memory/a.md", "a vehicle")
        await home.found("vehicle")
        await home.embedded(1)
    embedder.asked.clear()
    async with at_home(tmp_path, Rack(small=embedder), alone=True) as home:
        home.write("memory/b.md", "another one")
        assert await home.mode("automobile") == "hybrid"
        assert (await home.found("automobile"))[0] == "memory/a.md"
        assert set(embedder.asked) == {("automobile",)}
    rack = Rack(small=embedder)
    rack.wanted = ""
    async with at_home(tmp_path, rack, alone=True) as home:
        assert await home.mode("automobile") == "keyword"


async def test_many_searches_at_once_agree(home: Home) -> None:
    for number in range(120):
        home.write(f"memory/{number:03}.md", f"note {number} about the fence")
    async with asyncio.TaskGroup() as group:
        searches = [group.create_task(home.found("fence")) for _ in range(8)]
    assert all(len(search.result()) == 10 for search in searches)
    assert len(await home.memory.files(home.workspace, "")) == 120


async def test_a_search_that_is_cancelled_leaves_a_working_memory(home: Home) -> None:
    for number in range(200):
        home.write(f"memory/{number:03}.md", f"note {number} about the fence")
    for turns in (1, 5, 20, 60):
        search = asyncio.create_task(home.search("fence"))
        for _ in range(turns):
            await asyncio.sleep(0)
        search.cancel()
        await asyncio.gather(search, return_exceptions=True)
    assert len(await home.memory.files(home.workspace, "")) == 200
    assert len(await home.search("fence")) == 10


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
async def test_what_is_written_is_found(home: Home, text: str, query: str) -> None:
    home.write("memory/hit.md", text)
    for number in range(5):
        home.write(f"memory/{number}.md", "The cat sleeps on the sofa, purring.")
    assert (await home.found(query))[:1] == ["memory/hit.md"]


async def test_headings_and_the_day_in_a_files_name_are_found(home: Home) -> None:
    home.write("memory/2026-11-20.md", "Called the plumber.")
    home.write("memory/2026-11-21.md", "# Garden\n## Fence\nPainted it green.")
    assert await home.found("fence") == ["memory/2026-11-21.md"]
    assert (await home.found("2026-11-20"))[0] == "memory/2026-11-20.md"


async def test_scores_fall_from_one_and_stay_above_nought(home: Home) -> None:
    for number in range(8):
        home.write(f"memory/{number}.md", "fence " * (8 - number) + "filler " * 10 * number)
        home.write(f"memory/other{number}.md", "nothing of the kind")
    scores = [hit.score.score for hit in await home.search("fence")]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert 0 < scores[-1] < scores[1]


async def test_a_note_that_takes_long_is_waited_for_no_longer_than_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write("memory/a.md", "the green fence")
    assert await home.found("fence") == ["memory/a.md"]
    begun, go_on = threading.Event(), threading.Event()

    def slow(text: str) -> list[Chunk]:
        begun.set()
        assert go_on.wait(20)
        return chunk_markdown(text)

    monkeypatch.setattr("goclaw.memory.file_indexer.chunk_markdown", slow)
    home.write("memory/b.md", "another fence")
    try:
        asking = asyncio.create_task(home.found("fence"))
        assert await asyncio.to_thread(begun.wait, 20)
        home.clock.advance(FRESH_SECONDS)
        assert await asking == ["memory/a.md"]
    finally:
        go_on.set()
    assert sorted(await home.found("fence")) == ["memory/a.md", "memory/b.md"], "what was cut is done again"


@pytest.mark.parametrize("transcripts", [True, False])
async def test_words_in_what_is_left_of_other_indexes_go_with_the_conversations(
    tmp_path: Path, *, transcripts: bool
) -> None:
    """A damaged one that was set aside, and one that was not ready when its process was killed."""
    async with at_home(tmp_path, transcripts=transcripts) as home:
        left = [home.index.with_name(f"memory.db{end}") for end in (".broken", ".new", ".new-wal")]
        for file in left:
            file.write_text("my secret hideout")
        assert await home.memory.forget()
        assert not [file for file in left if file.exists()]
