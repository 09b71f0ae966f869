"""What a token of the window costs, by the facts of families that tell them differently."""

from typing import Any

import pytest

from goclaw.llm.ollama_facts import Footprint, OllamaEndpoint, OllamaFacts, token_bytes
from tests.llm.asking import model_ports
from tests.llm.fake_provider import FakeProvider, fake_provider, lines, refusal
from tests.llm.ollama_server import QWEN3_8B, QWEN3_TOKEN, QWEN3_WEIGHTS, knows
from tests.tables import table

GEMMA = {"block_count": 4, "attention.head_count": 8, "attention.key_length": 256, "attention.value_length": 256}
OLD = {"block_count": 32, "attention.head_count": 32, "embedding_length": 4_096}


def info(**facts: Any) -> dict[str, Any]:
    return {"general.architecture": "m", **{f"m.{key}": value for key, value in facts.items()}}


@table(
    "facts, kv_heads, expected",
    [
        (OLD | {"attention.head_count_kv": 8}, 8, 32 * 8 * (128 + 128) * 2),
        (OLD, None, 32 * 32 * (128 + 128) * 2),
        (GEMMA, [4, 4, 0, 1], 9 * 512 * 2),
        (GEMMA | {"attention.sliding_window": 1_024}, 4, 4 * 4 * 512 * 2),
        (GEMMA | {"attention.value_length": 128}, 1, 4 * 1 * (256 + 128) * 2),
        ({"block_count": 24}, 8, None),
        (GEMMA, [], None),
        (GEMMA, 0, None),
        ({"attention.key_length": 64}, 8, None),
        (OLD | {"block_count": "32"}, 8, None),
        ({}, None, None),
    ],
)
def test_a_token_costs_the_keys_and_values_of_all_layers(
    facts: dict[str, Any], kv_heads: object, expected: int | None
) -> None:
    assert token_bytes(info(**facts), kv_heads) == expected


async def asked(fake: FakeProvider, name: str = "qwen3:8b", *, memory: bool = True) -> OllamaFacts:
    async with model_ports() as ports:
        return await OllamaEndpoint(ports.http, fake.url, name, {}).facts(memory=memory)


async def test_everything_is_asked_in_three_questions() -> None:
    async with fake_provider() as fake:
        knows(fake, loaded=8_192)
        found = await asked(fake)
        assert [received.path for received in fake.received] == ["/api/show", "/api/tags", "/api/ps"]
    assert found.longest == 40_960 and found.capabilities == {"completion", "tools"}
    assert found.footprint == Footprint(QWEN3_TOKEN, QWEN3_WEIGHTS, 8_192)


async def test_a_name_without_a_tag_is_the_latest() -> None:
    async with fake_provider() as fake:
        knows(fake, name="qwen3:latest")
        assert (await asked(fake, "qwen3")).footprint == Footprint(QWEN3_TOKEN, QWEN3_WEIGHTS)


async def test_heads_that_differ_by_layer_are_in_a_verbose_answer_only() -> None:
    async with fake_provider() as fake:
        knows(fake, heads=[8, 0] * 18)
        found = await asked(fake)
    assert found.footprint and found.footprint.token == QWEN3_TOKEN // 2


async def test_nothing_is_asked_of_memory_that_is_not_wanted() -> None:
    async with fake_provider() as fake:
        knows(fake)
        assert (await asked(fake, memory=False)).footprint is None
        assert [received.path for received in fake.received] == ["/api/show"]


@pytest.mark.parametrize("path", ["/api/tags", "/api/ps"])
@pytest.mark.parametrize("reply", [refusal(404, {}), lines([]), lines({"models": 7}), lines({"models": [None]})])
async def test_a_list_that_cannot_be_had_leaves_the_rest(path: str, reply: Any) -> None:
    async with fake_provider() as fake:
        knows(fake)
        fake.routes[path] = reply
        found = await asked(fake)
    assert found.longest == 40_960
    assert found.footprint == (None if path == "/api/tags" else Footprint(QWEN3_TOKEN, QWEN3_WEIGHTS))


async def test_a_model_of_the_cloud_takes_nothing_of_this_memory() -> None:
    async with fake_provider() as fake:
        knows(fake)
        fake.routes["/api/show"] = lines({"model_info": dict(QWEN3_8B), "remote_host": "https://ollama.com:443"})
        assert (await asked(fake)).footprint is None
