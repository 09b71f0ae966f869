"""The embedder as memory has it: who waits for it, for how long, and what an embedder in trouble costs."""

import asyncio
from collections.abc import Callable

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.errors import EmbeddingError
from goclaw.memory.embedders.base import quantise
from goclaw.memory.embedding import DEADLINE, FIRST_PAUSE, LOOK_AGAIN, SLOW, Embedding
from goclaw.testing import WordsEmbedder
from tests.memory.embedder_support import Rack, embedding_of, until


def nearness(one: bytes, other: bytes) -> float:
    """Zero: nothing in common."""
    pairs = zip(one, other, strict=True)
    return sum((a - 256 * (a > 127)) * (b - 256 * (b > 127)) for a, b in pairs) / (127 * 127)


async def test_texts_with_the_same_or_declared_words_are_near_each_other() -> None:
    embedder = WordsEmbedder(synonyms=[("car", "vehicle")])
    car, vehicle, tea = await embedder.embed(["a red car", "a red vehicle", "tea"])
    assert car == vehicle
    assert nearness(car, tea) == 0
    assert car == (await WordsEmbedder(synonyms=[("car", "vehicle")]).embed(["a red car"]))[0]
    assert len(quantise([0.0, 1.0])) == 2


async def test_a_query_gets_its_vector_from_the_embedder_that_was_found() -> None:
    rack = Rack(small=WordsEmbedder("small"))
    async with asyncio.timeout(5), embedding_of(rack, SteppedClock()) as embedding:
        assert await embedding.query("tea") == (await WordsEmbedder("small").embed(["tea"]))[0]
        assert (embedding.name, embedding.spec, embedding.trouble) == ("small", "fake:small", "")


async def test_nothing_that_looks_like_a_secret_is_given_to_an_embedder() -> None:
    embedder, key = WordsEmbedder(), "sk-" + "a1B2c3D4" * 4
    async with asyncio.timeout(5), embedding_of(Rack(theirs=embedder), SteppedClock()) as embedding:
        await embedding.query(f"what is {key} for")
        await embedding.embed([f"tea with {key}"])
    assert embedder.asked == [("what is [secret] for",), ("tea with [secret]",)]


async def test_that_there_is_no_embedder_is_no_trouble_and_it_is_looked_for_again() -> None:
    rack, clock = Rack(), SteppedClock()
    async with asyncio.timeout(5), embedding_of(rack, clock) as embedding:
        assert await embedding.query("tea") is None
        assert embedding.trouble == ""
        rack.embedders, rack.wanted = {"fake:late": WordsEmbedder("late")}, "fake:late"
        await until(lambda: clock.sleepers == 1)
        clock.advance(LOOK_AGAIN)
        await embedding.wait_until_open()
        assert await embedding.query("tea") is not None


async def test_a_query_waits_no_longer_than_the_deadline_and_the_next_one_finds_it_warm() -> None:
    embedder, clock = WordsEmbedder(), SteppedClock()
    embedder.answers.clear()
    async with asyncio.timeout(5), embedding_of(Rack(slow=embedder), clock) as embedding:
        query = asyncio.create_task(embedding.query("tea"))
        await until(lambda: bool(embedder.asked) and clock.sleepers > 0)
        clock.advance(DEADLINE)
        assert await query is None
        assert embedding.trouble == SLOW
        # Nothing piles up, and nobody waits for what is late.
        assert await embedding.query("coffee") is None
        assert embedder.asked == [("tea",)]
        embedder.answers.set()
        await until(lambda: embedding.trouble == "")
        await asyncio.sleep(0)
        assert await embedding.query("coffee") is not None
        assert embedding.trouble == ""


async def test_an_embedder_that_failed_is_left_alone_for_a_while() -> None:
    embedder, clock = WordsEmbedder(), SteppedClock()
    embedder.trouble = "the model does not fit into memory"
    async with asyncio.timeout(5), embedding_of(Rack(bad=embedder), clock) as embedding:
        assert await embedding.query("tea") is None
        assert await embedding.query("tea") is None
        assert len(embedder.asked) == 1
        assert embedding.trouble == "the model does not fit into memory"
        embedder.trouble = ""
        clock.advance(FIRST_PAUSE)
        assert await embedding.query("tea") is not None
        assert embedding.trouble == ""


async def test_an_embedder_that_cannot_be_opened_says_why_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    rack, clock = Rack(), SteppedClock()
    rack.wanted = "fake:missing"
    async with asyncio.timeout(5), embedding_of(rack, clock) as embedding:
        assert await embedding.query("tea") is None
        assert embedding.trouble == "fake:missing: there is no such embedder here"
        await until(lambda: clock.sleepers == 1)
        clock.advance(FIRST_PAUSE)
        await until(lambda: len(rack.opened) == 2)
        rack.embedders = {"fake:missing": WordsEmbedder()}
        await until(embedding_is_open(embedding), clock, FIRST_PAUSE)
        assert embedding.trouble == ""
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


async def test_texts_wait_for_a_query_that_is_asked_and_for_the_pause_after_a_failure() -> None:
    embedder, clock = WordsEmbedder(), SteppedClock()
    embedder.answers.clear()
    async with asyncio.timeout(5), embedding_of(Rack(one=embedder), clock) as embedding:
        query = asyncio.create_task(embedding.query("tea"))
        await until(lambda: bool(embedder.asked))
        texts = asyncio.create_task(embedding.embed(["a note"]))
        await until(lambda: clock.sleepers > 0)
        assert embedder.asked == [("tea",)]
        embedder.trouble = "out of memory"
        embedder.answers.set()
        assert await query is None
        await until(texts.done)
        with pytest.raises(EmbeddingError):
            texts.result()
        texts = asyncio.create_task(embedding.embed(["a note"]))
        await until(lambda: clock.sleepers > 0)
        assert len(embedder.asked) == 2
        embedder.trouble = ""
        clock.advance(2 * FIRST_PAUSE)
        assert len(await texts) == 1


def embedding_is_open(embedding: Embedding) -> Callable[[], bool]:
    return lambda: bool(embedding.name)
