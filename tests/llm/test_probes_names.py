"""Servers list their models, each in its own way; one that does not is named with the reason."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from goclaw.common.config.schema import Config
from goclaw.common.core.clock import RealClock
from goclaw.common.net import open_client
from goclaw.errors import ConfigError, ModelError
from goclaw.llm.probes import all_names, model_names, usable_providers
from tests.llm.fake_provider import FakeProvider, Reply, fake_provider, lines, refusal

KEY = "sk-0123456789abcdef"


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_client() as client:
        yield client


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


def config(**providers: dict[str, Any]) -> Config:
    return Config.model_validate({"providers": {name.replace("_", "-"): each for name, each in providers.items()}})


@pytest.fixture(autouse=True)
def lists(fake: FakeProvider) -> None:
    """Its replies are lists, which are asked for by GET."""
    fake.lists = True


async def test_anthropic_is_asked_in_its_own_way(fake: FakeProvider, http: aiohttp.ClientSession) -> None:
    fake.will(lines({"data": [{"id": "claude-b"}, {"id": "claude-a"}], "has_more": False}))
    here = config(anthropic={"base_url": f"{fake.url}/v1", "api_key": KEY})
    assert await model_names("anthropic", here, http, RealClock()) == ["claude-a", "claude-b"]
    (asked,) = fake.received
    assert (asked.path, asked.headers["x-api-key"]) == ("/v1/models", KEY) and "anthropic-version" in asked.headers


@pytest.mark.parametrize("listed", [{"data": [{"id": "m"}]}, [{"id": "m"}], {"data": [{"id": "models/m"}]}])
async def test_compatible_servers_differ_in_the_shape(
    fake: FakeProvider, http: aiohttp.ClientSession, listed: Any
) -> None:
    fake.will(lines(listed))
    assert await model_names("together", config(together={"base_url": fake.url}), http, RealClock()) == ["m"]


async def test_embedders_of_an_ollama_answer_nobody(fake: FakeProvider, http: aiohttp.ClientSession) -> None:
    rows = [
        {"name": "nomic", "modified_at": "1", "capabilities": ["embedding"]},
        {"name": "qwen3", "modified_at": "1", "capabilities": ["completion"]},
    ]
    fake.routes["/api/tags"] = lines({"models": rows})
    assert await model_names("ollama", config(ollama={"base_url": fake.url}), http, RealClock()) == ["qwen3"]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (refusal(401, {"error": {"message": "Incorrect API key provided"}}), "refused the key"),
        (lines({"object": "error"}), "unreadable data"),
        (Reply([b"<html>"], type="text/html"), "unreadable data"),
        (Reply([], status=302, headers={"location": "https://elsewhere.example"}), "another address"),
    ],
)
async def test_a_server_that_does_not_list_is_named_beside_those_that_do(
    fake: FakeProvider, http: aiohttp.ClientSession, reply: Reply, said: str
) -> None:
    async with fake_provider() as other:
        other.lists = True
        other.will(lines({"data": [{"id": "m"}]}))
        fake.will(reply)
        both = config(groq={"base_url": fake.url, "api_key": KEY}, together={"base_url": other.url})
        listed, faults = await all_names(["groq", "together"], both, http, RealClock())
    assert listed == ["together:m"]
    assert list(faults) == ["groq"] and said in faults["groq"] and KEY not in faults["groq"]


async def test_without_a_key_nobody_is_asked(http: aiohttp.ClientSession) -> None:
    for provider in ("anthropic", "openai-chat"):
        with pytest.raises(ConfigError, match="no key; set"):
            await model_names(provider, Config(), http, RealClock())
    with pytest.raises(ModelError, match="Ollama does not answer"):
        await model_names("ollama", config(ollama={"base_url": "http://127.0.0.1:9"}), http, RealClock())


def test_those_with_a_key_or_an_address_are_worth_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert list(usable_providers(config(vllm={"base_url": "http://127.0.0.1:8000/v1"}))) == [
        "ollama",
        "anthropic",
        "vllm",
    ]
