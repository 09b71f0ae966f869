"""Vectors for every text, in the background: restarts, another model, a failing embedder, texts that come and go."""

import asyncio
import hashlib
import logging
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.supervise import background
from goclaw.memory.embedding import MAX_PAUSE, Embedding
from goclaw.memory.index import text_vectors
from goclaw.memory.index.database import BrokenIndex, IndexFile, open_index
from goclaw.memory.index.schema import Corpus, Scope
from goclaw.memory.index.text_vectors import Count, VectorModel
from goclaw.memory.similar import Similar
from goclaw.memory.vector_search import REPORT_SECONDS, SETTLE, TIDY_SECONDS, TRIES, Backfilling
from goclaw.testing import WordsEmbedder
from tests.memory.embedder_support import Rack, embedding_of, until

EVERYWHERE = Scope(((0, 1 << 40),), 1, 1)


@dataclass
class House:
    """An index that is being filled."""

    path: Path
    index: IndexFile
    similar: Similar
    embedding: Embedding
    filling: Backfilling
    clock: SteppedClock
    beside: list[str] = field(default_factory=list)

    async def add(self, *texts: str, corpus: Corpus = "note") -> None:
        """Texts at the next places, as a sweep writes them."""

        def write(connection: sqlite3.Connection) -> None:
            for text in texts:
                place = text_vectors.newest(connection, corpus) + 1
                key = hashlib.sha256(text.encode()).digest()
                statement = f"INSERT INTO {corpus}_units (first, last, sha256, text) VALUES (?, ?, ?, ?)"  # noqa: S608 - two names
                connection.execute(statement, (place, place, key, text))

        await self.index.write(write)

    async def near(self, query: str, model: str = "small") -> list[int]:
        """Places with something of the query in them."""
        [vector] = await WordsEmbedder(model).embed([query])
        await self.similar.follow()
        nearest = await self.similar.nearest(model, "note", vector, EVERYWHERE, 10) or ()
        return [first for first, _, cosine in nearest if cosine > 0]

    async def stored(self) -> int:
        def count(connection: sqlite3.Connection) -> int:
            [(number,)] = connection.execute("SELECT count(*) FROM vectors")
            return int(number)

        return await self.index.read(count)


@asynccontextmanager
async def house(tmp_path: Path, rack: Rack) -> AsyncIterator[House]:
    clock = SteppedClock()
    beside: list[str] = []

    @asynccontextmanager
    async def next_to(model: VectorModel) -> AsyncIterator[None]:
        beside.append(model.spec)
        yield

    async with open_index(tmp_path / "memory.db") as index, embedding_of(rack, clock) as embedding:
        similar = Similar(index)
        filling = Backfilling(index, embedding, similar, clock, next_to)
        async with background(filling.run(), "filling"), asyncio.timeout(10):
            yield House(tmp_path / "memory.db", index, similar, embedding, filling, clock, beside)


async def breath() -> None:
    """Let what was woken come to its next wait."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_every_text_gets_its_vector_and_new_ones_within_seconds(tmp_path: Path) -> None:
    embedder = WordsEmbedder("small", batch=2)
    async with house(tmp_path, Rack(small=embedder)) as home:
        await home.add("red tea", "green fence", "blue door")
        await until(lambda: home.filling.count == Count(3, 3), home.clock, SETTLE)
        assert await home.near("fence") == [2]
        assert max(map(len, embedder.asked)) == 2
        await home.add("a fence again")
        await until(lambda: home.filling.count == Count(4, 4), home.clock, SETTLE)
        assert sorted(await home.near("fence")) == [2, 4]
        assert sum(map(len, embedder.asked)) == 4


async def test_changes_that_go_on_are_waited_out(tmp_path: Path) -> None:
    embedder = WordsEmbedder("small")
    async with house(tmp_path, Rack(small=embedder)) as home:
        await until(lambda: home.clock.sleepers == 1)
        await home.add("a message")
        await breath()
        for number in range(3):
            await home.add(f"message {number}")
            home.clock.advance(SETTLE)
            await breath()
        assert embedder.asked == []
        home.clock.advance(SETTLE)
        await until(lambda: home.filling.count == Count(4, 4))
        assert len(embedder.asked) == 1


async def test_what_is_stored_stays_when_the_process_ends_in_the_middle(tmp_path: Path) -> None:
    embedder = WordsEmbedder("small", batch=1)
    async with house(tmp_path, Rack(small=embedder)) as home:
        await home.add("one")
        await until(lambda: home.filling.count == Count(1, 1), home.clock, SETTLE)
        embedder.answers.clear()
        await home.add("two", "three")
        await until(lambda: ("three",) in embedder.asked, home.clock, SETTLE)
        (tmp_path / "killed.db").write_bytes(b"")  # a copy as it is now, as kill -9 leaves it
        with closing(sqlite3.connect(home.path)) as now, closing(sqlite3.connect(tmp_path / "killed.db")) as copy:
            now.backup(copy)
    (tmp_path / "killed.db").rename(tmp_path / "memory.db")
    again = WordsEmbedder("small", batch=1)
    async with house(tmp_path, Rack(small=again)) as home:
        await until(lambda: home.filling.count == Count(3, 3), home.clock, SETTLE)
        assert again.asked == [("three",), ("two",)]
        assert await home.near("one") == [1]


async def test_another_model_is_built_beside_the_one_that_serves_and_takes_its_place_at_once(tmp_path: Path) -> None:
    async with house(tmp_path, Rack(small=WordsEmbedder("small"))) as home:
        await home.add("red tea", "green fence", "blue door")
        await until(lambda: home.filling.count == Count(3, 3), home.clock, SETTLE)
    large = WordsEmbedder("large", batch=1)
    large.answers.clear()
    async with house(tmp_path, Rack(large=large)) as home:
        await until(lambda: bool(large.asked))
        assert home.similar.model == "small"
        assert home.beside == ["fake:small"]
        assert await home.near("fence") == [2]
        large.answers.set()
        await until(lambda: home.similar.model == "large")
        assert await home.near("fence", "small") == []
        assert await home.near("fence", "large") == [2]
        while len(await home.index.read(text_vectors.models)) > 1:
            await breath()
        assert await home.stored() == 3
        assert await home.index.read(text_vectors.models) == [VectorModel("large", "fake:large", serving=True)]


async def test_a_text_that_no_model_can_bear_holds_up_no_other(tmp_path: Path) -> None:
    class Picky(WordsEmbedder):
        async def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[bytes]:
            self.trouble = "it choked" if "poison" in texts else ""
            return await super().embed(texts, query=query)

    async with house(tmp_path, Rack(small=Picky("small"))) as home:
        await home.add("one", "two", "poison", "three")
        await until(lambda: home.filling.count == Count(3, 4), home.clock, MAX_PAUSE)
        assert await home.near("two") == [2]


async def test_words_that_are_gone_leave_no_vector_and_are_not_found(tmp_path: Path) -> None:
    async with house(tmp_path, Rack(small=WordsEmbedder("small"))) as home:
        await home.add("red tea", "green fence")
        await until(lambda: home.filling.count == Count(2, 2), home.clock, SETTLE)
        await home.index.write(lambda connection: connection.execute("DELETE FROM note_units WHERE first = 2"))
        assert await home.near("fence") == []
        assert await home.near("tea") == [1]
        while await home.stored() > 1:
            home.clock.advance(TIDY_SECONDS)
            await breath()


async def test_the_index_that_is_made_anew_is_filled_anew(tmp_path: Path) -> None:
    embedder = WordsEmbedder("small")
    async with house(tmp_path, Rack(small=embedder)) as home:
        await home.add("red tea")
        await until(lambda: home.filling.count == Count(1, 1), home.clock, SETTLE)
        await home.index.rebuild(BrokenIndex("a test", home.index.generation))
        assert home.similar.model == ""
        await home.add("green fence")
        await until(lambda: home.similar.model == "small" and home.filling.count.embedded == 1, home.clock, SETTLE)
        assert await home.near("fence") == [1]


async def test_a_long_fill_says_how_far_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clocks: list[SteppedClock] = []

    class Slow(WordsEmbedder):
        async def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[bytes]:
            clocks[0].advance(REPORT_SECONDS)
            return await super().embed(texts, query=query)

    with caplog.at_level(logging.DEBUG, "goclaw.memory.vector_search"):
        async with house(tmp_path, Rack(small=Slow("small", batch=1))) as home:
            clocks.append(home.clock)
            await home.add("one", "two", "three")
            await until(lambda: len(caplog.messages) == 4, home.clock, SETTLE)
    assert caplog.messages[:3] == [f"{number} of 3 texts have vectors of small" for number in (0, 1, 2)]
    assert caplog.messages[3].startswith("3 of 3 texts have vectors of small, after")
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.DEBUG] + 3 * [logging.INFO], "three texts are worth no line before it takes a minute"


async def test_an_embedder_that_is_away_is_asked_again_later_and_nothing_is_lost(tmp_path: Path) -> None:
    embedder = WordsEmbedder("small")
    embedder.trouble = "the server is down"
    async with house(tmp_path, Rack(small=embedder)) as home:
        await home.add("one", "two")
        await until(lambda: len(embedder.asked) > TRIES, home.clock, MAX_PAUSE)
        assert home.embedding.trouble == "the server is down"
        embedder.trouble = ""
        await until(lambda: home.filling.count == Count(2, 2), home.clock, MAX_PAUSE)
