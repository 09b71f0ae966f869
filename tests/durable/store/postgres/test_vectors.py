"""Vectors of what was said: made once for all gateways, and gone with what was said."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.config.values import PostgresPlace
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.messages import UserMessage
from goclaw.common.core.supervise import background, run_with_restarts
from goclaw.durable.store.forgetting import Forgetting, Retention
from goclaw.durable.store.postgres.database import PostgresDatabase, open_schema
from goclaw.durable.store.reading import TranscriptFeed
from goclaw.memory.base import MemoryPort, TranscriptQuery
from goclaw.memory.embedding import Embedders
from goclaw.memory.service import open_memory
from goclaw.memory.vector_search import SETTLE
from goclaw.testing import WordsEmbedder
from tests.acceptance.waiting import clock as real
from tests.durable.store.saying import Story
from tests.memory.embedder_support import Rack
from tests.parts import sql


@dataclass
class Gateway:
    """One gateway's store and memory, with an index and an embedder of its own."""

    database: PostgresDatabase
    memory: MemoryPort
    embedder: WordsEmbedder
    clock: SteppedClock

    @property
    def paid(self) -> list[str]:
        """The texts that its embedder was given, without questions."""
        return [text for texts in self.embedder.asked for text in texts]

    async def embedded(self, texts: int) -> None:
        """Let time pass until so many texts have their vectors."""
        async with asyncio.timeout(30):
            while (status := await self.memory.status()).embedded != texts or status.to_embed != texts:
                self.clock.advance(SETTLE)
                await real.sleep(0.01)

    async def heard(self, query: str, session: str) -> list[str]:
        found = await self.memory.search_transcripts(TranscriptQuery(query, [session]), 5)
        return [line.text for quote in found.quotes for line in quote.lines if line.row == quote.row]

    async def vectors(self) -> list[str]:
        rows = await self.database.read(sql("SELECT session FROM vectors ORDER BY session"))
        return [row["session"] for row in rows]


@asynccontextmanager
async def gateway(folder: Path, place: PostgresPlace) -> AsyncIterator[Gateway]:
    """As after a start, on what is in the folder."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    config = Config.model_validate({"state_dir": folder / "state", "workspace": folder / "work"})
    embedder, clock = WordsEmbedder("small"), SteppedClock()
    rack = Rack(small=embedder)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_schema(place, real))
        feed = TranscriptFeed(database)
        database.written, database.deleted = feed.wake, feed.on_deletion
        listening = run_with_restarts("notices", database.notices.run, real)
        await stack.enter_async_context(background(listening, "notices"))
        opening = open_memory(
            folder / "state" / "memory.db", config, clock, feed, embedders=Embedders(rack.choose, rack.open)
        )
        yield Gateway(database, await stack.enter_async_context(opening), embedder, clock)


@pytest.mark.promise("P-replicas-memory")
async def test_a_text_is_embedded_by_one_gateway_and_found_by_meaning_on_all(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with gateway(tmp_path / "one", place) as one:
        for number, text in enumerate(("the green fence", "a red kettle")):
            await Story(one.database).turn(f"s{number}", f"t{number}", 100.0, UserMessage(text))
        await one.embedded(2)
        assert sorted(one.paid) == sorted(dict.fromkeys(one.paid)) and len(one.paid) == 2
        async with gateway(tmp_path / "two", place) as two:
            await two.embedded(2)
            assert two.paid == []
            assert await two.heard("kettle", "s1") == ["a red kettle"]


@pytest.mark.promise("P-replicas-memory")
@pytest.mark.promise("P-forgotten")
async def test_what_one_gateway_forgets_is_gone_from_the_index_and_the_vectors_of_all(
    place: PostgresPlace, tmp_path: Path
) -> None:
    async with gateway(tmp_path / "one", place) as one, gateway(tmp_path / "two", place) as two:
        for session in ("gone", "kept"):
            await Story(one.database).turn(session, f"{session}:1", 100.0, UserMessage(f"{session} old lighthouse"))
        await Story(one.database).turn("kept", "kept:2", 900.0, UserMessage("kept young lighthouse"))
        await Story(one.database).sent()
        for each in (one, two):
            assert await each.heard("lighthouse", "gone") == ["gone old lighthouse"]
            await each.embedded(2)
        assert set(await one.vectors()) == {"gone", "kept"}
        await Forgetting(one.database).forget("gone", 1_000.0)
        assert set(await one.vectors()) == {"kept"}, "they go in the same transaction"
        async with asyncio.timeout(20):
            while await two.heard("lighthouse", "gone"):
                await real.sleep(0.01)
        await Retention(one.database, Forgetting(one.database)).prune("kept", 500.0, 1_000.0)
        assert await one.vectors() == []
        async with asyncio.timeout(20):
            while await two.heard("lighthouse", "kept") != ["kept young lighthouse"]:
                await real.sleep(0.01)


async def test_a_gateway_that_was_down_forgets_at_its_start(place: PostgresPlace, tmp_path: Path) -> None:
    async with gateway(tmp_path / "one", place) as one:
        async with gateway(tmp_path / "two", place) as two:
            await Story(one.database).turn("gone", "t", 100.0, UserMessage("an old lighthouse"))
            await Story(one.database).sent()
            assert await two.heard("lighthouse", "gone") == ["an old lighthouse"]
        await Forgetting(one.database).forget("gone", 1_000.0)
        async with gateway(tmp_path / "two", place) as two:
            assert await two.heard("lighthouse", "gone") == []


async def test_a_vector_that_comes_after_its_session_was_forgotten_is_not_kept(
    place: PostgresPlace,
) -> None:
    async with open_schema(place, real) as database:
        await Story(database).turn("s", "t", 100.0, UserMessage("a lighthouse"))
        await Story(database).sent()
        await database.vectors.store("m", [("s", b"1", b"vector")])
        assert await database.vectors.find("m", [b"1", b"2"]) == {b"1": b"vector"}
        assert await database.vectors.find("another", [b"1"]) == {}
        await Forgetting(database).forget("s", 1_000.0)
        await database.vectors.store("m", [("s", b"1", b"vector")])
        assert await database.vectors.find("m", [b"1"]) == {}
