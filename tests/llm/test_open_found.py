"""What could answer here, as a person who chooses is told."""

import pytest
from pydantic import SecretStr

from goclaw.common.config.schema import Config, ProviderSettings
from goclaw.common.net.ollama import OllamaServer, PulledModel
from goclaw.llm.open import BEST_ANTHROPIC, BEST_OPENAI, find_models, key_known, key_variable, pick_default

QWEN = PulledModel("qwen3:8b", "2026-11-01", ("completion", "tools"))
TALKER = PulledModel("gemma:2b", "2026-11-03", ("completion",))


async def an_ollama() -> OllamaServer | None:
    return OllamaServer("http://127.0.0.1:11434", (TALKER, QWEN))


async def a_talker() -> OllamaServer | None:
    return OllamaServer("http://127.0.0.1:11434", (TALKER,))


async def nobody() -> OllamaServer | None:
    return None


async def test_everything_that_could_answer_is_found_the_best_first() -> None:
    env = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GROQ_API_KEY": "k"}
    found = await find_models(Config(), an_ollama, env)
    assert [each.spec for each in found.candidates] == [BEST_ANTHROPIC, BEST_OPENAI, "ollama:qwen3:8b"]
    assert found.keyed == ("groq",)
    assert (await pick_default(Config(), an_ollama, env))[0] == (found.candidates[0].spec,)


async def test_an_ollama_without_a_model_for_tools_is_no_candidate() -> None:
    found = await find_models(Config(), a_talker, {})
    assert found.candidates == () and found.ollama is not None


async def test_nothing_is_found_where_there_is_nothing() -> None:
    found = await find_models(Config(), nobody, {})
    assert (found.candidates, found.keyed, found.ollama) == ((), (), None)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("ollama", None),
        ("vllm", None),
        ("demo", None),
        ("cohere", "COHERE_API_KEY"),
    ],
)
def test_each_provider_has_its_key_variable_or_needs_none(provider: str, variable: str | None) -> None:
    assert key_variable(provider) == variable


def test_a_key_in_the_configuration_is_known() -> None:
    config = Config(providers={"groq": ProviderSettings(api_key=SecretStr("gsk_x"))})
    assert key_known(config, "groq", {}) and not key_known(config, "xai", {})
