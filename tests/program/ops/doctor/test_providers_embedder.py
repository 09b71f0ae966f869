"""The doctor embeds a text, and says what came of it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from goclaw.common.config.load import Loaded
from goclaw.common.config.schema import Config
from goclaw.extensions.local_embedders import local
from goclaw.program.ops.doctor.providers import check_embedder
from tests.memory.embedders.fake_server import KEY, FakeEmbeddings, fake_embeddings

SPEC = "openai-chat:text-embedding-3-small"


@pytest.fixture
async def fake() -> AsyncIterator[FakeEmbeddings]:
    async with fake_embeddings() as running:
        yield running


def loaded(config: Config) -> Loaded:
    return Loaded(config, None, (), ())


async def test_one_that_answers_is_named_with_its_model(fake: FakeEmbeddings) -> None:
    (finding,) = await check_embedder(loaded(fake.config(SPEC, api_key=KEY)))
    assert finding.verdict == "ok" and finding.text.startswith(SPEC) and finding.text.endswith("3 dimensions")


@pytest.mark.parametrize(
    ("status", "said"), [(401, "refused the key; check providers.openai-chat.api_key"), (500, "HTTP 500")]
)
async def test_one_that_does_not_is_a_problem_in_words(fake: FakeEmbeddings, status: int, said: str) -> None:
    fake.status = status
    (finding,) = await check_embedder(loaded(fake.config(SPEC, api_key=KEY)))
    assert finding.verdict == "problem" and said in finding.text and KEY not in finding.line()


async def test_a_model_that_is_missing_is_a_problem_with_its_remedy(fake: FakeEmbeddings) -> None:
    (finding,) = await check_embedder(loaded(fake.config("ollama:bge-m3")))
    assert finding.verdict == "problem" and "ollama pull bge-m3" in finding.text


async def test_none_is_fine_and_says_how_to_have_one(fake: FakeEmbeddings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LIBRARY", "no_such_library")
    config = fake.config("ollama").model_copy(update={"memory": Config().memory})
    (finding,) = await check_embedder(loaded(config))
    assert finding.verdict == "ok" and "words only" in finding.text and "ollama pull nomic-embed-text" in finding.remedy


@pytest.mark.parametrize("memory", [{"enabled": False}, {"embedder": "none"}])
async def test_one_that_is_not_wanted_is_not_looked_for(memory: dict[str, Any]) -> None:
    (finding,) = await check_embedder(loaded(Config.model_validate({"memory": memory})))
    assert (finding.verdict, finding.text) == ("ok", "off; searches compare words only")


async def test_a_python_that_is_none_is_a_problem_even_where_nobody_was_named(fake: FakeEmbeddings) -> None:
    given = {"providers": {"ollama": {"base_url": fake.url}}, "memory": {"embedder_python": "/nowhere/python"}}
    (finding,) = await check_embedder(loaded(Config.model_validate(given)))
    assert finding.verdict == "problem" and "memory.embedder_python: /nowhere/python" in finding.text
