"""Ollama: which model is found, whose version is in the name, and what is said when it is not there."""

from collections.abc import AsyncIterator

import pytest

from goclaw.common.core.clock import SteppedClock
from goclaw.errors import ConfigError, EmbeddingError
from goclaw.memory.embedders.base import quantise
from goclaw.memory.embedders.remote import LOOKED_AT_EVERY, find_ollama
from goclaw.memory.embedding import open_embedder
from tests.memory.embedders.fake_server import FakeEmbeddings, fake_embeddings, vector

SPEC = "ollama:nomic-embed-text"
NOMIC = {"digest": "0a109f422b47e3a30ba2b10eca18548e944e8a23073ee3f3e947efcf3c45e59f", "modified_at": "2026-01-01"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeEmbeddings]:
    async with fake_embeddings() as running:
        running.models["nomic-embed-text:latest"] = dict(NOMIC)
        yield running


async def test_questions_and_answers_are_marked_as_the_model_wants_them(
    fake: FakeEmbeddings, clock: SteppedClock
) -> None:
    async with open_embedder(SPEC, fake.config(SPEC), clock) as embedder:
        assert not fake.asked
        (asking,) = await embedder.embed(["who?"], query=True)
        await embedder.embed(["me"])
    assert asking == quantise(vector("search_query: who?"))
    assert [body["input"] for body in fake.asked] == [["search_query: who?"], ["search_document: me"]]
    assert {(body["model"], body["truncate"]) for body in fake.asked} == {("nomic-embed-text", True)}


async def test_a_new_version_of_the_model_has_another_name_within_a_minute(
    fake: FakeEmbeddings, clock: SteppedClock
) -> None:
    async with open_embedder(SPEC, fake.config(SPEC), clock) as embedder:
        await embedder.embed(["one"])
        assert embedder.name == "ollama:nomic-embed-text:latest@0a109f422b47"
        fake.models["nomic-embed-text:latest"]["digest"] = "sha256:ffff9f422b47e3a3"
        clock.advance(LOOKED_AT_EVERY)
        await embedder.embed(["two"])
        assert embedder.name == "ollama:nomic-embed-text:latest@ffff9f422b47"


async def test_a_model_that_is_not_pulled_says_how_to_pull_it(fake: FakeEmbeddings, clock: SteppedClock) -> None:
    with pytest.raises(ConfigError, match=r"memory.embedder: .* try `ollama pull bge-m3`"):
        async with open_embedder("ollama:bge-m3", fake.config("ollama:bge-m3"), clock):
            pytest.fail("it opened")


async def test_a_model_that_is_removed_meanwhile_fails_until_it_is_back(
    fake: FakeEmbeddings, clock: SteppedClock
) -> None:
    async with open_embedder(SPEC, fake.config(SPEC), clock) as embedder:
        model = fake.models.pop("nomic-embed-text:latest")
        clock.advance(LOOKED_AT_EVERY)
        with pytest.raises(EmbeddingError, match="ollama pull nomic-embed-text"):
            await embedder.embed(["one"])
        fake.models["nomic-embed-text:latest"] = model
        assert await embedder.embed(["one"])


async def test_an_ollama_that_is_gone_is_told_with_what_helps(clock: SteppedClock) -> None:
    async with fake_embeddings() as gone:
        pass
    config = gone.config(SPEC, base_url=gone.url.replace("//", "//me:canary-password-0815@"))
    with pytest.raises(EmbeddingError, match=r"does not answer at http://127.*; start it \(`ollama serve`\)") as raised:
        async with open_embedder(SPEC, config, clock):
            pytest.fail("it opened")
    assert raised.value.retry_after and "canary" not in str(raised.value)


async def test_one_that_ends_while_it_is_used_is_told_as_well(clock: SteppedClock) -> None:
    async with fake_embeddings() as fake:
        fake.models["nomic-embed-text:latest"] = dict(NOMIC)
        opened = open_embedder(SPEC, fake.config(SPEC), clock)
        embedder = await opened.__aenter__()
    with pytest.raises(EmbeddingError, match="start it"):
        await embedder.embed(["one"])
    await opened.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("models", "found"),
    [
        ({"qwen3:8b": ["completion"], "nomic-embed-text:latest": ["embedding"]}, "ollama:nomic-embed-text"),
        ({"bge-m3:567m": ["embedding"], "qwen3:8b": ["completion", "tools"]}, "ollama:bge-m3:567m"),
        ({"mxbai-embed-large:latest": [], "llama3:8b": []}, "ollama:mxbai-embed-large"),
        ({"qwen3:8b": ["completion"]}, ""),
        ({}, ""),
    ],
)
async def test_what_is_found_is_the_usual_model_or_one_that_embeds(
    fake: FakeEmbeddings, models: dict[str, list[str]], found: str
) -> None:
    fake.models = {name: {"capabilities": abilities} for name, abilities in models.items()}
    assert await find_ollama(fake.config(SPEC)) == found
